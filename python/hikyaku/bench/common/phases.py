# SPDX-License-Identifier: BSD-3-Clause
"""Selects samples that were taken in the same latency phase of the machine.

Problem: a hypervisor migrates virtual CPUs, for a second or a minute. A cache line then takes three
times as long from one core to another, and so does everything between two processes. Medians over a
few alternating repeats do not remove this.

Approach: each sample comes with the time of a cache line, measured beside it (bench/line.h).
Samples taken in a minority latency phase are left out and retaken. The report says how many.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

# Two line times belong to one phase if their ratio is at most this. Observed ratios: 1 : 2 : 7.
REACH = 1.5
ONCE_MORE = "again, since the latency phase differed"
# Largest line time of near cores; the goals are for these.
NEAR_NS = 60.0


Run = TypeVar("Run")


class Phases:
    def __init__(self) -> None:
        self._samples: dict[Hashable, dict[str, list[tuple[float, float | None]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._usual: float | None = None  # None: not computed

    def add(self, cell: Hashable, who: str, value: float, line_ns: float | None) -> None:
        """@line_ns: None if it was not measured; the sample then always counts."""
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
        """The line time, in nanoseconds, that most samples are close to."""
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
        """The samples of the usual phase; all samples if there are none."""
        everything = self._samples[cell][who]
        return [v for v, line in everything if self._fits(line)] or [v for v, _ in everything]

    def lacking(self, repeats: int) -> set[tuple[Hashable, str]]:
        """The cells that have fewer than @repeats samples of the usual phase."""
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
        """Repeats the @runs whose cells have fewer than @enough samples of the usual phase.

        Each run is repeated at most @tries times. @run_of: the run that samples a cell. @once:
        performs a run; its second argument is the reason.
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
