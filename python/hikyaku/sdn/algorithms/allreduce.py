# SPDX-License-Identifier: BSD-3-Clause
"""Allreduce: its steps spread over the redundant links, by the source.

In each step of an Allreduce every rank sends to one other. Where a switch has several equal ports,
a rule by the *source* rank picks one; the ranks are dealt out so that in no step a link carries
more than its share. The steps counted are those of recursive doubling (short messages) and of the
ring (long ones), as Open MPI's `tuned` has them. Entries: at most one for each source on a switch
with a choice, fewer where cubes of ranks go the same way; below, they go by destination as p2p's
do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from ..cubes import cover, tags
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

_PASSES = 3  # over all sources, to mend what an earlier choice could not know

Way = tuple[int, tuple[int, ...]]  # a switch, and the ports among which it has to choose


def steps(ranks: list[int]) -> list[dict[int, int]]:
    """Each step as source: destination."""
    n = len(ranks)
    ring = [{ranks[i]: ranks[(i + 1) % n] for i in range(n)}]
    doubling = []
    k = 1
    while k < n:
        doubling.append({ranks[i]: ranks[i ^ k] for i in range(n) if i ^ k < n})
        k *= 2
    return [s for s in ring + doubling if n > 1]


class Spread:
    """The choice of a port for each (switch, ports to choose from, source rank)."""

    def __init__(self, network: Network, job: Job):
        self.graph = network.graph
        self.at = network.located(job)
        self.host = job.ranks
        self.steps = steps(sorted(self.at))
        self.choice: dict[tuple[Way, int], int] = {}
        self.load: Counter = Counter()  # (step, switch, port): flows
        for _ in range(_PASSES):
            for source in self.at:
                self._settle(source)

    def ways(self, source: int) -> list[Way]:
        """Where flows of @source have a choice, nearest first."""
        found = []
        for step in self.steps:
            target = self.at[step[source]][0] if source in step else None
            at = self.at[source][0]
            while target is not None and at != target:
                ports = self.graph.next_ports(at, target)
                if not ports:
                    break
                if len(ports) > 1 and (at, ports) not in found:
                    found.append((at, ports))
                at = self.graph.links[at, self._port((at, ports), source)][0]
        return found

    def _port(self, way: Way, source: int) -> int:
        return self.choice.get((way, source), way[1][0])

    def _flows(self, source: int) -> list[tuple[int, int, int]]:
        """(step, switch, port) that the flows of @source take."""
        found = []
        for number, step in enumerate(self.steps):
            if source not in step:
                continue
            at, target = self.at[source][0], self.at[step[source]][0]
            while at != target:
                ports = self.graph.next_ports(at, target)
                if not ports:
                    break
                port = self._port((at, ports), source)
                found.append((number, at, port))
                at = self.graph.links[at, port][0]
        return found

    def _settle(self, source: int) -> None:
        """The choices of @source anew, with all others as they are."""
        if any((way, source) in self.choice for way in self.ways(source)):
            self.load.subtract(self._flows(source))
        known = set()
        while fresh := [way for way in self.ways(source) if way not in known]:
            way = fresh[0]
            known.add(way)
            costs = {}
            for port in way[1]:
                self.choice[way, source] = port
                costs[port] = sum(2 * self.load[flow] + 1 for flow in self._flows(source))
            total = {p: sum(self.load[s, way[0], p] for s in range(len(self.steps))) for p in costs}
            self.choice[way, source] = min(costs, key=lambda p: (costs[p], total[p], p))
        self.load.update(self._flows(source))


def rules(network: Network, job: Job) -> Iterable[tuple[int, Key, Does]]:
    graph, spread = network.graph, Spread(network, job)
    at = spread.at
    by_way: dict[Way, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (way, source), port in sorted(spread.choice.items()):
        by_way[way][port].append(source)
    for switch in graph.ports:
        yield from deliver(switch, job, at, TAGGED + 6)
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
                    for destination in cover(ranks, at):
                        dst, mask = tags(
                            job.number,
                            function=Function.ALLREDUCE,
                            source=source,
                            destination=destination,
                            group=False,
                        )
                        key = Key(FORWARD, TAGGED + 4, Match(dst=dst, dst_mask=mask))
                        ways = network.spares(switch, target, port)
                        yield from repaired(network, switch, ways, key, job.number)
