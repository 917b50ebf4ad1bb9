# SPDX-License-Identifier: BSD-3-Clause
"""Moves traffic without tags among equal ports while loads change.

DESIGN NOTES. Problem: a switch has equal ports to a host, and a path once chosen stays, however the
loads change. To follow each measurement would move paths for ever. Approach: loads are smoothed. If
two equal ports differ by much, the controller counts the hosts behind them for some rounds. Then
one host moves from the loaded port to the idle one, if that clearly lowers the load.

Invariants, which tests/sdn/test_balance.py simulates:

    A move lowers the greater of both loads by GAIN. With constant demands there are few moves, and
    none after them, also under noise that is smaller than GAIN.
    A switch moves one host in SETTLE, and the network MOVES hosts in a round.
    A host that moves again soon waits twice as long: demands that alternate cause few moves.
    The only load of a port stays, also if it comes in bursts. The loads of ports and the rates of
    hosts are therefore means over the same rounds. The switch does not count both at one moment. So
    what a port sent in the newest round may be of any host, in a move's favour or not.

Rejected: to choose all paths again, which moves hosts that are well where they are. To move a host
that is the only load of its port, which only moves the load.

Pure. A round is one reading of the ports' counters. The counters of hosts are read only at switches
that are uneven, since there are many.
"""

from collections import defaultdict, deque
from typing import NamedTuple

from .network import Network, Port

SMOOTHED = 0.25  # the weight of the newest reading
FLOOR = 1e6  # bits a second: smaller differences do not matter
GAIN = 0.15  # of the greater load: the least that a move takes from it
STEADY = 3  # rounds that a switch is uneven before a host moves
WINDOW = 8  # rounds over which the rates of an uneven switch are means
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


class _Reading(NamedTuple):
    when: float
    bytes: dict[int, int]  # by host
    bits: dict[int, float]  # by port, since the first reading


class _Uneven:
    """The traffic of an uneven switch, by its newest readings."""

    def __init__(self) -> None:
        self._readings: deque[_Reading] = deque(maxlen=1 + WINDOW)

    def counted(self, counts: dict[int, int], load: dict[int, float], now: float) -> None:
        bits = dict.fromkeys(load, 0.0)
        if self._readings:
            last = self._readings[-1]
            if now <= last.when:
                return
            for port, rate in load.items():
                bits[port] = last.bits.get(port, 0.0) + rate * (now - last.when)
            for host in [h for h, n in counts.items() if n < last.bytes.get(h, 0)]:
                for reading in self._readings:  # its count has started again
                    reading.bytes.pop(host, None)
        self._readings.append(_Reading(now, dict(counts), bits))

    @property
    def rounds(self) -> int:
        return max(0, len(self._readings) - 1)

    def load(self, port: int) -> float:
        return self._sent(port, self._readings[0])

    def newest(self, port: int) -> float:
        """The part of load() that is of the newest round."""
        return self._sent(port, self._readings[-2])

    def _sent(self, port: int, since: _Reading) -> float:
        last = self._readings[-1]
        bits = last.bits.get(port, 0.0) - since.bits.get(port, 0.0)
        return bits / (last.when - self._readings[0].when)

    def rate(self, host: int) -> float:
        """0 if it was not counted in all rounds."""
        first, last = self._readings[0], self._readings[-1]
        bytes_ = last.bytes.get(host, 0) - first.bytes.get(host, last.bytes.get(host, 0))
        return bytes_ * 8 / (last.when - first.when)


class Balancer:
    def __init__(self) -> None:
        self._newest: dict[Port, float] = {}
        self._load: dict[Port, float] = {}
        self._uneven: dict[int, _Uneven] = {}  # by switch
        self._settles: dict[int, float] = {}  # until when, by switch
        self._holds: dict[Place, _Hold] = {}

    def round(self, network: Network) -> list[int]:
        """Takes the newest loads. Returns the uneven switches, whose hosts must be counted."""
        self._newest = dict(network.load)
        self._load = {
            port: _smooth(self._load.get(port), new) for port, new in self._newest.items()
        }
        graph = network.graph
        uneven = [
            switch
            for switch in sorted(graph.ports.keys() - graph.disconnected)
            if any(self._is_uneven(switch, ports) for ports in _choices(network, switch))
        ]
        self._uneven = {switch: self._uneven.get(switch) or _Uneven() for switch in uneven}
        return uneven

    def counted(self, switch: int, counts: dict[int, int], now: float) -> None:
        """@counts: the bytes that @switch has sent to each host. A count starts again with its
        rule."""
        load = {port: rate for (at, port), rate in self._newest.items() if at == switch}
        self._uneven[switch].counted(counts, load, now)

    def moves(self, network: Network, now: float) -> list[Move]:
        """Moves hosts in @network.paths, and returns the moves."""
        found: list[Move] = []
        for switch, uneven in self._uneven.items():
            if len(found) == MOVES:
                break
            if uneven.rounds < STEADY or now < self._settles.get(switch, now):
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
        uneven = self._uneven[switch]
        best: tuple[float, Move] | None = None
        for ports, hosts in _choices(network, switch).items():
            if not self._is_uneven(switch, ports):
                continue
            load = {port: uneven.load(port) for port in ports}
            old = max(ports, key=lambda p: (load[p], p))
            new = min(ports, key=lambda p: (load[p], p))
            doubt = uneven.newest(old)
            for host in hosts:
                rate = uneven.rate(host)
                gain = load[old] - max(load[old] - rate, load[new] + rate + doubt)
                held = (hold := self._holds.get((switch, host))) and now < hold.until
                if network.paths.get((switch, host)) != old or held or gain < GAIN * load[old]:
                    continue
                if best is None or gain > best[0]:
                    best = gain, Move(switch, host, old, new, rate)
        return best and best[1]

    def _apply(self, network: Network, move: Move, now: float) -> None:
        place = move.switch, move.host
        network.paths[place] = move.new
        for port, rate in ((move.old, -move.rate), (move.new, move.rate)):
            at = move.switch, port
            self._load[at] = self._load.get(at, 0.0) + rate
        self._uneven[move.switch] = _Uneven()  # its readings are of the port that it left
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
