# SPDX-License-Identifier: BSD-3-Clause
"""The bytes that each link of a machine carries for a packet from one NIC to another.

Two NICs are below one PCIe switch. In mode bounce the packet lies in main memory, and in mode p2p
in the memory of the sending NIC. The bytes of PCI Express are those of devmem/pcie.py. In mode p2p
no payload is in main memory, and the CPU reads and writes at most 64 bytes of a packet. `hikyaku
bench devmem` checks that on emulated devices. Nothing is measured here.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ..bench.common.figure import COLOURS, sheet
from ..bench.common.tables import number
from ..devmem.pcie import DOWN, UP, Link, of_path, turned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = 1518  # bytes of the packet, with the FCS, as `hikyaku devmem model` counts
HEADER = 64  # bytes that the CPU reads and writes at most
BOUNCE, P2P = "through main memory", "device to device"
# By link: its two ends, the upper one first.
LINKS = {
    "memory": ("main memory", "root complex"),
    "root": ("root complex", "PCIe switch"),
    "nic0": ("PCIe switch", "NIC 0 receives"),
    "nic1": ("PCIe switch", "NIC 1 sends"),
}


def carried(path: str, size: int = SIZE) -> dict[str, Counter]:
    """Bytes by link and direction, for a packet of @size bytes."""
    link = Link()
    if path == BOUNCE:
        receiver, sender = of_path(link, "bounce", size)
        memory = Counter({UP: size, DOWN: size})
        return {"memory": memory, "root": receiver + sender, "nic0": receiver, "nic1": sender}
    receiver, sender = of_path(link, "p2p write", size)
    header = turned(link.read(HEADER)) + turned(link.write(HEADER))
    return {"memory": Counter(), "root": header, "nic0": receiver, "nic1": sender + header}


def total(path: str) -> int:
    """Bytes on the links of PCI Express, both directions."""
    return sum(c.total() for name, c in carried(path).items() if name != "memory")


def sentence() -> str:
    """Both paths in one line."""
    memory = {path: carried(path)["memory"].total() for path in (BOUNCE, P2P)}
    return (
        f"a packet of {SIZE} bytes, computed: {BOUNCE} {memory[BOUNCE]} bytes in and out of it and "
        f"{total(BOUNCE)} on PCIe links; {P2P} {memory[P2P]} and {total(P2P)}"
    )


# ---- the picture ---------------------------------------------------------------------------------

INCHES = (6.4, 4.2)
PLACES = {
    "main memory": (2.0, 3.0),
    "CPU": (5.0, 3.0),
    "root complex": (3.5, 2.0),
    "PCIe switch": (3.5, 1.0),
    "NIC 0 receives": (1.2, 0.0),
    "NIC 1 sends": (5.8, 0.0),
}
IDLE = "#BBBBBB"
BOX = {"boxstyle": "round,pad=0.5", "facecolor": "#EEEEEE", "edgecolor": "#444444"}
HOLDER = BOX | {"facecolor": "#FFE9B3"}  # of the packet
MOST_POINTS = 9  # the width of the busiest link


def _paint(axes: "Axes", path: str, busiest: int) -> None:
    bytes_of = carried(path)
    holder = "main memory" if path == BOUNCE else "NIC 1 sends"
    for name, (upper, lower) in LINKS.items():
        (xa, ya), (xb, yb) = PLACES[upper], PLACES[lower]
        count = bytes_of[name]
        used = count.total()
        width = max(1.0, MOST_POINTS * used / busiest)
        axes.plot([xa, xb], [ya, yb], color=COLOURS[1] if used else IDLE, lw=width, zorder=1)
        side = -1 if xb + xa < 2 * PLACES["PCIe switch"][0] else 1
        away = 0 if xa == xb else 11 if yb == 0 else -11  # to the side where the line is not
        axes.annotate(
            f"↑ {number(count[UP])} B\n↓ {number(count[DOWN])} B",
            ((xa + xb) / 2, (ya + yb) / 2),
            (side * 10, away),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=8,
        )
    (xa, ya), (xb, yb) = PLACES["CPU"], PLACES["root complex"]
    axes.plot([xa, xb], [ya, yb], color=IDLE, lw=1, zorder=1)
    axes.annotate(
        f"headers, at most {HEADER} B",
        ((xa + xb) / 2, (ya + yb) / 2),
        (10, -8),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )
    for name, (x, y) in PLACES.items():
        box = HOLDER if name == holder else BOX
        axes.text(x, y, name, ha="center", va="center", bbox=box, fontsize=8, zorder=3)
    axes.set_xlim(-0.2, 7.2)
    axes.set_ylim(-0.4, 3.4)
    axes.set_axis_off()


def draw() -> "Figure":
    link = Link()
    title = f"The way of a packet of {SIZE} bytes from NIC to NIC"
    note = (
        f"computed by the model of pcie-bench for Gen{link.generation}, not measured; headers of "
        "PCI Express are included; yellow: where the packet lies"
    )
    busiest = max(c.total() for path in (BOUNCE, P2P) for c in carried(path).values())
    with sheet(1, 2, INCHES, title, note) as (figure, panels):
        for axes, path in zip(panels, (BOUNCE, P2P), strict=True):
            memory = carried(path)["memory"].total()
            axes.set_title(f"{path}: {memory} B in main memory, {total(path)} B on PCIe links")
            _paint(axes, path, busiest)
    return figure
