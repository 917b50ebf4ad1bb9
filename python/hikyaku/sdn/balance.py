# SPDX-License-Identifier: BSD-3-Clause
"""Moves traffic without tags among equal ports while loads change.

DESIGN NOTES. Problem: a switch has equal ports to a host, and a path once chosen stays, however the
loads change. To follow each measurement would move paths for ever. Approach: loads and rates are
smoothed. If two equal ports differ by much in some rounds in succession, one host moves from the
loaded port to the idle one. It moves only if that clearly lowers the load.

Invariants, which tests/sdn/test_balance.py simulates:

    A move lowers the greater of both loads by GAIN. With constant demands there are few moves, and
    none after them, also under noise that is smaller than GAIN.
    A switch moves one host in SETTLE, and the network MOVES hosts in a round.
    A host that moves again soon waits twice as long: demands that alternate cause few moves.

Rejected: to choose all paths again, which moves hosts that are well where they are. To move a host
that is the only load of its port, which only moves the load.

Pure. A round is one reading of the ports' counters. The counters of hosts are read only at switches
that are uneven, since there are many.
"""

from collections import defaultdict
from typing import NamedTuple

from .network import Network, Port

SMOOTHED = 0.25  # the weight of the newest reading
FLOOR = 1e6  # bits a second: smaller differences do not matter
GAIN = 0.15  # of the greater load: the least that a move takes from it
STEADY = 3  # rounds in succession that a switch is uneven before a host moves
SETTLE = 6.0  # seconds between two moves at a switch: loads then show the first one
MOVES = 4  # in the network, in a round
HOLD_FIRST, HOLD_MAX = 30.0, 960.0  # seconds that a host stays after a move

Place = tuple[int, int]  # a switch and a host's address


class Move(NamedTuple):
    switch: int
    host: int
    old: int  # ports
    new: int
    rate: float  # bits a second


class _Hold(NamedTuple):
    until: float
    pause: float


class Balancer:
    def __init__(self) -> None:
        self._load: dict[Port, float] = {}
        self._rates: dict[int, dict[int, float]] = {}  # of an uneven switch, by host
        self._read: dict[Place, tuple[int, float]] = {}  # bytes, and when
        self._uneven: dict[int, int] = {}  # rounds in succession, by switch
        self._settles: dict[int, float] = {}  # until when, by switch
        self._holds: dict[Place, _Hold] = {}

    def round(self, network: Network) -> list[int]:
        """Takes the newest loads. Returns the uneven switches, whose hosts must be counted."""
        for port, load in network.load.items():
            self._load[port] = _smooth(self._load.get(port), load)
        self._load = {port: load for port, load in self._load.items() if port in network.load}
        graph = network.graph
        uneven = [
            switch
            for switch in sorted(graph.ports.keys() - graph.disconnected)
            if any(self._is_uneven(switch, ports) for ports in _choices(network, switch))
        ]
        self._uneven = {switch: self._uneven.get(switch, 0) + 1 for switch in uneven}
        self._rates = {s: rates for s, rates in self._rates.items() if s in self._uneven}
        self._read = {at: n for at, n in self._read.items() if at[0] in self._uneven}
        return uneven

    def counted(self, switch: int, counts: dict[int, int], now: float) -> None:
        """@counts: the bytes that @switch has sent to each host. A count starts again with its
        rule."""
        rates = self._rates.setdefault(switch, {})
        for host, count in counts.items():
            before, then = self._read.get((switch, host), (count, now))
            self._read[switch, host] = count, now
            if now > then and count >= before:
                rates[host] = _smooth(rates.get(host), (count - before) * 8 / (now - then))

    def moves(self, network: Network, now: float) -> list[Move]:
        """Moves hosts in @network.paths, and returns the moves."""
        found: list[Move] = []
        for switch, rounds in self._uneven.items():
            if len(found) == MOVES:
                break
            if rounds < STEADY or now < self._settles.get(switch, now):
                continue
            if best := self._best(network, switch, now):
                found.append(best)
                self._apply(network, best, now)
        return found

    def _is_uneven(self, switch: int, ports: tuple[int, ...]) -> bool:
        """Can a move gain enough? At best it halves the difference."""
        loads = [self._load.get((switch, port), 0.0) for port in ports]
        return max(loads) - min(loads) > max(FLOOR, 2 * GAIN * max(loads))

    def _best(self, network: Network, switch: int, now: float) -> Move | None:
        """The move that takes most from the loaded one of two equal ports."""
        best: tuple[float, Move] | None = None
        for ports, hosts in _choices(network, switch).items():
            if not self._is_uneven(switch, ports):
                continue
            load = {port: self._load.get((switch, port), 0.0) for port in ports}
            old = max(ports, key=lambda p: (load[p], p))
            new = min(ports, key=lambda p: (load[p], p))
            for host in hosts:
                rate = self._rates.get(switch, {}).get(host, 0.0)
                gain = load[old] - max(load[old] - rate, load[new] + rate)
                held = (hold := self._holds.get((switch, host))) and now < hold.until
                if network.paths.get((switch, host)) != old or held or gain < GAIN * load[old]:
                    continue
                if best is None or gain > best[0]:
                    best = gain, Move(switch, host, old, new, rate)
        return best and best[1]

    def _apply(self, network: Network, move: Move, now: float) -> None:
        place = move.switch, move.host
        network.paths[place] = move.new
        self._load[move.switch, move.old] -= move.rate
        self._load[move.switch, move.new] = self._load.get((move.switch, move.new), 0) + move.rate
        self._settles[move.switch] = now + SETTLE
        hold = self._holds.get(place)
        again = hold and now - hold.until < hold.pause
        pause = min(2 * hold.pause, HOLD_MAX) if again else HOLD_FIRST
        self._holds = {at: each for at, each in self._holds.items() if now < each.until + HOLD_MAX}
        self._holds[place] = _Hold(now + pause, pause)


def _smooth(before: float | None, newest: float) -> float:
    return newest if before is None else before + SMOOTHED * (newest - before)


def _choices(network: Network, switch: int) -> dict[tuple[int, ...], list[int]]:
    """The equal ports among which @switch chooses, with the hosts behind them."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for host, (target, _) in sorted(network.graph.hosts.items()):
        if target != switch and target in network.graph.ports:
            ports = network.graph.next_ports(switch, target)
            if len(ports) > 1:
                found[ports].append(host)
    return found
