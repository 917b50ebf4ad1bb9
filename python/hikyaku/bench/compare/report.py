# SPDX-License-Identifier: BSD-3-Clause
"""The table of a comparison: medians, ranges, and how much better or worse the second is.

Other machines on the same host slow a process down as a whole, for seconds and by five times or
more. A round in such a time says nothing about the commits. So the table also compares the values
that the better quarter of the rounds reached.
"""

import statistics

from rich.console import Console
from rich.table import Table

LOWER_IS_BETTER = ("latency_us",)


def gain(metric: str, samples: list[list[float]]) -> float:
    """By how much the second commit is better than the first: 0.02 is two percent."""
    old, new = (statistics.median(each) for each in samples)
    return old / new - 1 if metric in LOWER_IS_BETTER else new / old - 1


def quarter(metric: str, samples: list[float]) -> float:
    """The value that the better quarter of @samples reached."""
    return sorted(samples, reverse=metric not in LOWER_IS_BETTER)[len(samples) // 4]


def _text(metric: str, samples: list[float]) -> str:
    middle = statistics.median(samples)
    return f"{middle:.4g} ({min(samples):.4g} to {max(samples):.4g})"


def show(document: dict, console: Console) -> None:
    table = Table(title=f"{document['wire']}: medians of rounds, with ranges")
    table.add_column("metric")
    table.add_column("bytes", justify="right")
    for revision in document["revisions"]:
        table.add_column(revision, justify="right")
    table.add_column("median", justify="right")
    table.add_column("quarter", justify="right")
    for row in document["rows"]:
        metric, samples = row["metric"], row["samples"]
        quarters = [[quarter(metric, each)] for each in samples]
        table.add_row(
            metric,
            str(row["size"]),
            *(_text(metric, each) for each in samples),
            f"{100 * gain(metric, samples):+.1f} %",
            f"{100 * gain(metric, quarters):+.1f} %",
        )
    console.print(table)
    console.print(
        "The last columns say by how much the second commit is better: by its median, and by what"
        " the better quarter of its rounds reached."
    )
