# SPDX-License-Identifier: BSD-3-Clause
"""The input of the algorithms: the network, its loads, the paths of other traffic, and a job.

Pure.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import lru_cache

from .disconnected import tree_around
from .graph import Graph
from .rules import Key, Program

Port = tuple[int, int]  # switch, port
_FAR = 1 << 30


@dataclass
class Job:
    number: int
    name: str = ""
    ranks: dict[int, int] = field(default_factory=dict)  # rank in MPI_COMM_WORLD: address
    groups: dict[int, frozenset[int]] = field(default_factory=dict)  # number: ranks
    lease: int | None = None  # seconds after which the job is removed without renewal

    def members(self, group: int) -> frozenset[int]:
        """The members of @group. Group 0 is all ranks, unless it was declared."""
        if group in self.groups:
            return self.groups[group]
        return frozenset(self.ranks) if group == 0 else frozenset()

    def group_numbers(self) -> list[int]:
        return sorted({0, *self.groups})


@lru_cache(maxsize=4096)
def turned(ports: tuple[int, ...], first: int) -> tuple[int, ...]:
    """@ports, rotated so that @first comes first. Cached, since many hosts have the same."""
    at = ports.index(first)
    return (*ports[at:], *ports[:at])


@dataclass
class Network:
    """@load: the measured bits a second that leave by a port. @paths: the chosen one of equal
    ports, by switch and host."""

    graph: Graph = field(default_factory=Graph)
    load: dict[Port, float] = field(default_factory=dict)
    paths: dict[tuple[int, int], int] = field(default_factory=dict)  # (switch, address): port
    trees: Counter[Port] = field(default_factory=Counter)  # number of trees by port
    standing: dict[Key, set[Port]] = field(default_factory=dict)  # trees in the switches, by rule
    grown: dict[Key, set[Port]] = field(default_factory=dict)  # the trees that this update wants
    kept: dict = field(default_factory=dict)  # the state of algorithms, by (name, job)
    quiet: set[Port] = field(default_factory=set)  # ports whose frames do not go to the controller
    disputed: set[int] = field(default_factory=set)  # addresses of ranks heard at two ports
    frozen: dict[int, Program] = field(default_factory=dict)  # the rules of disconnected switches

    def located(self, job: Job) -> dict[int, Port]:
        """The place of each rank; without ranks whose host or switch is unknown or disputed."""
        hosts = self.graph.hosts
        there = {mac: at for mac, at in hosts.items() if at[0] in self.graph.ports}
        there = {mac: at for mac, at in there.items() if mac not in self.disputed}
        return {r: there[mac] for r, mac in sorted(job.ranks.items()) if mac in there}

    def spares(self, switch: int, target: int, first: int) -> tuple[int, ...]:
        """@first, followed by the other ports to @target in the order in which they replace it."""
        return turned(self.graph.next_ports(switch, target), first)


def choose_paths(network: Network) -> None:
    """Chooses one of the equal ports for each switch and host, by its load. The measured load
    counts first, then the number of hosts assigned to it. A choice that is still possible is kept,
    so that no path moves without a reason.
    """
    graph = network.graph
    hosts = {mac: at[0] for mac, at in sorted(graph.hosts.items()) if at[0] in graph.ports}
    targets = sorted(set(hosts.values()))
    # the next ports are the same for all hosts of a switch
    ways = {t: {s: graph.next_ports(s, t) for s in graph.distances(t) if s != t} for t in targets}
    # by port: the measured load, and in the lower half the number of assigned hosts
    costs = {
        switch: {port: int(network.load.get((switch, port), 0) // 1e6) << 32 for port in ports}
        for switch, ports in graph.ports.items()
    }
    kept = {}
    for (switch, mac), port in network.paths.items():
        target = hosts.get(mac)
        if target is not None and port in ways[target].get(switch, ()):
            kept[switch, mac] = port
            costs[switch][port] += 1
    for mac, target in hosts.items():
        for switch, ports in ways[target].items():
            if (switch, mac) in kept:
                continue
            cost = costs[switch]
            best = min(ports, key=cost.__getitem__)
            cost[best] += 1
            kept[switch, mac] = best
    network.paths = kept


def tree(network: Network, members: set[int], key: Key) -> set[Port]:
    """The ports, both ends of each link, of a tree that spans the switches @members, for the rule
    @key.

    Useful parts of the standing tree stay. Then the nearest member is joined by a shortest path,
    one after the other (Takahashi and Matsuyama 1980). Among equal paths, the ports with fewest
    trees and least load win. Unreachable members are left out.
    """
    graph = network.graph
    if not members:
        return set()
    standing = network.standing.get(key, set())
    if graph.disconnected:

        def weight(port: Port) -> tuple:
            return (port not in standing, _weight(network, port))

        network.grown[key] = tree_around(graph, network.frozen, members, key, weight)
        return network.grown[key]
    inside, ports = _of_use(graph, standing, members)
    inside = inside or {min(members)}
    # the distance of each from the tree
    near = {}
    for m in members - inside:
        distances = graph.distances(m)
        near[m] = min(distances.get(s, _FAR) for s in inside)
    while near:
        nearest = min(near, key=lambda m: (near[m], m))
        far = near.pop(nearest)
        if far == _FAR:
            continue
        distance = graph.distances(nearest)
        at = min(
            (s for s in inside if distance.get(s) == far),
            key=lambda s: (_cost(network, s, nearest), s),
        )
        while at != nearest:
            port = _lightest(network, at, nearest)
            other = graph.links[at, port]
            ports |= {(at, port), other}
            at = other[0]
            inside.add(at)
            near = {m: min(n, graph.distances(m).get(at, _FAR)) for m, n in near.items()}
    network.grown[key] = ports
    return ports


def _of_use(graph: Graph, standing: set[Port], members: set[int]) -> tuple[set[int], set[Port]]:
    """The part of the standing ports that is a tree with most of @members, without other branches:
    its switches and ports. Standing ports never form a loop."""
    ways: dict[int, list[int]] = {}
    for switch, port in sorted(standing):
        if graph.links.get((switch, port)) in standing:
            ways.setdefault(switch, []).append(port)
    most, best = 0, {}
    seen: set[int] = set()
    for start in ways:
        if start in seen:
            continue
        found: dict[int, set[int]] = {start: set()}  # ports, by switch
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for port in ways[at]:
                other, far = graph.links[at, port]
                if other not in found:
                    found[at].add(port)
                    found[other] = {far}
                    queue.append(other)
        seen |= found.keys()
        if len(members & found.keys()) > most:
            most, best = len(members & found.keys()), found
    bare = [s for s, ports in best.items() if len(ports) == 1 and s not in members]
    while bare:
        end = bare.pop()
        other, far = graph.links[end, best.pop(end).pop()]
        best[other].discard(far)
        if len(best[other]) == 1 and other not in members:
            bare.append(other)
    return set(best), {(switch, port) for switch, ports in best.items() for port in ports}


def _weight(network: Network, port: Port) -> tuple[float, float]:
    other = network.graph.links[port]
    return (
        network.trees[port] + network.trees[other],
        (network.load.get(port, 0) + network.load.get(other, 0)) // 1e6,
    )


def _lightest(network: Network, switch: int, target: int) -> int:
    ports = network.graph.next_ports(switch, target)
    return min(ports, key=lambda p: (_weight(network, (switch, p)), p))


def _cost(network: Network, switch: int, target: int) -> tuple[float, float]:
    return _weight(network, (switch, _lightest(network, switch, target)))
