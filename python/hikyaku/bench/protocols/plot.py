# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench protocols`: a panel for TCP and for each mode."""

from typing import TYPE_CHECKING

from ..common.figure import looks, machine_note, plot, same_range
from .report import carriers, label
from .run import PROTOCOLS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = looks(PROTOCOLS)


def draw(document: dict) -> "Figure":
    shown = carriers(document)
    title = "Forced protocols of Open MPI, two ranks, one core each"
    with plot(len(shown), title, machine_note(document["machine"])) as (figure, panels):
        for panel, carrier in zip(panels, shown, strict=True):
            panel.title = label(carrier)
            panel.unit = "latency, half round trip, µs"
            rows = [row for row in document["rows"] if row["carrier"] == carrier]
            panel.sizes(
                {p: {r["size"]: r for r in rows if r["protocol"] == p} for p in PROTOCOLS}, _LOOKS
            )
        same_range(*panels)
    return figure
