# SPDX-License-Identifier: BSD-3-Clause
"""Where frames go, by what the switches are told. Kept until they are told something else: a page
asks for the same path again and again, and there may be very many rules."""

from .follow import Frame, Journey, Tables
from .graph import Graph
from .rules import Program

KEPT = 1024


class Paths:
    def __init__(self) -> None:
        self._wanted: dict[int, Program] | None = None
        self._tables: Tables
        self._kept: dict[tuple[int, int, Frame], Journey] = {}

    def journey(
        self, graph: Graph, wanted: dict[int, Program], port: tuple[int, int], frame: Frame
    ) -> Journey:
        """Of a frame that comes into @port (switch, port) from a host. @wanted: another object
        whenever something in it is another."""
        if wanted is not self._wanted:
            self._tables = Tables(graph, wanted)
            self._wanted = wanted
            self._kept.clear()
        at = (*port, frame)
        if at not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[at] = self._tables.send(*at)
        return self._kept[at]
