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
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

# Times of a line this far apart, or less, are of one phase. Those seen were 1 : 2 : 7.
REACH = 1.5
ONCE_MORE = "once more, since cores were nearer or farther than else"
# Of cores that are near a line takes at most so long: what goals are given for.
NEAR_NS = 60.0


Run = TypeVar("Run")


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

    def draw_more(
        self,
        runs: Sequence[Run],
        run_of: Callable[[Hashable, str], Run | None],
        enough: int,
        tries: int,
        once: Callable[[Run, str], None],
    ) -> None:
        """Repeats those of @runs, at most @tries times each, of which a cell has fewer than @enough
        samples of the usual phase. @run_of: which draws a cell's; @once: does one, and is told why.
        """
        for _ in range(tries):
            for run in runs:
                if any(run_of(cell, who) == run for cell, who in self.lacking(enough)):
                    once(run, ONCE_MORE)

    def all_kept(self) -> dict[Hashable, dict[str, list[float]]]:
        return {c: {who: self.kept(c, who) for who in by} for c, by in self._samples.items()}

    def describe(self) -> dict | None:
        lines = self._lines()
        if not lines:
            return None
        return {
            "usual_ns": self.usual,
            "near": self.usual <= NEAR_NS,
            "min_ns": min(lines),
            "max_ns": max(lines),
            "samples": len(lines),
            "left_out": sum(not self._fits(line) for line in lines),
        }
