# SPDX-License-Identifier: BSD-3-Clause
"""The texts that a reader sees in a figure, and those that cannot be read."""

import itertools

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def tick_labels(axes: Axes, which: str) -> list[Text]:
    """Those that are visible."""
    axis = getattr(axes, which)
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [text for at, text in ticks if low <= at <= high and text.get_text()]


def texts(figure: Figure) -> list[Text]:
    """All texts that a reader sees."""
    found = [figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        found += [axes._left_title, *axes.texts]
        if axes.axison:
            found += [axes.xaxis.label, axes.yaxis.label]
            found += [*tick_labels(axes, "xaxis"), *tick_labels(axes, "yaxis")]
        if legend := axes.get_legend():
            found += legend.get_texts()
    return [text for text in found if text.get_text()]


def unreadable(figure: Figure) -> list[tuple[str, ...]]:
    """Texts that are cut off, and pairs of which one covers the other."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    edge = figure.bbox
    outside = [
        (name,)
        for name, box in boxes
        if box.x0 < edge.x0 or box.y0 < edge.y0 or box.x1 > edge.x1 or box.y1 > edge.y1
    ]
    pairs = itertools.combinations(boxes, 2)
    return outside + [(a, b) for (a, one), (b, other) in pairs if one.overlaps(other)]
