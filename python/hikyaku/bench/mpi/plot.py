# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench mpi`: a panel for each wire and metric."""

from typing import TYPE_CHECKING

from ..common.figure import looks, machine_note, plot, same_range
from .report import UNITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = {
    "tcp": "TCP",
    "hikyaku": "Hikyaku",
    "raw": "raw DPDK, same frame",
    "shm": "shared memory, same node",
    "auth": "Hikyaku, frames with tags",
    "seal": "Hikyaku, encrypted frames",
}
_LOOKS = looks(_LABELS.values())


def draw(document: dict) -> "Figure":
    pairs = list(dict.fromkeys((r["wire"], r["metric"]) for r in document["rows"]))
    about = document["machine"]
    title = f"Open MPI {about['open_mpi']}, two ranks, one core each"
    with plot(len(pairs), title, machine_note(about)) as (figure, panels):
        for panel, (wire, metric) in zip(panels, pairs, strict=True):
            rows = [r for r in document["rows"] if (r["wire"], r["metric"]) == (wire, metric)]
            panel.title = f"{wire} wire: {UNITS[metric].partition(',')[0]}"
            panel.unit = UNITS[metric]
            series = {
                label: {r["size"]: r[key] for r in rows if r.get(key)}
                for key, label in _LABELS.items()
            }
            panel.sizes({label: cells for label, cells in series.items() if cells}, _LOOKS)
        for metric in {metric for _, metric in pairs}:
            same_range(*(p for p, pair in zip(panels, pairs, strict=True) if pair[1] == metric))
    return figure
