# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a benchmark's document: a panel for each wire and metric, both axes logarithmic,
median as a line, minimum to maximum as a band."""

import os
import tempfile
from pathlib import Path

from .report import UNITS, size_text

_STYLE = {
    "tcp": ("TCP", "#c0392b", "o-"),
    "hikyaku": ("Hikyaku", "#1f5fa8", "s-"),
    "raw": ("raw DPDK, same frame", "#7f8c8d", "^--"),
    "shm": ("shared memory, same node", "#27915b", "d:"),
}


def draw(document: dict, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hikyaku-plot-") as scratch:
        # matplotlib writes a font cache; the home directory is not ours to write to.
        os.environ.setdefault("MPLCONFIGDIR", scratch)
        _draw(document, path)


# A label takes less than this part of the axis.
_LABEL_ROOM = 1 / 12


def label_sizes(sizes: list[int]) -> list[int]:
    """Those of the sorted @sizes that get a label: the ends, and between them as many as stand
    clear of each other on a logarithmic axis."""
    if len(sizes) < 3:
        return sizes
    clear = (sizes[-1] / sizes[0]) ** _LABEL_ROOM
    labelled = sizes[:1]
    for size in sizes[1:-1]:
        if size >= labelled[-1] * clear and sizes[-1] >= size * clear:
            labelled.append(size)
    return [*labelled, sizes[-1]]


def _draw(document: dict, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullLocator

    pairs = list(dict.fromkeys((r["wire"], r["metric"]) for r in document["rows"]))
    columns = min(2, len(pairs))
    lines = -(-len(pairs) // columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(6.4 * columns, 4.6 * lines),
        squeeze=False,
        constrained_layout=True,
    )
    for axes in grid.flat[len(pairs) :]:
        axes.set_visible(False)
    for axes, (wire, metric) in zip(grid.flat, pairs, strict=False):
        rows = [r for r in document["rows"] if (r["wire"], r["metric"]) == (wire, metric)]
        for key, (label, colour, style) in _STYLE.items():
            # a logarithmic axis has no room for 0
            points = [(r["size"], r[key]) for r in rows if r[key] and r[key]["min"] > 0]
            points = [p for p in points if p[0] > 0]
            if not points:
                continue
            x = [size for size, _ in points]
            axes.plot(x, [c["median"] for _, c in points], style, color=colour, label=label, ms=4)
            axes.fill_between(
                x,
                [c["min"] for _, c in points],
                [c["max"] for _, c in points],
                color=colour,
                alpha=0.15,
                linewidth=0,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({r["size"] for r in rows if r["size"] > 0})
        axes.set_xticks(label_sizes(sizes))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: size_text(round(v))))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.tick_params(axis="x", rotation=30)
        axes.grid(True, which="major", alpha=0.3)
        axes.set_title(f"{wire} wire (virtual)")
        axes.set_xlabel("message size")
        axes.set_ylabel(UNITS[metric], fontsize=9)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    about = document["machine"]
    figure.suptitle(
        f"Open MPI {about['open_mpi']}, two ranks, one core each: {about['cpu']}; median and range "
        f"of {about['repeats']} repeats",
        fontsize=10,
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
