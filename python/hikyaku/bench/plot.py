# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a benchmark's document: a panel for each wire and metric, both axes logarithmic,
median as a line, minimum to maximum as a band."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .report import UNITS, size_text

_STYLE = {
    "tcp": ("TCP", "#c0392b", "o-"),
    "hikyaku": ("Hikyaku", "#1f5fa8", "s-"),
    "raw": ("raw DPDK, same frame", "#7f8c8d", "^--"),
    "shm": ("shared memory, same node", "#27915b", "d:"),
}


@contextmanager
def figure_file(path: Path, panels: int, title: str) -> Iterator[list]:
    """A figure with so many panels, two in a line, as matplotlib's axes; saved at the end."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-plot-") as scratch:
        # matplotlib writes a font cache; the home directory is not ours to write to.
        os.environ.setdefault("MPLCONFIGDIR", scratch)
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt

        columns = min(2, panels)
        lines = -(-panels // columns)
        figure, grid = plt.subplots(
            lines,
            columns,
            figsize=(6.4 * columns, 4.6 * lines),
            squeeze=False,
            constrained_layout=True,
        )
        for axes in grid.flat[panels:]:
            axes.set_visible(False)
        try:
            yield list(grid.flat[:panels])
            figure.suptitle(title, fontsize=10)
            figure.savefig(path, dpi=130)
        finally:
            plt.close(figure)


def with_range(axes, x: list, cells: list[dict], label: str, colour: str, style: str) -> None:
    """Medians as a line, minimum to maximum as a band."""
    axes.plot(x, [c["median"] for c in cells], style, color=colour, label=label, ms=4)
    axes.fill_between(
        x,
        [c["min"] for c in cells],
        [c["max"] for c in cells],
        color=colour,
        alpha=0.15,
        linewidth=0,
    )


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
            # a logarithmic axis has no room for 0
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
        axes.grid(True, which="major", alpha=0.3)
        axes.set_title(f"{wire} wire (virtual)")
        axes.set_xlabel("message size")
        axes.set_ylabel(UNITS[metric], fontsize=9)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
