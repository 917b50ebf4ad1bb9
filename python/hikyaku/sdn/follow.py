# SPDX-License-Identifier: BSD-3-Clause
"""A network of flow tables in software: follows a frame through installed rules, as switches do.

Pure. Tests prove properties of the rules with it. The controller uses it to draw the path or tree
of a frame.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .graph import Graph
from .rules import (
    ADMIT,
    CONTROLLER,
    IN_PORT,
    Bucket,
    Does,
    Goto,
    Group,
    Key,
    Out,
    Program,
    SetDst,
)


class Frame(NamedTuple):
    src: int
    dst: int
    eth_type: int = 0x0800


@dataclass
class Journey:
    """The fate of a frame."""

    delivered: list[tuple[int, int, int]] = field(default_factory=list)  # switch, port, its dst
    crossed: list[tuple[int, int]] = field(default_factory=list)  # (switch, port) it left by
    to_controller: int = 0
    looped: bool = False


class _Shape(NamedTuple):
    """The fields that a rule matches, without their values, behind its priority."""

    before: int  # the priority, negated: shapes sort in the order in which a switch tries them
    in_port: bool
    dst_mask: int
    src: bool
    eth_type: bool

    @classmethod
    def of(cls, key: Key) -> "_Shape":
        m = key.match
        mask = 0 if m.dst is None else m.dst_mask
        in_port, src, eth_type = (f is not None for f in (m.in_port, m.src, m.eth_type))
        return cls(-key.priority, in_port, mask, src, eth_type)

    def values(self, in_port: int, frame: Frame) -> tuple:
        """The values that a rule of this shape has if it matches @frame."""
        return (
            in_port if self.in_port else None,
            frame.dst & self.dst_mask,
            frame.src if self.src else None,
            frame.eth_type if self.eth_type else None,
        )


class Tables:
    """@down: ports, as (switch, port), that have no carrier.

    Rules of one shape are in one dictionary, since a switch may have very many of them.
    """

    def __init__(
        self, graph: Graph, programs: dict[int, Program], down: Iterable[tuple[int, int]] = ()
    ):
        self.graph = graph
        self.down = set(down)
        self._shapes: dict[tuple[int, int], dict[_Shape, dict[tuple, Does]]] = {}
        for switch, program in programs.items():
            for key, does in program.items():
                m = key.match
                shapes = self._shapes.setdefault((switch, key.table), {})
                same = shapes.setdefault(_Shape.of(key), {})
                same[m.in_port, m.dst or 0, m.src, m.eth_type] = does
        self._shapes = {at: dict(sorted(each.items())) for at, each in self._shapes.items()}

    def find(self, switch: int, table: int, in_port: int, frame: Frame) -> Does | None:
        """The actions of the first rule that matches @frame."""
        for shape, same in self._shapes.get((switch, table), {}).items():
            does = same.get(shape.values(in_port, frame))
            if does is not None:
                return does
        return None

    def _at_switch(self, switch: int, in_port: int, frame: Frame) -> list[tuple[int, Frame]]:
        """(port, frame) that leave."""
        table, left = ADMIT, []
        while table is not None:
            found = self.find(switch, table, in_port, frame)
            table = None
            for action in found.actions if found else ():
                if isinstance(action, Goto):
                    table = action.table
                else:
                    frame = self._act(switch, action, frame, left)
        # a frame does not leave by the port it came from, unless it is told so
        return [(in_port if p == IN_PORT else p, f) for p, f in left if p != in_port]

    def _act(self, switch: int, action, frame: Frame, left: list[tuple[int, Frame]]) -> Frame:
        if isinstance(action, Out):
            left.append((action.port, frame))
        elif isinstance(action, SetDst):
            return frame._replace(dst=action.mac)
        elif isinstance(action, Group):
            for bucket in self._live(switch, action):
                copy = frame
                for each in bucket.actions:
                    copy = self._act(switch, each, copy, left)
        return frame

    def _live(self, switch: int, group: Group) -> tuple[Bucket, ...]:
        if not group.failover:
            return group.buckets
        return next(
            ((b,) for b in group.buckets if b.watch is None or (switch, b.watch) not in self.down),
            (),
        )

    def send(self, switch: int, in_port: int, frame: Frame) -> Journey:
        """A frame that comes into @switch from a host."""
        journey = Journey()
        queue = deque([(switch, in_port, frame)])
        seen = set()
        while queue:
            at = queue.popleft()
            if at in seen:  # the same frame at the same port: it would come again for ever
                journey.looped = True
                continue
            seen.add(at)
            for port, leaving in self._at_switch(*at):
                end = (at[0], port)
                if port == CONTROLLER:
                    journey.to_controller += 1
                elif end in self.down:
                    continue
                elif end in self.graph.links:
                    journey.crossed.append(end)
                    other = self.graph.links[end]
                    if other not in self.down:
                        queue.append((*other, leaving))
                else:
                    journey.delivered.append((*end, leaving.dst))
        return journey
