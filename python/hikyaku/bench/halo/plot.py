# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench halo`: a panel for each experiment and number of ports."""

from typing import TYPE_CHECKING

from ..common.figure import looks, machine_note, plot, same_range
from .report import TITLES, cells, numbers_of_ports, titles
from .run import BETWEEN, METHODS, WITHIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    with plot(len(found), "Halo exchange", machine_note(document["machine"])) as (figure, panels):
        for panel, ((experiment, ports), by_size) in zip(panels, found.items(), strict=True):
            many = f", {ports} ports" if ports > 1 else ""
            panel.title = f"{experiment}: {titles(document)[experiment]}{many}"
            panel.unit = "time of an exchange, µs"
            series = {
                method: {size: by[method] for size, by in by_size.items() if method in by}
                for method in METHODS
            }
            panel.sizes({method: of for method, of in series.items() if of}, _LOOKS)
        for experiment in TITLES:
            same_range(*(p for p, key in zip(panels, found, strict=True) if key[0] == experiment))
    return figure
