# SPDX-License-Identifier: BSD-3-Clause
"""Trees around disconnected switches: these forward by their rules, which cannot change.

Pure. A disconnected switch goes on copying frames to its neighbours. Those links must be in the
tree, and no other of its links can be: a frame would circle. If no member needs the switch, the
tree leaves it out, and no neighbour sends it frames to copy.
"""

from .graph import Graph
from .parts import Joined
from .rules import Bucket, Does, Group, Key, Out, Program, copies, within

Port = tuple[int, int]
Cable = tuple[Port, Port]  # the lower end first


def copied_to(program: Program, key: Key) -> set[int]:
    """The ports to which the rule @key of @program copies a frame, or those rules that are for
    single addresses of @key (exact.py)."""
    does = program.get(key)
    each = [does] if does else [d for k, d in program.items() if within(k, key)]
    actions = [a for does in each for bucket in copies(does) for a in bucket.actions]
    return {action.port for action in actions if isinstance(action, Out)}


def assumed(graph: Graph, trees: dict[Key, set[Port]], switch: int) -> Program:
    """The assumed rules of a switch that were never read: it copies to the switches that copy to
    it. @trees: the ports that switches copy to, by rule."""
    found: Program = {}
    for key, ports in trees.items():
        back = sorted(graph.links[p][1] for p in ports if graph.links.get(p, (None,))[0] == switch)
        if back:
            found[key] = Does((Group(False, tuple(Bucket(None, (Out(p),)) for p in back)),))
    return found


def _idle(graph: Graph, members: set[int], copied: dict[int, set[int]]) -> set[int]:
    """The disconnected switches that no member needs: no member, and none copied to by a member."""
    used = set()
    new = graph.disconnected & members
    while new:
        used |= new
        ends = {(s, port) for s in new for port in copied[s]}
        new = {graph.links[e][0] for e in ends if e in graph.links} & graph.disconnected - used
    return graph.disconnected - used


def _span(graph: Graph, without: set[int], copied: dict[int, set[int]], weight) -> set[Cable]:
    """A spanning tree of all switches except @without. Links that disconnected switches copy to
    come first, then those with the least weight."""

    def usable(end: Port) -> bool:
        return end[0] not in without and (
            end[0] not in graph.disconnected or end[1] in copied[end[0]]
        )

    cables = [(a, b) for a, b in graph.links.items() if a < b and usable(a) and usable(b)]
    cables.sort(key=lambda c: (not {c[0][0], c[1][0]} & graph.disconnected, weight(c[0]), c))
    parts = Joined()
    return {(a, b) for a, b in cables if parts.join(a[0], b[0])}


def _pruned(cables: set[Cable], members: set[int]) -> set[Cable]:
    """@cables without the branches that lead to no member."""
    while True:
        ends = [end[0] for cable in cables for end in cable]
        bare = {s for s in ends if ends.count(s) == 1 and s not in members}
        if not bare:
            return cables
        cables = {c for c in cables if not {c[0][0], c[1][0]} & bare}


def _joined(graph: Graph, cables: set[Cable], members: set[int]) -> int:
    """The number of parts into which the members fall."""
    parts = Joined()
    for a, b in cables:
        parts.join(a[0], b[0])
    return len({parts.of(m) for m in members})


def tree_around(
    graph: Graph, frozen: dict[int, Program], members: set[int], key: Key, weight
) -> set[Port]:
    """The ports, both ends of each link, of a tree that spans @members. @frozen: the rules of
    disconnected switches. @key: of the rule that copies along the tree."""
    copied = {s: copied_to(frozen.get(s, {}), key) for s in graph.disconnected}
    cables = _span(graph, _idle(graph, members, copied), copied, weight)
    everything = _span(graph, set(), copied, weight)
    if _joined(graph, everything, members) < _joined(graph, cables, members):
        cables = everything
    return {end for cable in _pruned(cables, members) for end in cable}
