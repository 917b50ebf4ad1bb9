# SPDX-License-Identifier: BSD-3-Clause
"""Samples that may be compared: taken while the cores were equally far apart.

The host of a virtual machine moves virtual cores, for a second or a minute: a cache line then
takes three times as long from one to the other, and so does all that two processes tell each other
through memory. Medians of a few repeats that alternate do not even that out. So each sample comes
with the time of a cache line beside it (bench/line.h), those far from the usual are left out, and
a few more are drawn in their place. The table says how many that were.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable

# Times of a line this far apart, or less, are of one phase. Those seen were 1 : 2 : 7.
REACH = 1.5
ONCE_MORE = "once more, since cores were nearer or farther than else"


class Phases:
    def __init__(self) -> None:
        self._samples: dict[Hashable, dict[str, list[tuple[float, float | None]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._usual: float | None = None  # None: to be found anew

    def add(self, cell: Hashable, who: str, value: float, line_ns: float | None) -> None:
        """@line_ns None: not measured, and the sample is always taken."""
        self._samples[cell][who].append((value, line_ns))
        self._usual = None

    def _lines(self) -> list[float]:
        return [
            line
            for by in self._samples.values()
            for values in by.values()
            for _, line in values
            if line is not None
        ]

    @property
    def usual(self) -> float | None:
        """Nanoseconds of a line in the phase that is kept: that around which most samples lie."""
        if self._usual is None and (lines := sorted(self._lines())):
            around = [
                bisect_right(lines, line * REACH) - bisect_left(lines, line / REACH)
                for line in lines
            ]
            self._usual = lines[around.index(max(around))]
        return self._usual

    def _fits(self, line: float | None) -> bool:
        usual = self.usual
        return line is None or usual is None or usual / REACH <= line <= usual * REACH

    def kept(self, cell: Hashable, who: str) -> list[float]:
        """The samples of the usual phase; all, if none is."""
        everything = self._samples[cell][who]
        return [v for v, line in everything if self._fits(line)] or [v for v, _ in everything]

    def lacking(self, repeats: int) -> set[tuple[Hashable, str]]:
        """Cells, each with its owner, that have fewer than @repeats samples of the usual phase."""
        return {
            (cell, who)
            for cell, by in self._samples.items()
            for who, values in by.items()
            if sum(self._fits(line) for _, line in values) < repeats
        }

    def all_kept(self) -> dict[Hashable, dict[str, list[float]]]:
        return {c: {who: self.kept(c, who) for who in by} for c, by in self._samples.items()}

    def describe(self) -> dict | None:
        lines = self._lines()
        if not lines:
            return None
        return {
            "usual_ns": self.usual,
            "min_ns": min(lines),
            "max_ns": max(lines),
            "samples": len(lines),
            "left_out": sum(not self._fits(line) for line in lines),
        }
