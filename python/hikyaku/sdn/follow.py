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
from .rules import ADMIT, CONTROLLER, IN_PORT, Bucket, Goto, Group, Key, Out, Program, SetDst


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


def matches(key: Key, in_port: int, frame: Frame) -> bool:
    m = key.match
    return (
        (m.in_port is None or m.in_port == in_port)
        and (m.dst is None or frame.dst & m.dst_mask == m.dst)
        and (m.src is None or frame.src == m.src)
        and (m.eth_type is None or frame.eth_type == m.eth_type)
    )


class Tables:
    """@down: ports, as (switch, port), that have no carrier."""

    def __init__(
        self, graph: Graph, programs: dict[int, Program], down: Iterable[tuple[int, int]] = ()
    ):
        self.graph = graph
        self.down = set(down)
        self._sorted: dict[tuple[int, int], list] = {}
        for switch, program in programs.items():
            for key, does in sorted(program.items(), key=lambda item: -item[0].priority):
                self._sorted.setdefault((switch, key.table), []).append((key, does))

    def _at_switch(self, switch: int, in_port: int, frame: Frame) -> list[tuple[int, Frame]]:
        """(port, frame) that leave."""
        table, left = ADMIT, []
        while table is not None:
            found = next(
                (d for k, d in self._sorted.get((switch, table), []) if matches(k, in_port, frame)),
                None,
            )
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
