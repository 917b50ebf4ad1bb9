# SPDX-License-Identifier: BSD-3-Clause
"""Compares two outputs of one program, apart from times.

Nobody says which figures of a program are results and which are times. So a program runs over TCP
twice. Figures that differ between these two runs are not compared, and neither are lines that speak
of time or speed. All others must be the same.

Pure.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")
_SPEED = re.compile(
    r"time|second|\bsecs?\b|rate|flop|[kmg]i?b/s|[kmg]bps|\b[mu]s\b|usec|speed|bandwidth|latency|"
    r"wall|cpu|perf|elapsed|clock|date|load|gup",
    re.IGNORECASE,
)

Shape = str  # a line with each number replaced
Figures = tuple[str, ...]


def parts(text: str, times: str = "") -> dict[Shape, list[Figures]]:
    """The numbers of @text: for each shape of a line, those of its lines in order. @times: a
    pattern of further lines that are times."""
    found: dict[Shape, list[Figures]] = defaultdict(list)
    for line in text.splitlines():
        if line.strip() and not (_SPEED.search(line) or (times and re.search(times, line))):
            shape = " ".join(_NUMBER.sub("#", line).split())
            found[shape].append(tuple(_NUMBER.findall(line)))
    return found


@dataclass(frozen=True)
class Difference:
    """@shape: of the line. @there and @here: its figures over TCP and over the other way, or how
    many such lines each has."""

    shape: Shape
    there: str
    here: str

    def __str__(self) -> str:
        return f"'{self.shape[:60]}': {self.there} over TCP, {self.here} here"


@dataclass(frozen=True)
class Outcome:
    """@figures: that were compared."""

    figures: int
    differences: tuple[Difference, ...]


def compare(tcp: list[str], other: str, times: str = "") -> Outcome:
    """@tcp: outputs of two or more runs over TCP."""
    first, *more = (parts(text, times) for text in tcp)
    here = parts(other, times)
    figures, differences = 0, []
    for shape, lines in first.items():
        if any(len(run.get(shape, ())) != len(lines) for run in more):
            continue  # their number is not a result
        mine = here.get(shape, [])
        if len(mine) != len(lines):
            differences.append(Difference(shape, f"{len(lines)} lines", f"{len(mine)} lines"))
            continue
        for at, values in enumerate(lines):
            alike = [all(run[shape][at][i] == v for run in more) for i, v in enumerate(values)]
            figures += sum(alike)
            wrong = [i for i, same in enumerate(alike) if same and mine[at][i] != values[i]]
            differences += [Difference(shape, values[i], mine[at][i]) for i in wrong]
    return Outcome(figures, tuple(differences))
