# SPDX-License-Identifier: BSD-3-Clause
"""Tables of `bench sdn`: methods beside each other, for each experiment and unit."""

from rich.console import Console
from rich.table import Table

from ..common import goals
from ..common.tables import left_titled, median_of, number, size_text, spread, warn_if_busy
from .run import Row, experiments


def _table(title: str, rows: list[Row]) -> Table:
    """A line for each number of ranks and size, two columns for each method."""
    methods = list(dict.fromkeys(r["method"] for r in rows))
    cells = {(r["ranks"], r["bytes"], r["method"]): r for r in rows}
    table = left_titled(title)
    for name in ["ranks", "size", *(c for m in methods for c in (m, "range"))]:
        table.add_column(name, justify="right", no_wrap=True)
    for ranks, size in dict.fromkeys((r["ranks"], r["bytes"]) for r in rows):
        line = [str(ranks), size_text(size) if size else "–"]
        for method in methods:
            cell = cells.get((ranks, size, method))
            line += [number(median_of(cell)), f"[dim]{spread(cell)}[/]"]
        table.add_row(*line)
    return table


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    known = experiments()
    for name, unit in dict.fromkeys((r["experiment"], r["unit"]) for r in document["rows"]):
        rows = [r for r in document["rows"] if (r["experiment"], r["unit"]) == (name, unit)]
        console.print(_table(f"{known[name].about}: {unit}", rows))
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    warn_if_busy(about, console)
    console.print(
        f"Medians of {about['repeats']} repeats; {about['cpu']}, {about['cores']} cores; virtual "
        f"wires; load at start {about['load_at_start']}.",
        highlight=False,
    )
