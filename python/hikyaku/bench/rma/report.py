# SPDX-License-Identifier: BSD-3-Clause
"""The table of `bench rma`."""

from rich.console import Console

from ..common.busy import warn_if_busy
from ..common.tables import left_titled, median_of, number, repeats_text, size_text, spread
from .ways import TEXTS

OPERATIONS = {
    "put_us": "put",
    "get_us": "get",
    "acc_us": "accumulate",
    "fetch_add_us": "fetch and add",
    "cas_us": "compare and swap",
    "lock_put_us": "lock, put, unlock",
}


def _of_tcp(row: dict, way: str) -> str:
    ours, tcp = median_of(row.get(way)), median_of(row.get("tcp"))
    return f"{ours / tcp:.2f}" if ours and tcp else "–"


def show(document: dict, console: Console) -> None:
    about, ways = document["machine"], document["ways"]
    shares = "tcp" in ways and len(ways) > 1
    table = left_titled("One-sided MPI: an operation and its flush, µs (lower is better)")
    table.add_column("operation", no_wrap=True)
    for name in ("size", "by", "median", "range", *(["of TCP"] if shares else [])):
        table.add_column(name, justify="left" if name == "by" else "right", no_wrap=True)
    for row in document["rows"]:
        for way in (w for w in ways if row.get(w)):
            cells = [OPERATIONS[row["metric"]], size_text(row["size"]), TEXTS[way]]
            cells += [number(median_of(row[way])), f"[dim]{spread(row[way])}[/]"]
            table.add_row(*cells, *([_of_tcp(row, way)] if shares else []))
    console.print(table)
    warn_if_busy(about, console)
    console.print(
        f"Rank 0 works on a window of rank 1, which waits in MPI. Medians of "
        f"{repeats_text(about['repeats'])}; {about['cpu']}, {about['cores']} cores, one core a "
        f"rank; {about['wire']} wire; load at start {about['load_at_start']}; "
        f"Open MPI {about['open_mpi']}.",
        highlight=False,
    )
