# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `devmem measure`: by load of the CPU, a bar for each device, direction and memory."""

from typing import TYPE_CHECKING

from ..bench.common.figure import looks, plot, range_note
from ..bench.common.summary import summary
from .measure import EMULATED_NOTE, TITLE, load_name, traffic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = {
    "gbit_per_s": ("throughput", "rate, Gbit/s"),
    "latency_us": ("latency", "latency, µs"),
    "lost": ("lost frames and blocks, of all repeats", "number lost"),
    "wrong": ("frames and blocks with wrong data, of all repeats", "number wrong"),
}


def draw(document: dict) -> "Figure":
    """Shows counts of errors also if they are 0."""
    cells = {(load_name(c), traffic(c)): c for c in document["cells"]}
    loads = dict.fromkeys(load for load, _ in cells)
    look = looks(label for _, label in cells)
    note = range_note(document["repeats"])
    if document["emulated"]:
        note += "; " + EMULATED_NOTE
    with plot(len(_PANELS), TITLE, note) as (figure, panels):
        for panel, (metric, (title, unit)) in zip(panels, _PANELS.items(), strict=True):
            panel.title, panel.unit, panel.along = title, unit, "load of the CPU"
            groups = {load: {} for load in loads}
            for (load, label), c in cells.items():
                value = c[metric]
                if value is None:  # only loops and an SSD have a latency
                    continue
                groups[load][label] = value if isinstance(value, dict) else summary([value])
            panel.grouped_bars(groups, look)
    return figure
