# SPDX-License-Identifier: BSD-3-Clause
"""Allreduce: spreads its steps over the redundant links, by the source.

In each step of an Allreduce every rank sends to one other rank. On a switch with several equal
ports, a rule by the *source* rank selects one. No link then carries more than its share of a step.
The steps are those of recursive doubling (short messages) and of the ring (long ones), as in Open
MPI's `tuned`. A switch with a choice has at most one entry for each source, fewer where cubes of
ranks take the same port. Other switches forward by destination, as p2p does.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from ..cubes import cover, exactly, tags
from ..network import Job, Network
from ..priorities import TAGGED
from ..repair import repaired
from ..rules import FORWARD, Does, Key, Match
from ..tag import Function
from .p2p import deliver

NAME = "allreduce"
SERVES = "each step's flows spread over the redundant links, by source"
FUNCTIONS = frozenset({Function.ALLREDUCE})
GROUPS = False

_IMPROVED_RANKS = 256  # with more ranks, loads even out, and this would take long
_IMPROVEMENTS = 32  # the most exceptions
_PASSES = 3  # over all sources, since early choices do not know later ones

Choice = tuple[int, tuple[int, ...]]  # a switch, and the equal ports
Flow = tuple[int, int, int]  # step, switch, port


def steps(ranks: list[int]) -> list[dict[int, int]]:
    """Each step as source: destination. The first is the ring's."""
    n = len(ranks)
    ring = [{ranks[i]: ranks[(i + 1) % n] for i in range(n)}]
    doubling = []
    k = 1
    while k < n:
        doubling.append({ranks[i]: ranks[i ^ k] for i in range(n) if i ^ k < n})
        k *= 2
    return [s for s in ring + doubling if n > 1]


class Spread:
    """The choice of a port for each (switch, ports to choose from, source rank), and a few
    exceptions for single destinations."""

    def __init__(self, network: Network, job: Job):
        self.graph = network.graph
        self.at = network.located(job)
        self.steps = steps(sorted(self.at))
        self.port_of: dict[tuple[Choice, int], int] = {}
        self.exceptions: dict[tuple[Choice, int, int], int] = {}  # the last one is the destination
        self.load: Counter = Counter()  # (step, switch, port): flows
        self.total: Counter = Counter()  # (switch, port): flows of all steps except the ring's
        for _ in range(_PASSES):
            for source in self.at:
                self._settle(source)
        if len(self.at) <= _IMPROVED_RANKS:
            for _ in range(_IMPROVEMENTS):
                if not self._improve():
                    break

    def _port(self, choice: Choice, source: int, target: int) -> int:
        single = self.exceptions.get((choice, source, target))
        return self.port_of.get((choice, source), choice[1][0]) if single is None else single

    def _hops(self, source: int, target: int) -> list[tuple[Choice, int]]:
        """The switches where frames from @source to @target have a choice, with the port that they
        take."""
        at, end = self.at[source][0], self.at[target][0]
        found = []
        while at != end:
            ports = self.graph.next_ports(at, end)
            if not ports:
                break
            found.append(((at, ports), self._port((at, ports), source, target)))
            at = self.graph.links[at, found[-1][1]][0]
        return found

    def _pair(self, source: int, target: int) -> list[Flow]:
        ends = [(choice[0], port) for choice, port in self._hops(source, target)]
        numbers = [n for n, step in enumerate(self.steps) if step.get(source) == target]
        return [(n, *end) for n in numbers for end in ends]

    def _targets(self, source: int) -> set[int]:
        return {step[source] for step in self.steps if source in step}

    def _flows(self, source: int) -> list[Flow]:
        return [flow for target in self._targets(source) for flow in self._pair(source, target)]

    def _cost(self, flows: list[Flow]) -> int:
        """The increase of the sum of squares of all loads by @flows. Counts the loads of each step,
        and those of all recursive doubling together."""
        mine = Counter(flow[1:] for flow in flows if flow[0])
        cost = sum(2 * self.load[flow] + 1 for flow in flows)
        return cost + sum(n * (2 * self.total[end] + n) for end, n in mine.items())

    def _count(self, flows: list[Flow], sign: int) -> None:
        for flow in flows:
            self.load[flow] += sign
            if flow[0]:
                self.total[flow[1:]] += sign

    def _settle(self, source: int) -> None:
        """Chooses again for @source, with all others unchanged."""
        if any(s == source for _, s in self.port_of):
            self._count(self._flows(source), -1)
        known: set[Choice] = set()

        def fresh() -> list[Choice]:
            choices = [choice for t in self._targets(source) for choice, _ in self._hops(source, t)]
            return [choice for choice in choices if len(choice[1]) > 1 and choice not in known]

        while choices := fresh():
            known.add(choices[0])
            costs = {}
            for port in choices[0][1]:
                self.port_of[choices[0], source] = port
                costs[port] = self._cost(self._flows(source))
            self.port_of[choices[0], source] = min(costs, key=lambda p: (costs[p], p))
        self._count(self._flows(source), 1)

    def _improve(self) -> bool:
        """Takes one flow away from the port that has most, if that helps."""
        if not self.total:
            return False
        worst = max(self.total, key=lambda end: (self.total[end], end))
        best: tuple[int, tuple[Choice, int, int], int] | None = None
        for source in self.at:
            for target in sorted(self._targets(source)):
                hops = self._hops(source, target)
                if worst not in [(choice[0], port) for choice, port in hops]:
                    continue
                self._count(self._pair(source, target), -1)
                now = self._cost(self._pair(source, target))
                for choice, taken in hops:
                    key = (choice, source, target)
                    before = self.exceptions.get(key)
                    for port in choice[1]:
                        self.exceptions[key] = port
                        gain = now - self._cost(self._pair(source, target))
                        if port != taken and gain > 0 and (best is None or gain > best[0]):
                            best = (gain, key, port)
                    if before is None:
                        del self.exceptions[key]
                    else:
                        self.exceptions[key] = before
                self._count(self._pair(source, target), 1)
        if best is None:
            return False
        _, key, port = best
        self._count(self._pair(*key[1:]), -1)
        self.exceptions[key] = port
        self._count(self._pair(*key[1:]), 1)
        return True


def spread_of(network: Network, job: Job) -> Spread:
    """Kept for as long as neither links, the switches that are disconnected nor places of
    ranks change."""
    graph = network.graph
    links = frozenset(graph.links.items()), frozenset(graph.disconnected)
    what = (tuple(network.located(job).items()), links)
    known = network.kept.get((NAME, job.number))
    if known is None or known[0] != what:
        known = network.kept[NAME, job.number] = (what, Spread(network, job))
    return known[1]


def rules(network: Network, job: Job) -> Iterable[tuple[int, Key, Does]]:
    graph, spread = network.graph, spread_of(network, job)
    at = spread.at
    for ((switch, _), source, rank), port in sorted(spread.exceptions.items()):
        dst, mask = tags(
            job.number,
            function=Function.ALLREDUCE,
            source=exactly(source),
            destination=exactly(rank),
            group=False,
        )
        key = Key(FORWARD, TAGGED + 6, Match(dst=dst, dst_mask=mask))
        choices = network.spares(switch, at[rank][0], port)
        yield from repaired(network, switch, choices, key, job.number)
    by_way: dict[Choice, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (choice, source), port in sorted(spread.port_of.items()):
        by_way[choice][port].append(source)
    for switch in graph.ports:
        yield from deliver(switch, job, at, TAGGED + 8)
        by_ports: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for rank, (target, _) in at.items():
            ports = graph.next_ports(switch, target)
            if target != switch and (switch, ports) in by_way:
                by_ports[ports].append(rank)
        for ports, ranks in by_ports.items():
            sources = by_way[switch, ports]
            involved = [rank for some in sources.values() for rank in some]
            target = at[ranks[0]][0]
            for port, some in sources.items():
                for source in cover(some, involved):
                    for destination in cover(ranks, job.ranks):
                        dst, mask = tags(
                            job.number,
                            function=Function.ALLREDUCE,
                            source=source,
                            destination=destination,
                            group=False,
                        )
                        key = Key(FORWARD, TAGGED + 4, Match(dst=dst, dst_mask=mask))
                        choices = network.spares(switch, target, port)
                        yield from repaired(network, switch, choices, key, job.number)
