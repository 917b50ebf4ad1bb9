# SPDX-License-Identifier: BSD-3-Clause
"""Trees where some switches are away: they forward by the rules that they have, and cannot be told
others.

Pure. What such a switch copies to its neighbours it goes on copying, so those links have to be in
the tree, and no other of its links can be: else a frame would circle. One that no member needs is
left out of the tree, so that none of its neighbours sends it anything to copy.
"""

from collections.abc import Iterable

from .graph import Graph
from .rules import Bucket, Does, Group, Key, Out, Program, copies

Port = tuple[int, int]
Cable = tuple[Port, Port]  # the lower end first


def copied_to(program: Program, key: Key) -> set[int]:
    """The ports that the rule @key of @program copies a frame to."""
    does = program.get(key)
    actions = [a for bucket in copies(does) for a in bucket.actions] if does else []
    return {action.port for action in actions if isinstance(action, Out)}


def assumed(graph: Graph, trees: dict[Key, set[Port]], switch: int) -> Program:
    """The rules of one that nobody has read: it copies to those that copy to it. @trees: the ports
    that switches copy to, by rule."""
    found: Program = {}
    for key, ports in trees.items():
        back = sorted(graph.links[p][1] for p in ports if graph.links.get(p, (None,))[0] == switch)
        if back:
            found[key] = Does((Group(False, tuple(Bucket(None, (Out(p),)) for p in back)),))
    return found


class _Parts:
    """Which switches are joined already."""

    def __init__(self, switches: Iterable[int]):
        self._parent = {each: each for each in switches}

    def of(self, switch: int) -> int:
        while self._parent[switch] != switch:
            switch = self._parent[switch]
        return switch

    def join(self, a: int, b: int) -> bool:
        """False: they were joined before."""
        a, b = self.of(a), self.of(b)
        self._parent[a] = b
        return a != b


def _idle(graph: Graph, members: set[int], copied: dict[int, set[int]]) -> set[int]:
    """Those that are away that no member is or, of those that are away as well, copies to."""
    used = set()
    new = graph.away & members
    while new:
        used |= new
        ends = {(s, port) for s in new for port in copied[s]}
        new = {graph.links[e][0] for e in ends if e in graph.links} & graph.away - used
    return graph.away - used


def _span(graph: Graph, without: set[int], copied: dict[int, set[int]], weight) -> set[Cable]:
    """Of all switches but @without: first what those that are away copy to, then what weighs
    least."""

    def usable(end: Port) -> bool:
        return end[0] not in without and (end[0] not in graph.away or end[1] in copied[end[0]])

    cables = [(a, b) for a, b in graph.links.items() if a < b and usable(a) and usable(b)]
    cables.sort(key=lambda c: (not {c[0][0], c[1][0]} & graph.away, weight(c[0]), c))
    parts = _Parts(graph.ports)
    return {(a, b) for a, b in cables if parts.join(a[0], b[0])}


def _pruned(cables: set[Cable], members: set[int]) -> set[Cable]:
    """Without branches that lead to no member."""
    while True:
        ends = [end[0] for cable in cables for end in cable]
        bare = {s for s in ends if ends.count(s) == 1 and s not in members}
        if not bare:
            return cables
        cables = {c for c in cables if not {c[0][0], c[1][0]} & bare}


def _joined(graph: Graph, cables: set[Cable], members: set[int]) -> int:
    """Into how few parts the members fall."""
    parts = _Parts(graph.ports)
    for a, b in cables:
        parts.join(a[0], b[0])
    return len({parts.of(m) for m in members})


def tree_around(
    graph: Graph, frozen: dict[int, Program], members: set[int], key: Key, weight
) -> set[Port]:
    """Ports, both ends of each link, of a tree that spans @members. @frozen: the rules of those
    that are away. @key: of the rule that copies along this tree."""
    copied = {s: copied_to(frozen.get(s, {}), key) for s in graph.away}
    cables = _span(graph, _idle(graph, members, copied), copied, weight)
    everything = _span(graph, set(), copied, weight)
    if _joined(graph, everything, members) < _joined(graph, cables, members):
        cables = everything
    return {end for cable in _pruned(cables, members) for end in cable}
