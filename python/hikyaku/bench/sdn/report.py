# SPDX-License-Identifier: BSD-3-Clause
"""Tables of `bench sdn`: methods beside each other, for each experiment and unit."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from ..common import goals
from ..common.busy import warn_if_busy
from ..common.tables import (
    left_titled,
    median_of,
    number,
    repeats_text,
    size_text,
    spread,
)
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


def _list(title: str, rows: list[Row]) -> Table:
    """A line for each number of ranks, size and method."""
    table = left_titled(title)
    for name in ("ranks", "size", "", "median", "range"):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for r in rows:
        size = size_text(r["bytes"]) if r["bytes"] else "–"
        median = number(median_of(r))
        table.add_row(str(r["ranks"]), size, r["method"], median, f"[dim]{spread(r)}[/]")
    return table


def _fitting(title: str, rows: list[Row], console: Console) -> Table:
    """The methods beside each other, if the console is wide enough for that."""
    table = _table(title, rows)
    wanted = Measurement.get(console, console.options.update(width=10_000), table).maximum
    return table if wanted <= console.width else _list(title, rows)


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    known = experiments()
    for name, unit in dict.fromkeys((r["experiment"], r["unit"]) for r in document["rows"]):
        rows = [r for r in document["rows"] if (r["experiment"], r["unit"]) == (name, unit)]
        how = "computed, not run: " if known[name].computed else ""
        console.print(_fitting(f"{how}{known[name].about}: {unit}", rows, console))
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    if all(known[row["experiment"]].computed for row in document["rows"]):
        return
    warn_if_busy(about, console)
    console.print(
        f"Medians of {repeats_text(about['repeats'])}; {about['cpu']}, {about['cores']} cores; "
        f"virtual wires; load at start {about['load_at_start']}.",
        highlight=False,
    )
