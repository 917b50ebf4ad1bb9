# SPDX-License-Identifier: BSD-3-Clause
"""The summary of a cell's samples: median, minimum and maximum."""

from statistics import median


def summary(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def turned(items: list, repeat: int) -> list:
    """@items, rotated by one place with each repeat, so that none is always first."""
    turn = repeat % len(items)
    return items[turn:] + items[:turn]
