# SPDX-License-Identifier: BSD-3-Clause
"""Allreduce: spreads its steps over the redundant links, by the source.

In each step of an Allreduce every rank sends to one other rank. On a switch with several equal
ports, a rule by the *source* rank selects one. No link then carries more than its share of a step.
The steps are those of recursive doubling (short messages) and of the ring (long ones), as in Open
MPI's `tuned`, for any number of ranks. Those of all ranks count, and those of each declared group:
a communicator of some ranks. Where ports are alike for the job, it takes those that other jobs use
less, unless it is large. A switch with a choice has at most one entry for each source, fewer where
cubes of ranks take the same port. Other switches forward by destination, as p2p does.
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
_PLANNED_GROUPS = 8  # the most communicators that count besides that of all ranks
_PASSES = 3  # over all sources, since early choices do not know later ones

Choice = tuple[int, tuple[int, ...]]  # a switch, and the equal ports
Flow = tuple[int, int, int]  # step, switch, port


def steps(ranks: list[int]) -> list[dict[int, int]]:
    """Each step as source: destination. The first is the ring's.

    Doubling is among a power of two of ranks. If there are more, each of the others first gives its
    data to a neighbour, and gets the result from it at the end.
    """
    n = len(ranks)
    if n < 2:
        return []
    ring = {ranks[i]: ranks[(i + 1) % n] for i in range(n)}
    extra = n - (1 << n.bit_length() - 1)
    others = {ranks[i]: ranks[i + 1] for i in range(0, 2 * extra, 2)}
    inner = [*(ranks[i] for i in range(1, 2 * extra, 2)), *ranks[2 * extra :]]
    doubling = []
    k = 1
    while k < len(inner):
        doubling.append({inner[i]: inner[i ^ k] for i in range(len(inner))})
        k *= 2
    back = {to: source for source, to in others.items()}
    return [ring, *([others, *doubling, back] if extra else doubling)]


class Spread:
    """The choice of a port for each (switch, ports to choose from, source rank), and a few
    exceptions for single destinations.

    @busy: by switch and port, the flows of other jobs in a step, on average."""

    def __init__(self, network: Network, job: Job, busy: Counter | None = None):
        self.graph = network.graph
        self.at = network.located(job)
        few = len(self.at) <= _IMPROVED_RANKS
        self.busy = busy if busy and few else Counter()
        self.steps: list[dict[int, int]] = []
        self.rings: set[int] = set()  # the numbers of these steps
        for ranks in _communicators(job, self.at):
            self.rings.add(len(self.steps))
            self.steps += steps(ranks)
        # of pairs on two switches; others have no choice
        self.numbers: dict[tuple[int, int], list[int]] = defaultdict(list)  # steps, by pair
        self.targets: dict[int, set[int]] = defaultdict(set)
        for number, step in enumerate(self.steps):
            for source, target in step.items():
                if self.at[source][0] != self.at[target][0]:
                    self.numbers[source, target].append(number)
                    self.targets[source].add(target)
        self.port_of: dict[tuple[Choice, int], int] = {}
        self.exceptions: dict[tuple[Choice, int, int], int] = {}  # the last one is the destination
        self.load: Counter = Counter()  # (step, switch, port): flows
        self.total: Counter = Counter()  # (switch, port): flows of all steps except the rings'
        self.settled: set[int] = set()
        for _ in range(_PASSES):
            for source in self.at:
                self._settle(source)
        if few:
            for _ in range(_IMPROVEMENTS):
                if not self._improve():
                    break
            if self.busy:
                self._avoid()

    def use(self) -> Counter:
        """The flows in a step, on average, by switch and port."""
        found: Counter = Counter()
        for (_, *end), flows in self.load.items():
            found[tuple(end)] += flows / len(self.steps)
        return found

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
        return [(n, *end) for n in self.numbers[source, target] for end in ends]

    def _flows(self, source: int) -> list[Flow]:
        return [flow for target in self.targets[source] for flow in self._pair(source, target)]

    def _cost(self, flows: list[Flow]) -> float:
        """The increase of the sum of squares of all loads by @flows. Counts the loads of each step
        with those of other jobs, and those of all recursive doubling together."""
        mine = Counter(flow[1:] for flow in flows if flow[0] not in self.rings)
        cost = sum(2 * (self.load[flow] + self.busy[flow[1:]]) + 1 for flow in flows)
        return cost + sum(n * (2 * self.total[end] + n) for end, n in mine.items())

    def _count(self, flows: list[Flow], sign: int) -> None:
        for flow in flows:
            self.load[flow] += sign
            if flow[0] not in self.rings:
                self.total[flow[1:]] += sign

    def _settle(self, source: int) -> None:
        """Chooses again for @source, with all others unchanged."""
        if source in self.settled:
            self._count(self._flows(source), -1)
        self.settled.add(source)
        known: set[Choice] = set()

        def fresh() -> list[Choice]:
            choices = [choice for t in self.targets[source] for choice, _ in self._hops(source, t)]
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
        best: tuple[float, tuple[Choice, int, int], int] | None = None
        for source in self.at:
            for target in sorted(self.targets[source]):
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

    def _everything(self) -> float:
        """The sum of squares of all loads, with those of other jobs."""
        squares = sum(n * n for loads in (self.load, self.total) for n in loads.values())
        return squares + sum(2 * n * self.busy[flow[1:]] for flow, n in self.load.items())

    def _avoid(self) -> None:
        """Exchanges the ports of a choice in turn, for all sources alike, if other jobs then meet
        fewer flows. One source alone could not move without meeting those of its own job."""
        for choice in sorted({choice for choice, _ in self.port_of}):
            ports = choice[1]
            found = {by: self._turned(choice, by) for by in range(len(ports))}
            costs = {}
            for by, (port_of, exceptions) in found.items():
                self._recount(port_of, exceptions)
                costs[by] = self._everything()
            self._recount(*found[min(costs, key=lambda by: (costs[by], by))])

    def _turned(self, choice: Choice, by: int) -> tuple[dict, dict]:
        ports = choice[1]
        after = {port: ports[(i + by) % len(ports)] for i, port in enumerate(ports)}

        def turn(chosen: dict) -> dict:
            return {key: after[p] if key[0] == choice else p for key, p in chosen.items()}

        return turn(self.port_of), turn(self.exceptions)

    def _recount(self, port_of: dict, exceptions: dict) -> None:
        self.port_of, self.exceptions = port_of, exceptions
        self.load.clear()
        self.total.clear()
        for source in self.at:
            self._count(self._flows(source), 1)


def _communicators(job: Job, located: dict[int, tuple[int, int]]) -> list[list[int]]:
    """The ranks of each communicator whose steps count: all, and the largest groups."""
    everyone = frozenset(located)
    groups = {everyone.intersection(ranks) for ranks in job.groups.values()} - {everyone}
    largest = sorted((g for g in groups if len(g) > 1), key=lambda g: (-len(g), sorted(g)))
    return [sorted(each) for each in (everyone, *largest[:_PLANNED_GROUPS])]


def spread_of(network: Network, job: Job) -> Spread:
    """Kept for as long as neither links, the switches that are disconnected, places of ranks nor
    communicators change. Another job that comes or ends moves nothing."""
    graph = network.graph
    links = frozenset(graph.links.items()), frozenset(graph.disconnected)
    located = network.located(job)
    what = (tuple(located.items()), _communicators(job, located), links)
    known = network.kept.get((NAME, job.number))
    if known is None or known[0] != what:
        busy: Counter = Counter()
        for (name, number), (_, spread) in network.kept.items():
            if name == NAME and number != job.number:
                busy.update(spread.use())
        known = network.kept[NAME, job.number] = (what, Spread(network, job, busy))
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
