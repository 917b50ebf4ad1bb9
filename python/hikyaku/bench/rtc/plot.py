# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench rtc`: a panel for each experiment."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..common.figure import Panel, looks, machine_note, plot
from .load import CLOSED, KEPT, PIPELINE, SOCKET
from .report import wired
from .run import ADDING, BACKENDS, HOLD_FRAMES, LOOP, PLAIN, REPETITIONS, VECTOR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HELD = {f"hold_{size}B": f"{size}-byte frames" for size in HOLD_FRAMES}
_LOOKS = looks(["tcp", "dpdk", *BACKENDS, LOOP, PIPELINE])
_LOOKS |= {SOCKET: _LOOKS["tcp"]} | looks(["", *_HELD.values()])  # frames: both over dpdk
_LOOKS |= {wired(backend): look for backend, look in _LOOKS.items()}
_RATE = "rate, million messages/s"


def _lines(panel: Panel, rows: list[dict], label: Callable[[dict], str]) -> None:
    series: dict[str, dict[float, dict]] = {}
    for row in rows:
        series.setdefault(label(row), {})[row["x"]] = row
    panel.lines(series, _LOOKS)


def _hold(panel: Panel, rows: list[dict]) -> None:
    panel.title, panel.unit = "each message held for a time (dpdk, memif)", _RATE
    panel.along = "time that a message is held, ns"
    _lines(panel, rows, lambda row: _HELD[row["experiment"]])


def _sum(panel: Panel, rows: list[dict]) -> None:
    panel.title, panel.unit = "sum of 32 numbers a message", _RATE
    if rows[0]["experiment"].endswith(ADDING[PLAIN]):
        panel.title += ", by a plain loop"
    panel.along = "repetitions of the sum"
    _lines(panel, rows, lambda row: wired(row["backend"]))


def _echo(panel: Panel, rows: list[dict]) -> None:
    panel.title, panel.unit = "64-byte frames, sent back", _RATE
    panel.bars({wired(row["backend"]): row for row in rows}, _LOOKS)


_OF_LOAD = {  # of a receiver under load: the panel's title, and the unit
    "delivered": ("messages handled", _RATE),
    "lost": ("messages lost", "lost, %"),
    "cpu": ("CPU time of the receiver's process", "ns a message"),
    "p99": ("99th percentile of latency", "latency, µs"),
}


def _drops(panel: Panel, rows: list[dict]) -> None:
    panel.title, panel.unit = _OF_LOAD[rows[0]["experiment"].removeprefix("drops_")]
    panel.title += "; the sender does not wait"
    panel.along = "rate asked of the sender, million messages/s"
    _lines(panel, rows, lambda row: wired(row["backend"]))


def _collapse(panel: Panel, rows: list[dict]) -> None:
    """The closed loop is not on this axis: its rate is the unit of the others."""
    _, repetitions, *plain = rows[0]["experiment"].removesuffix(f"_{KEPT}").split("_")
    panel.title = f"sum by a sender that does not wait, {repetitions}×"
    panel.title += ", by a plain loop" if plain else ""
    panel.unit = "handled, times the closed loop's rate"
    panel.along = "rate asked of the sender, times that of the closed loop"
    _lines(panel, [r for r in rows if r["x"] != CLOSED], lambda row: wired(row["backend"]))


_PANELS = {
    tuple(_HELD): _hold,
    **{(f"sum{ADDING[adding]}",): _sum for adding in (VECTOR, PLAIN)},
    ("echo",): _echo,
    **{(f"drops_{metric}",): _drops for metric in _OF_LOAD},
    **{
        (f"collapse_{x}{ADDING[adding]}_{KEPT}",): _collapse
        for adding in (VECTOR, PLAIN)
        for x in REPETITIONS
    },
}


def draw(document: dict) -> "Figure":
    found = []
    for names, panel in _PANELS.items():
        rows = [r for r in document["rows"] if r["experiment"] in names]
        if rows:
            found.append((panel, rows))
    with plot(len(found), "Run to completion", machine_note(document["machine"])) as (figure, all_):
        for panel, (paint, rows) in zip(all_, found, strict=True):
            paint(panel, rows)
    return figure
