# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench mpi`: a panel for each wire and metric, both axes logarithmic."""

from pathlib import Path

from ..common.figure import figure_file, finish, label_sizes, with_range
from ..common.tables import size_text
from .report import UNITS

_STYLE = {
    "tcp": ("TCP", "#c0392b", "o-"),
    "hikyaku": ("Hikyaku", "#1f5fa8", "s-"),
    "raw": ("raw DPDK, same frame", "#7f8c8d", "^--"),
    "shm": ("shared memory, same node", "#27915b", "d:"),
}


def draw(document: dict, path: Path) -> None:
    pairs = list(dict.fromkeys((r["wire"], r["metric"]) for r in document["rows"]))
    about = document["machine"]
    title = (
        f"Open MPI {about['open_mpi']}, two ranks, one core each: {about['cpu']}; median and range "
        f"of {about['repeats']} repeats"
    )
    with figure_file(path, len(pairs), title) as all_axes:
        _draw(document, list(zip(all_axes, pairs, strict=True)))


def _draw(document: dict, panels: list) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    for axes, (wire, metric) in panels:
        rows = [r for r in document["rows"] if (r["wire"], r["metric"]) == (wire, metric)]
        for key, (label, colour, style) in _STYLE.items():
            # a logarithmic axis cannot show 0
            points = [(r["size"], r[key]) for r in rows if r[key] and r[key]["min"] > 0]
            points = [p for p in points if p[0] > 0]
            if not points:
                continue
            x, cells = zip(*points, strict=True)
            with_range(axes, list(x), list(cells), label, colour, style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({r["size"] for r in rows if r["size"] > 0})
        axes.set_xticks(label_sizes(sizes))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: size_text(round(v))))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.tick_params(axis="x", rotation=30)
        axes.set_title(f"{wire} wire (virtual)")
        axes.set_xlabel("message size")
        axes.set_ylabel(UNITS[metric], fontsize=9)
        finish(axes)
