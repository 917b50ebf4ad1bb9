# SPDX-License-Identifier: BSD-3-Clause
"""The summary of a cell's samples: median, minimum and maximum."""

from collections.abc import Iterable
from statistics import median
from typing import TypeVar

T = TypeVar("T")


def summary(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def turned(items: list, repeat: int) -> list:
    """@items, rotated by one place with each repeat, so that none is always first."""
    turn = repeat % len(items)
    return items[turn:] + items[:turn]


def in_turn(groups: Iterable[list[T]], repeats: int) -> list[tuple[T, int]]:
    """(item, repeat) in the order of runs: those of a group follow each other in each repeat, and
    another one is first each time."""
    kept = list(groups)
    return [(item, n) for n in range(repeats) for group in kept for item in turned(group, n)]
