# SPDX-License-Identifier: BSD-3-Clause
"""The table of `bench protocols`, and where the better protocol changes."""

from rich.console import Console

from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number, repeats_text, size_text
from .run import EAGER, PROTOCOLS, RENDEZVOUS, TCP


def curve(document: dict, carrier: str, protocol: str) -> dict[int, float]:
    """Median latency by size."""
    return {
        row["size"]: row["median"]
        for row in document["rows"]
        if (row["carrier"], row["protocol"]) == (carrier, protocol)
    }


def carriers(document: dict) -> list[str]:
    return list(dict.fromkeys(row["carrier"] for row in document["rows"]))


def crossover(document: dict, carrier: str) -> int | None:
    """The size from which on rendezvous is never slower; None: eager is faster at the largest."""
    eager, other = (curve(document, carrier, p) for p in (EAGER, RENDEZVOUS))
    found = None
    for size in sorted(eager, reverse=True):
        if other[size] > eager[size]:
            break
        found = size
    return found


def crossover_text(document: dict, carrier: str) -> str:
    found = crossover(document, carrier)
    if found is None:
        return "eager at all of these sizes"
    smallest = min(curve(document, carrier, EAGER))
    if found == smallest:
        return "rendezvous at all of these sizes"
    return f"rendezvous from {size_text(found)} on"


def label(carrier: str) -> str:
    return "TCP" if carrier == TCP else f"Hikyaku, {carrier}"


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for carrier in carriers(document):
        table = left_titled(f"{label(carrier)}: latency, half round trip, µs")
        for name in ("size", *PROTOCOLS):
            table.add_column(name, justify="right", no_wrap=True)
        curves = [curve(document, carrier, protocol) for protocol in PROTOCOLS]
        for size in curves[0]:
            table.add_row(size_text(size), *(number(c[size]) for c in curves))
        console.print(table)
        console.print(f"lower: {crossover_text(document, carrier)}")
    warn_if_busy(about, console)
    console.print(
        f"own: the protocol that Open MPI chooses. Medians of {repeats_text(about['repeats'])}; "
        f"{about['cpu']}, {about['cores']} cores, one core a node; memif wire; load at start "
        f"{about['load_at_start']}; Open MPI {about['open_mpi']}.",
        highlight=False,
    )
