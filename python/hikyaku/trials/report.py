# SPDX-License-Identifier: BSD-3-Clause
"""The table of `hikyaku trials`."""

from rich.console import Console

from ..bench.common.busy import warn_if_busy
from ..bench.common.tables import left_titled, number, repeats_text
from .run import HIKYAKU, TAGGED, TCP, differing


def same(row: dict) -> str:
    """A few words on the results."""
    if "missing" in row:
        return "not installed"
    if "failed" in row:
        return "failed"
    wrong = differing(row)
    return f"{wrong} differ" if wrong else f"all {row['figures']} alike"


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    table = left_titled("Seconds of a run, start included, and results compared with TCP's")
    for name in ("program", "ranks", TCP, "tagged", HIKYAKU, "of TCP", "results"):
        table.add_column(name, justify="left" if name in ("program", "results") else "right")
    for row in document["rows"]:
        cells = ["–"] * 4
        if "seconds" in row:
            times = [row["seconds"][way]["median"] for way in (TCP, TAGGED, HIKYAKU)]
            cells = [number(value) for value in (*times, times[2] / times[0])]
        table.add_row(row["name"], str(row["ranks"]), *cells, same(row))
    console.print(table)
    for row in document["rows"]:
        for text in (row.get("missing"), row.get("failed")):
            if text:
                console.print(f"{row['name']}: {text}", highlight=False, markup=False)
        for way, found in row.get("differences", {}).items():
            for each in found[:5]:
                console.print(f"{row['name']}, {way}: {each}", highlight=False, markup=False)
    warn_if_busy(about, console)
    console.print(
        f"Medians of {repeats_text(about['repeats'])}; {about['cpu']}, {about['cores']} cores; "
        "two nodes, memif.",
        highlight=False,
    )
