# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a network: nodes, switches, and the tree of a Bcast before and after a cut."""

from typing import TYPE_CHECKING

from ..bench.common.figure import COLOURS, sheet
from ..lab.wiring import Wiring

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CUT, TREE = COLOURS[:2]
OTHER = "#BBBBBB"
INCHES = (6.4, 3.8)
SWITCH = {"boxstyle": "round,pad=0.5", "facecolor": "#EEEEEE", "edgecolor": "#444444"}
NODE = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "#444444"}
NOTE = (
    "thick: the links that carry each frame of the Bcast, once; thin: other links; dashed: the "
    "link that was cut"
)


def places(wiring: Wiring) -> dict[str, tuple[float, float]]:
    """Nodes at the bottom, the switches that they hang on above them, and the others on top."""
    found = {link.a: (float(i), 0.0) for i, link in enumerate(wiring.access)}
    nodes: dict[str, list[float]] = {}
    for i, link in enumerate(wiring.access):
        nodes.setdefault(link.b, []).append(i)
    found |= {switch: (sum(at) / len(at), 1.0) for switch, at in nodes.items()}
    top = [switch for switch in wiring.switches if switch not in nodes]
    step = len(wiring.access) / max(1, len(top))
    found |= {switch: ((i + 0.5) * step - 0.5, 2.0) for i, switch in enumerate(top)}
    return found


def _name(
    axes: "Axes", low: tuple[float, float], high: tuple[float, float], text: str, middle: float
) -> None:
    """Writes @text beside a link, where no other one is: below a slanted link, and outside of a
    vertical one. @middle: of the network."""
    (xa, ya), (xb, yb) = low, high
    right = xb > xa if xb != xa else xa > middle
    axes.annotate(
        text,
        (xa + (xb - xa) * 0.2, ya + (yb - ya) * 0.2),
        (8 if right else -8, 0),
        textcoords="offset points",
        color=CUT,
        ha="left" if right else "right",
        va="top" if xb != xa else "center",
        fontweight="bold",
    )


def _network(axes: "Axes", wiring: Wiring, tree: set[str], cut: str | None) -> None:
    at = places(wiring)
    for link in wiring.all:
        (xa, ya), (xb, yb) = at[link.a], at[link.b]
        look = {"color": OTHER, "lw": 1, "zorder": 1}
        if link.name in tree:
            look = {"color": TREE, "lw": 4, "zorder": 2}
        if link.name == cut:
            look = {"color": CUT, "lw": 2, "ls": "--", "zorder": 3}
            _name(axes, (xa, ya), (xb, yb), f"{cut}, cut", len(wiring.access) / 2)
        axes.plot([xa, xb], [ya, yb], label=link.name, **look)
    for name, (x, y) in at.items():
        box = SWITCH if name in wiring.switches else NODE
        axes.text(x, y, name, ha="center", va="center", bbox=box, fontsize=7.5, zorder=4)
    axes.set_xlim(-0.6, len(wiring.access) - 0.4)
    axes.set_ylim(-0.35, 2.35)
    axes.set_axis_off()


def draw(wiring: Wiring, before: set[str], after: set[str], cut: str) -> "Figure":
    """@before, @after: the links of the tree from rank 0 on the first node."""
    root = wiring.access[0].a
    title = f"MPI_Bcast by multicast, from {root} to {wiring.nodes - 1} others"
    with sheet(1, 2, INCHES, title, NOTE) as (figure, (left, right)):
        left.set_title("the tree of the Bcast")
        right.set_title(f"the tree after {cut} was cut")
        _network(left, wiring, before, None)
        _network(right, wiring, after, cut)
    return figure
