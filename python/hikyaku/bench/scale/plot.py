# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench scale`: the simulated time of an exchange by the number of ranks."""

from typing import TYPE_CHECKING

from ..common.figure import looks, plot, same_range
from .report import TITLES, ports_of
from .run import HALO, MPI

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _label(method: str, ports: int) -> str:
    return "MPI" if method == MPI else f"halo, {ports} port{'s' if ports > 1 else ''}"


def draw(document: dict) -> "Figure":
    labels = [_label(MPI, 1), *(_label(HALO, p) for p in ports_of(document))]
    look = looks(labels)
    rate = document["network"]["rate_gbit"]
    title = f"Halo exchange, SIMULATED: one rank a node, {rate} Gb/s"
    note = "one network switch; the engine of this checkout in virtual time, without a CPU's work"
    with plot(len(TITLES), title, note) as (figure, panels):
        for panel, (experiment, name) in zip(panels, TITLES.items(), strict=True):
            panel.title = f"{experiment}: {name}"
            panel.unit, panel.along = "time of an exchange, µs", "ranks"
            series: dict[str, dict[float, dict[str, float]]] = {}
            for row in document["times"]:
                if row["experiment"] == experiment:
                    cell = dict.fromkeys(("median", "min", "max"), row["exchange_us"])
                    line = series.setdefault(_label(row["method"], row["ports"]), {})
                    line[row["processes"]] = cell
            panel.lines(series, look)
        same_range(*panels)
    return figure
