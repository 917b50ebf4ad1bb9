# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench rtc`: a panel for each experiment."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..common.figure import Panel, looks, machine_note, plot
from .run import ALONE, BACKENDS, HOLD_FRAMES, LOOP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HELD = {f"hold_{size}B": f"{size}-byte frames" for size in HOLD_FRAMES}
_LOOKS = looks(["tcp", "dpdk", *BACKENDS, LOOP])
_LOOKS |= {ALONE: _LOOKS[LOOP]} | looks(["", *_HELD.values()])  # frames: both over dpdk
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
    panel.along = "repetitions of the sum"
    _lines(panel, rows, lambda row: row["backend"])


def _bars(panel: Panel, rows: list[dict], name: Callable[[dict], str]) -> None:
    panel.bars({name(r): r for r in rows}, {name(r): _LOOKS[r["backend"]] for r in rows})


def _nodes(row: dict) -> str:
    return "1 node" if row["backend"] == ALONE else f"{row['nodes']} nodes, {row['backend']}"


def _learn(panel: Panel, rows: list[dict]) -> None:
    panel.title = f"training until {rows[0]['x']:g} times the minimal loss"
    panel.unit = "time, s"
    _bars(panel, rows, _nodes)


def _echo(panel: Panel, rows: list[dict]) -> None:
    panel.title, panel.unit = "64-byte frames, sent back (memif)", _RATE
    _bars(panel, rows, lambda row: row["backend"])


_PANELS = {tuple(_HELD): _hold, ("sum",): _sum, ("learn",): _learn, ("echo",): _echo}


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
