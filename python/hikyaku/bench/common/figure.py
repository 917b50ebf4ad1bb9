# SPDX-License-Identifier: BSD-3-Clause
"""The style of all plots, and the panels that they consist of.

A panel shows medians with their ranges, as lines over numbers or as bars beside names. It chooses
the scales of its axes and the form of their ticks, and puts its legend above the data. The module
that draws names the values and their unit.
"""

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from . import busy
from .tables import number, repeats_text, size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Cell = dict[str, float]  # median, min, max

STYLE = {
    "font.size": 9,
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "figure.labelsize": 8,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.borderaxespad": 0.2,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
}
DPI = 130
PANEL_INCHES = (6.4, 4.4)
# Characters that fit in an inch of a title, of a panel's title and of a label.
TITLE_CHARS, PANEL_CHARS, LABEL_CHARS = 8, 11, 13
BAR_HEIGHT = 0.8  # of the place of a bar or a group
FEW_BARS = 4  # fewer bars are not higher than so many
BAR_POINTS = 6.5  # the font of the number at a bar


# ---- looks ---------------------------------------------------------------------------------------

# Okabe and Ito's colours, with a violet in place of black and yellow. Colour-blind readers can tell
# them apart, and whiskers are visible on all.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8811EE")
MARKERS = "os^Dv<X"
LINES = ("-", "--", ":")


class Look(NamedTuple):
    colour: str
    marker: str
    line: str


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name. In every plot the first name is the reference, such as TCP, and the
    second one ours, so that both look the same everywhere."""
    count = len(COLOURS)
    return {
        name: Look(COLOURS[i % count], MARKERS[i % count], LINES[i // count % len(LINES)])
        for i, name in enumerate(dict.fromkeys(names))
    }


# ---- axes and their ticks ------------------------------------------------------------------------

LOG_FROM = 20.0  # ratio of the largest to the smallest value from which an axis is logarithmic
FEW_DECADES = 2.5  # a logarithmic axis of fewer decades has ticks at 2 and 5, too
CLEAR_POINTS = 3  # between the labels of two ticks


def plain(value: float) -> str:
    """@value without an exponent: 0.6, 1000, 10 000."""
    text = f"{Decimal(f'{value:.12g}'):,f}"
    return text.replace(",", " " if abs(value) >= 10_000 else "")


def size_tick(size: float) -> str:
    """A number of bytes, on an axis whose label says so: 8, 1 KiB."""
    return size_text(round(size)).removesuffix(" B")


def _spans_decades(values: Iterable[float]) -> bool:
    positive = [v for v in values if v > 0]
    return bool(positive) and max(positive) / min(positive) > LOG_FROM


def _plain_ticks(axis: "Axis") -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def _show_values(axes: "Axes", values: list[float]) -> None:
    """A vertical axis that shows all of @values. A linear one begins at 0, so that a small change
    does not look like a large one."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = min(values, default=0), max(values, default=0)
    if low > 0 and _spans_decades(values):
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
        few = math.log10(high / low) < FEW_DECADES
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, 1.08 * high or 1)
    _plain_ticks(axes.yaxis)


def _show_numbers(axes: "Axes", numbers: dict[float, str]) -> None:
    """A horizontal axis with a tick at each of @numbers, which have their texts."""
    if _spans_decades(numbers):
        if min(numbers) > 0:
            axes.set_xscale("log")
        else:
            least = min(n for n in numbers if n > 0)
            axes.set_xscale("symlog", linthresh=least)
            axes.set_xlim(left=-least / 8)
    axes.set_xticks(list(numbers), labels=list(numbers.values()))
    axes.minorticks_off()


def _thin(axes: "Axes") -> None:
    """Removes labels of the horizontal axis that are too close to others; not those at its ends."""
    low, high = axes.get_xlim()
    ticks = [
        (at, label)
        for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= at <= high
    ]
    boxes = [label.get_window_extent() for _, label in ticks]
    clear = CLEAR_POINTS * axes.figure.dpi / 72
    texts = [label.get_text() for _, label in ticks]
    left, last = 0, len(ticks) - 1
    for i in range(1, last):
        if boxes[i].x0 < boxes[left].x1 + clear or boxes[i].x1 > boxes[last].x0 - clear:
            texts[i] = ""
        else:
            left = i
    axes.set_xticks([at for at, _ in ticks], labels=texts)


# ---- panels --------------------------------------------------------------------------------------


class Panel:
    """A pair of axes. @title: the subject. @unit: the values and their unit. @along: the numbers or
    names of the other axis, and their unit. @values: those that must be visible."""

    def __init__(self, axes: "Axes"):
        self.axes = axes
        self.title = self.unit = self.along = ""
        self.values: list[float] = []
        self._numbers: dict[float, str] = {}  # ticks of lines
        self._names: list[str] = []  # of groups of bars

    def lines(
        self,
        series: dict[str, dict[float, Cell]],
        look: dict[str, Look],
        text: Callable[[float], str] = plain,
    ) -> None:
        """Lines through medians, and bands from minimum to maximum; NaN leaves a gap. @text: the
        form of the numbers of the horizontal axis."""
        for label, cells in series.items():
            x = list(cells)
            median, low, high = ([c[k] for c in cells.values()] for k in ("median", "min", "max"))
            own = look[label]
            self.axes.plot(x, median, own.marker + own.line, color=own.colour, label=label)
            self.axes.fill_between(x, low, high, color=own.colour, alpha=0.15, linewidth=0)
            self.values += [value for value in (*low, *high) if not math.isnan(value)]
            self._numbers |= {n: text(n) for n in x}

    def sizes(self, series: dict[str, dict[float, Cell]], look: dict[str, Look]) -> None:
        """Lines over the bytes of messages. One size gives bars, since it makes no line."""
        sizes = {size for cells in series.values() for size in cells}
        if len(sizes) == 1:
            (size,) = sizes
            self.title += f", {size_text(size)}"
            self.bars({label: cells[size] for label, cells in series.items()}, look)
        else:
            self.along = "size, bytes"
            self.lines(series, look, size_tick)

    def curve(
        self,
        points: list[tuple[float, float]],
        label: str,
        look: Look,
        *,
        width: float = 2,
        dashed: bool = False,
    ) -> None:
        """A line through points of one sample each, which need not all be visible. A dashed one is
        in front of others."""
        x, y = zip(*points, strict=True) if points else ((), ())
        how = {"lw": 1.5, "ls": "--", "zorder": 3} if dashed else {"lw": width}
        self.axes.plot(x, y, color=look.colour, label=label, **how)

    def level(self, value: float, label: str, look: Look) -> None:
        """A horizontal line."""
        self.axes.axhline(value, color=look.colour, ls=":", lw=1, label=label)

    def bars(self, cells: dict[str, Cell], look: dict[str, Look] | None = None) -> None:
        """Medians as bars beside names, and whiskers from minimum to maximum."""
        self._names = list(cells)
        height = BAR_HEIGHT * min(1, len(cells) / FEW_BARS)
        for at, (name, cell) in enumerate(cells.items()):
            self._bars({at: cell}, height, look[name].colour if look else COLOURS[1])

    def grouped_bars(self, groups: dict[str, dict[str, Cell]], look: dict[str, Look]) -> None:
        """A group of bars beside each name. The legend names the bars."""
        self._names = list(groups)
        labels = list(dict.fromkeys(label for group in groups.values() for label in group))
        height = BAR_HEIGHT / len(labels)
        for i, label in enumerate(labels):
            shift = (i - (len(labels) - 1) / 2) * height
            cells = {at + shift: g[label] for at, g in enumerate(groups.values()) if label in g}
            self._bars(cells, height, look[label].colour, label)

    def _bars(
        self, cells: dict[float, Cell], height: float, colour: str, label: str | None = None
    ) -> None:
        below = [c["median"] - c["min"] for c in cells.values()]
        above = [c["max"] - c["median"] for c in cells.values()]
        self.axes.barh(
            list(cells),
            [c["median"] for c in cells.values()],
            height,
            xerr=[below, above],
            error_kw={"lw": 0.8},
            color=colour,
            label=label,
        )
        for place, cell in cells.items():
            self.axes.annotate(
                number(cell["median"]),
                (cell["max"], place),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=BAR_POINTS,
            )
            self.values.append(cell["max"])

    def scale(self) -> None:
        """Sets the ranges of the axes, the form of their ticks, and the texts around them."""
        from matplotlib.ticker import MaxNLocator

        axes, (width, height) = self.axes, PANEL_INCHES
        across, up = (self.unit, self.along) if self._names else (self.along, self.unit)
        axes.set_title(fill(self.title, int(PANEL_CHARS * width)))
        axes.set_xlabel(fill(across, int(LABEL_CHARS * width)))
        axes.set_ylabel(fill(up, int(LABEL_CHARS * height)))
        _plain_ticks(axes.xaxis)
        if self._names:
            axes.set_xlim(0, 1.15 * max(self.values) or 1)
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            axes.set_ylim(len(self._names) - 0.4, -0.6)
            axes.set_yticks(range(len(self._names)), labels=self._names)
            axes.grid(visible=False, axis="y")
        else:
            _show_values(axes, self.values)
        if self._numbers:
            _show_numbers(axes, dict(sorted(self._numbers.items())))

    def fit(self) -> None:
        """Fits the texts to the axes, whose size is known now: labels of ticks, and a legend above
        the axes, where it covers no data."""
        axes = self.axes
        _thin(axes)
        handles, labels = axes.get_legend_handles_labels()
        named = dict(zip(labels, handles, strict=True))
        for columns in range(len(named), 0, -1):
            legend = axes.legend(
                named.values(), named, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns
            )
            box = legend.get_window_extent()
            if box.width <= axes.get_window_extent().width:
                break
        if labels:
            axes.set_title(axes.get_title("left"), pad=box.height * 72 / axes.figure.dpi + 6)


def same_range(*panels: Panel) -> None:
    """Gives panels of lines one range, so that they can be compared."""
    values = [value for panel in panels for value in panel.values]
    for panel in panels:
        panel.values = values


# ---- the figure ----------------------------------------------------------------------------------


def load_matplotlib() -> None:
    """matplotlib writes a font cache when it is loaded; keep it out of the home directory."""
    if "matplotlib.font_manager" in sys.modules or "MPLCONFIGDIR" in os.environ:
        return
    with tempfile.TemporaryDirectory(prefix="hikyaku-plot-") as scratch:
        os.environ["MPLCONFIGDIR"] = scratch
        try:
            import matplotlib.font_manager  # noqa: F401
        finally:
            del os.environ["MPLCONFIGDIR"]


def range_note(repeats: int) -> str:
    of = f"of {repeats_text(repeats)}"
    return f"lines, bars and numbers: medians {of}; bands and whiskers: minimum to maximum"


def machine_note(about: dict) -> str:
    """The note of a benchmark, from the machine in its document."""
    texts = (range_note(about["repeats"]), about["cpu"], "virtual wires", busy.note(about))
    return "; ".join(filter(None, texts))


@contextmanager
def sheet(
    rows: int, columns: int, inches: tuple[float, float], title: str, note: str = ""
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """A figure of axes of @inches each, row by row, with @note below them. The caller draws into
    them meanwhile."""
    load_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = inches[0] * columns, inches[1] * rows
    with mpl.rc_context(STYLE):
        figure = Figure((width, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(fill(title, int(TITLE_CHARS * width)))
        figure.supxlabel(fill(note, int(LABEL_CHARS * width)))
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


@contextmanager
def plot(panels: int, title: str, note: str = "") -> "Iterator[tuple[Figure, list[Panel]]]":
    """A figure of @panels panels, two in a row, with @note below them. The caller draws into them
    meanwhile; after that the figure is ready to be saved."""
    columns = min(2, panels)
    with sheet(-(-panels // columns), columns, PANEL_INCHES, title, note) as (figure, grid):
        for axes in grid[panels:]:
            axes.remove()
        made = [Panel(axes) for axes in grid[:panels]]
        yield figure, made
        for panel in made:
            panel.scale()
        figure.draw_without_rendering()
        for panel in made:
            panel.fit()
