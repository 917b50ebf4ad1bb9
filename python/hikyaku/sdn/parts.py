# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a network between which no path is left, the nodes in each, and the links to repair.

Pure.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .names import in_order

NAMED = 8  # nodes of a part, and parts, that a sentence names; it counts the others


class Interface(NamedTuple):
    """A node's interface, @at a switch; or at itself, if its link is down."""

    node: str
    name: str
    at: Hashable


class Lost(NamedTuple):
    """A link that is down, between two switches or between an interface and its switch."""

    a: Hashable
    b: Hashable
    name: str


@dataclass(frozen=True)
class Separation:
    """@parts: the nodes of each part, the smallest part first. @links: those whose repair joins the
    parts again, as far as they are known."""

    parts: tuple[tuple[str, ...], ...]
    links: tuple[str, ...]

    def __str__(self) -> str:
        if len(self.parts) == 2:
            return " cannot reach ".join(map(_listed, self.parts))
        more = len(self.parts) - NAMED
        shown = self.parts if more <= 1 else self.parts[-NAMED:]
        rest = f"; and between {more} other parts" if more > 1 else ""
        return f"no path leads between {'; '.join(map(_listed, shown))}{rest}"

    def fix(self, repair: str) -> str:
        """@repair: the command that repairs the links that follow it, or "" if there is none."""
        if not self.links:
            return "add a link between their switches"
        if repair:
            return f"{repair} {' '.join(self.links)}"
        return f"repair the link {', '.join(self.links)}"


def _listed(part: tuple[str, ...]) -> str:
    more = len(part) - NAMED
    return ", ".join(part) if more <= 1 else f"{', '.join(part[:NAMED])} and {more} others"


class Joined:
    """Sets of vertices that paths join (union-find)."""

    def __init__(self) -> None:
        self._to: dict[Hashable, Hashable] = {}

    def of(self, vertex: Hashable) -> Hashable:
        """The vertex that stands for the set of @vertex."""
        while (to := self._to.get(vertex, vertex)) != vertex:
            self._to[vertex] = vertex = self._to.get(to, to)
        return vertex

    def join(self, a: Hashable, b: Hashable) -> bool:
        """Were they apart?"""
        a, b = self.of(a), self.of(b)
        self._to[a] = b
        return a != b


def separation(
    interfaces: Iterable[Interface],
    links: Iterable[tuple[Hashable, Hashable]],
    lost: Iterable[Lost] = (),
) -> Separation | None:
    """@links: those that are up, between switches. @lost: those that are down. None: every node
    reaches every other one. Nodes may have further interfaces in other parts: networks that are
    separate by design."""
    joined = Joined()
    for a, b in links:
        joined.join(a, b)
    interfaces = list(interfaces)
    parts: dict[Hashable, list[Interface]] = defaultdict(list)
    places: dict[str, set[Hashable]] = defaultdict(set)
    for each in interfaces:
        parts[joined.of(each.at)].append(each)
        places[each.node].add(joined.of(each.at))
    if any(places.keys() == {each.node for each in part} for part in parts.values()) or not parts:
        return None
    # a node in several parts is called by its interface in each
    named = [
        {i.node if len(places[i.node]) == 1 else f"{i.node} {i.name}" for i in p}
        for p in parts.values()
    ]
    to_repair = _rejoining(joined, set(parts), lost)
    ordered = [tuple(sorted(part, key=in_order)) for part in named]
    return Separation(tuple(sorted(ordered, key=lambda p: (len(p), p))), tuple(to_repair))


def _rejoining(joined: Joined, apart: set[Hashable], lost: Iterable[Lost]) -> list[str]:
    """The names of lost links that join the sets @apart again; those between two of them first."""

    def place(link: Lost) -> tuple[int, str]:
        return len({joined.of(link.a), joined.of(link.b)} - apart), link.name

    chosen = []
    for link in sorted(lost, key=place):
        if len({joined.of(each) for each in apart}) == 1:
            break
        if joined.join(link.a, link.b):
            chosen.append(link.name)
    return chosen
