# SPDX-License-Identifier: BSD-3-Clause
"""The parts that the plots share: the file, a line with its range, labels of sizes."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def figure_file(path: Path, panels: int, title: str) -> Iterator[list]:
    """A figure of @panels panels, two in a row, as matplotlib's axes; saved at the end."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-plot-") as scratch:
        # matplotlib writes a font cache; keep it out of the home directory.
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
    median, low, high = ([c[k] for c in cells] for k in ("median", "min", "max"))
    axes.plot(x, median, style, color=colour, label=label, ms=4)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def bars(axes, names: list[str], cells: list[dict], colours: list[str]) -> None:
    """Medians as bars, with their ranges."""
    low = [c["median"] - c["min"] for c in cells]
    high = [c["max"] - c["median"] for c in cells]
    medians = [c["median"] for c in cells]
    axes.bar(names, medians, yerr=[low, high], color=colours, capsize=4)


def finish(axes) -> None:
    """The grid, and the legend if there is one."""
    axes.grid(True, which="major", alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


# The part of the axis that a label takes at most.
_LABEL_ROOM = 1 / 12


def label_sizes(sizes: list[int]) -> list[int]:
    """The sizes of the sorted @sizes that get a label on a logarithmic axis.

    These are both ends, and as many between them as do not overlap.
    """
    if len(sizes) < 3:
        return sizes
    clear = (sizes[-1] / sizes[0]) ** _LABEL_ROOM
    labelled = sizes[:1]
    for size in sizes[1:-1]:
        if size >= labelled[-1] * clear and sizes[-1] >= size * clear:
            labelled.append(size)
    return [*labelled, sizes[-1]]
