# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench halo`: a panel for each experiment and number of ports."""

from pathlib import Path

from ..common.figure import bars, figure_file, label_sizes, with_range
from ..common.tables import size_text
from .report import TITLES, cells, numbers_of_ports
from .run import METHODS, PACKED

_COLOURS = {
    "mpi-tcp": "#c0392b",
    "mpi-btl": "#7f8c8d",
    "persistent-btl": "#27915b",
    "promoter": "#8e44ad",
    PACKED: "#7fb3d5",
    "halo": "#1f5fa8",
}


def _curves(axes, by_size: dict[int, dict[str, dict]], title: str) -> None:
    for method in METHODS:
        own = {b: by[method] for b, by in by_size.items() if method in by}
        if own:
            with_range(axes, list(own), list(own.values()), method, _COLOURS[method], "o-")
    ticks = label_sizes(sorted(by_size))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, labels=map(size_text, ticks))
    axes.minorticks_off()
    axes.set_title(title)
    axes.set_ylabel("µs an exchange")
    axes.legend()


def _bars(axes, by_size: dict[int, dict[str, dict]], title: str) -> None:
    by = {m: cell for sizes in by_size.values() for m, cell in sizes.items() if m in METHODS}
    bars(axes, list(by), list(by.values()), [_COLOURS[m] for m in by])
    axes.set_title(title)
    axes.set_ylabel("µs an exchange")


def draw(document: dict, path: Path) -> None:
    panels = {
        (e, ports): found
        for e in TITLES
        for ports in numbers_of_ports(document["rows"])
        if (found := cells(document["rows"], e, ports))
    }
    title = f"Halo exchange: {document['machine']['cpu']}, virtual wires; median and range"
    with figure_file(path, len(panels), title) as all_axes:
        for axes, ((experiment, ports), by_size) in zip(all_axes, panels.items(), strict=True):
            sizes = [b for b, by in by_size.items() if by.keys() & set(METHODS)]
            paint = _curves if len(sizes) > 1 else _bars
            many = f", {ports} ports" if ports > 1 else ""
            paint(axes, by_size, f"{experiment}: {TITLES[experiment]}{many}")
