# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench rtc`: a panel for each experiment."""

from pathlib import Path

from ..common.figure import bars, figure_file, finish, with_range
from .run import ALONE, HOLD_NS, LOOP, REPETITIONS

_COLOURS = {
    "dpdk": "#1f5fa8",
    "af_xdp": "#27915b",
    "raw": "#8e44ad",
    "udp": "#b9770e",
    "tcp:batch=1": "#e67e73",
    "tcp": "#c0392b",
    LOOP: "#7f8c8d",
    ALONE: "#7f8c8d",
}


def _hold(axes, rows: list[dict]) -> None:
    for frame, style in ((64, "o-"), (128, "s--")):
        own = [r for r in rows if r["experiment"] == f"hold_{frame}B"]
        x = [r["x"] for r in own]
        with_range(axes, x, own, f"{frame}-byte frames", _COLOURS["dpdk"], style)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xticks(HOLD_NS, labels=map(str, HOLD_NS))
    axes.set_title("each message held (dpdk, memif)")
    axes.set_xlabel("ns a message")
    axes.set_ylabel("million messages/s")


def _sum(axes, rows: list[dict]) -> None:
    for backend in dict.fromkeys(r["backend"] for r in rows):
        own = [r for r in rows if r["backend"] == backend]
        with_range(axes, [r["x"] for r in own], own, backend, _COLOURS[backend], "o-")
    axes.set_xscale("log")
    axes.set_xticks(REPETITIONS, labels=map(str, REPETITIONS))
    axes.set_yscale("log")
    axes.set_title("sum of 32 numbers a message")
    axes.set_xlabel("repetitions")
    axes.set_ylabel("million messages/s")


def _bars(axes, rows: list[dict]) -> None:
    names = [f"{r['nodes']}× {r['backend']}" if r["nodes"] > 1 else "1 node" for r in rows]
    bars(axes, names, rows, [_COLOURS[r["backend"]] for r in rows])


def _learn(axes, rows: list[dict]) -> None:
    _bars(axes, rows)
    axes.set_title(f"training until {rows[0]['x']:g} times the minimal loss")
    axes.set_ylabel("seconds")


def _echo(axes, rows: list[dict]) -> None:
    _bars(axes, rows)
    axes.set_title("64-byte frames, sent back (memif)")
    axes.set_ylabel("million messages/s")


_PANELS = {("hold_64B", "hold_128B"): _hold, ("sum",): _sum, ("learn",): _learn, ("echo",): _echo}


def draw(document: dict, path: Path) -> None:
    panels = []
    for names, panel in _PANELS.items():
        rows = [r for r in document["rows"] if r["experiment"] in names]
        if rows:
            panels.append((panel, rows))
    about = document["machine"]
    title = (
        f"Run to completion: {about['cpu']}, virtual wires; median and range of "
        f"{about['repeats']} repeats"
    )
    with figure_file(path, len(panels), title) as all_axes:
        for axes, (panel, rows) in zip(all_axes, panels, strict=True):
            panel(axes, rows)
            finish(axes)
