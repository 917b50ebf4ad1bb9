# SPDX-License-Identifier: BSD-3-Clause
"""Where hosts are, learned from their frames; when they move, and when they are forgotten.

Anybody can send a frame with the address of another host. The operator's file binds addresses to
ports, and these are believed nowhere else. Another address that was heard at two ports has *rivals*
for RIVAL_S. Ranks cannot register it meanwhile, since nobody can tell which port is right.

Pure: time is an argument.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from .graph import Graph
from .lldp import SOURCE, Port
from .rows import read_rows
from .rules import MULTICAST
from .tag import PREFIX, PREFIX_MASK, from_mac, to_mac

EXPIRY = 300.0  # seconds after which a silent host is forgotten, as bridges do
MAX_HOSTS_PER_PORT = 256
RIVAL_S = 300.0  # seconds for which a port at which an address was heard counts
MAX_RIVALS = 4096  # addresses with rivals that are remembered
MOVES, MOVES_WITHIN = 4, 20.0  # a host may move this often in this many seconds


def port_name(port: Port) -> str:
    return f"switch {port[0]} port {port[1]}"


def read_bindings(path: Path) -> dict[int, Port]:
    """Addresses that are bound to ports, by @path: lines of an address, a datapath id and a
    port."""
    form, example = "an address, a datapath id and a port", "02:00:00:00:00:07 0x1a 3"
    return dict(read_rows(path, _binding, form, example))


def _binding(words: list[str]) -> tuple[int, Port]:
    mac, switch, port = words
    return from_mac(mac), (int(switch, 0), int(port))


class Hosts:
    """Keeps the hosts of @graph. @say: reports to the operator. @counts: of refused frames."""

    def __init__(
        self, graph: Graph, say: Callable[[str], None], counts: Counter[str], expiry: float
    ):
        """@expiry: in seconds; 0: hosts are never forgotten."""
        self.expiry = expiry
        self._graph, self._say, self._counts = graph, say, counts
        self._sent: dict[int, float] = {}  # by host: the time of its last frame
        self.bound: dict[int, Port] = {}  # by the operator
        self._heard: dict[int, dict[Port, float]] = {}  # by address: other ports, last time
        self._misplaced: set[tuple[int, Port]] = set()  # reported: bound to another port
        self._moves: dict[int, list[float]] = {}  # by host: the times of its latest moves
        self._frames: dict[tuple[int, Port], int] = {}  # by host and port: a switch's count

    def learn(self, port: Port, mac: int, now: float) -> bool:
        """A frame from @mac came into @port. Returns whether the graph has changed."""
        graph = self._graph
        if port in graph.links or port[1] not in graph.ports.get(port[0], ()):
            return False
        if not self._may_be_at(mac, port):
            return False
        if graph.hosts.get(mac) == port:
            self._sent[mac] = now
            return False
        if mac in graph.hosts:
            self.hear(mac, port, now)
        if sum(at == port for at in graph.hosts.values()) >= MAX_HOSTS_PER_PORT:
            self._counts["too_many_hosts"] += 1
            return False
        if mac in graph.hosts:
            if not self._may_move(mac, port, now):
                return False
            was = port_name(graph.hosts[mac])
            self._say(f"host {to_mac(mac)} has moved from {was} to {port_name(port)}")
            self.hear(mac, graph.hosts[mac], now)
        graph.hosts[mac] = port
        self._sent[mac] = now
        return True

    def _may_be_at(self, mac: int, port: Port) -> bool:
        if mac == 0 or mac & MULTICAST or mac & PREFIX_MASK == PREFIX or mac == SOURCE:
            self._counts["bad_source"] += 1
            return False
        if self.bound.get(mac, port) != port:
            self._misplace(mac, port)
            return False
        return True

    def bind(self, bound: dict[int, Port]) -> None:
        """Binds addresses to ports, and forgets those that are elsewhere."""
        self.bound = bound
        hosts = self._graph.hosts
        for mac in [mac for mac, port in bound.items() if hosts.get(mac, port) != port]:
            del hosts[mac]

    def _misplace(self, mac: int, port: Port) -> None:
        self._counts["misplaced"] += 1
        if (mac, port) not in self._misplaced and len(self._misplaced) < MAX_RIVALS:
            self._misplaced.add((mac, port))
            self._say(
                f"{port_name(port)}: frames from {to_mac(mac)}, which is bound to "
                f"{port_name(self.bound[mac])}: not believed"
            )

    def hear(self, mac: int, port: Port, now: float) -> None:
        """Notes that @mac was heard at @port, where it is not, or is no longer."""
        if mac not in self._heard and len(self._heard) >= MAX_RIVALS:
            del self._heard[next(iter(self._heard))]
        self._heard.setdefault(mac, {})[port] = now

    def rivals(self, mac: int, now: float) -> list[Port]:
        """The other ports, which are up, at which the unbound address @mac was heard lately."""
        if mac in self.bound:
            return []
        graph = self._graph
        return sorted(
            port
            for port, heard in self._heard.get(mac, {}).items()
            if port != graph.hosts.get(mac)
            and now - heard < RIVAL_S
            and port[1] in graph.ports.get(port[0], ())
            and port not in graph.links  # else it was heard there before probes were
        )

    def _may_move(self, mac: int, port: Port, now: float) -> bool:
        """Limits the moves of a host: each makes the controller compute and write rules."""
        moves = [at for at in self._moves.get(mac, ()) if now - at < MOVES_WITHIN]
        if len(moves) < MOVES:
            self._moves[mac] = [*moves, now]
            return True
        self._counts["moves"] += 1
        if len(moves) == MOVES:
            self._moves[mac] = [*moves, now]  # reported once, and again after a calm period
            self._say(
                f"host {to_mac(mac)} sends at {port_name(self._graph.hosts[mac])} and at "
                f"{port_name(port)} in turn: not moved for now; two hosts have its address, or "
                "cables among hosts make a loop"
            )
        return False

    def counted(self, frames: dict[tuple[int, Port], int], now: float) -> None:
        """@frames: the frames that switches have counted, by host and port.

        Frames of known hosts do not reach the controller; a growing count shows that they send. A
        count starts again with its rule.
        """
        for (mac, port), count in frames.items():
            before = self._frames.get((mac, port))
            self._frames[mac, port] = count
            more = count > (before if before is not None and count >= before else 0)
            if more and before is not None and self._graph.hosts.get(mac) == port:
                self._sent[mac] = now

    def expire(self, now: float, keep: Iterable[int] = ()) -> list[int]:
        """Forgets the hosts that have been silent for long, except @keep, and returns them.

        The time of a host begins when its switch is connected.
        """
        graph = self._graph
        kept = set(keep)
        self._sent = {mac: self._sent.get(mac, now) for mac in graph.hosts}
        for mac in kept & graph.hosts.keys():
            self._sent[mac] = now
        for mac, (switch, _) in graph.hosts.items():
            if switch not in graph.ports or switch in graph.disconnected:
                self._sent[mac] = now
        gone = [m for m, at in self._sent.items() if self.expiry and now - at > self.expiry]
        for mac in gone:
            where = port_name(graph.hosts.pop(mac))
            self._say(f"host {to_mac(mac)} at {where} has been silent: forgotten")
            del self._sent[mac]
        self._moves = {mac: at for mac, at in self._moves.items() if mac in graph.hosts}
        self._heard = {m: h for m, h in self._heard.items() if now - max(h.values()) < RIVAL_S}
        self._frames = {k: n for k, n in self._frames.items() if graph.hosts.get(k[0]) == k[1]}
        return gone

    def delay(self, seconds: float) -> None:
        """The controller did not run for @seconds: no host was silent in this time."""
        self._sent = {mac: at + seconds for mac, at in self._sent.items()}
        self._heard = {
            mac: {port: at + seconds for port, at in ports.items()}
            for mac, ports in self._heard.items()
        }
