# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench halo`: a panel for each experiment and number of ports, and for solves."""

from typing import TYPE_CHECKING

from ..common.figure import looks, machine_note, plot, same_range
from . import solves
from .report import TITLES, cells, numbers_of_ports, titles
from .run import BETWEEN, METHODS, WITHIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..common.figure import Panel

_LOOKS = looks(["mpi-tcp", "halo", *BETWEEN])
# E has no line of another experiment: the same methods look the same
_LOOKS |= {m: _LOOKS.get(m.replace("-shm", "-btl"), _LOOKS["halo"]) for m in WITHIN}


def draw(document: dict) -> "Figure":
    rows = document["rows"]
    found = {
        (experiment, ports): by_size
        for experiment in TITLES
        for ports in numbers_of_ports(rows)
        if (by_size := cells(rows, experiment, ports))
    }
    solved, note = document["solves"], machine_note(document["machine"])
    with plot(len(found) + bool(solved), "Halo exchange", note) as (figure, panels):
        if solved:
            _solves(panels[-1], solved)
        for panel, ((experiment, ports), by_size) in zip(panels, found.items(), strict=False):
            many = f", {ports} ports" if ports > 1 else ""
            panel.title = f"{experiment}: {titles(document)[experiment]}{many}"
            panel.unit = "time of an exchange, µs"
            series = {
                method: {size: by[method] for size, by in by_size.items() if method in by}
                for method in METHODS
            }
            panel.sizes({method: of for method, of in series.items() if of}, _LOOKS)
        for experiment in TITLES:
            same_range(*(p for p, key in zip(panels, found, strict=False) if key[0] == experiment))
    return figure


def _solves(panel: "Panel", rows: list[dict]) -> None:
    panel.title = f"{solves.NAME}: {solves.title(rows)}"
    panel.unit = "time of a solve, ms"
    groups = {f"{language},\n{part}": by for (part, language), by in solves.cases(rows).items()}
    panel.grouped_bars(groups, _LOOKS)
