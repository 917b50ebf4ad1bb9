# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a training: the loss of each node and of all, over time and over bytes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..bench.common.figure import figure_file, finish
from .result import write_whole

_ALL, _TARGET, _FAULTY = "#1f5fa8", "#c0392b", "#c0392b"
_NAMED = 4  # nodes that get a line in the legend each
_LOG_FROM = 20.0  # ratio of the largest to the smallest loss from which the axis is logarithmic


def curves(lines: list[dict], nodes: int) -> tuple[dict[int, list], list]:
    """The curves: by node (time, loss), and of all (time, bytes sent by all, loss of all)."""
    progress = [line for line in lines if line["event"] in ("progress", "end")]
    progress.sort(key=lambda line: line["time"])
    of_node: dict[int, list] = {i: [] for i in range(nodes)}
    sent = [0] * nodes
    of_all = []
    for line in progress:
        node = line["node"]
        sent[node] = line["bytes"]
        if line["loss"] is not None:
            of_node[node].append((line["time"], line["loss"]))
        if line["loss_all"] is not None:
            of_all.append((line["time"], sum(sent), line["loss_all"]))
    return of_node, of_all


def write_plot(
    path: Path,
    lines: list[dict],
    nodes: int,
    *,
    title: str,
    target: float,
    faulty: Iterable[int] = (),
) -> None:
    """@faulty: nodes that sent false parameters. Their curves are dashed, and do not set the
    range."""
    write_whole(path, lambda part: _plot(part, lines, nodes, title, target, set(faulty)))


def _plot(
    path: Path, lines: list[dict], nodes: int, title: str, target: float, faulty: set[int]
) -> None:
    of_node, of_all = curves(lines, nodes)
    with figure_file(path, 2, title) as (left, right):
        for node, points in of_node.items():
            if points:
                left.plot(*zip(*points, strict=True), **_style(node, nodes, node in faulty))
        if of_all:
            time, sent, loss = zip(*of_all, strict=True)
            left.plot(time, loss, color=_ALL, lw=2, label="all")
            right.plot(sent, loss, color=_ALL, lw=2, label="all")
        losses = [loss for n, points in of_node.items() if n not in faulty for _, loss in points]
        losses += [loss for _, _, loss in of_all]
        for axes, name in ((left, "time, s"), (right, "bytes sent by all nodes")):
            if np.isfinite(target):
                axes.axhline(target, color=_TARGET, ls=":", lw=1, label="target")
            axes.set_xlabel(name)
            axes.set_ylabel("loss")
            _range(axes, losses)
            finish(axes)


def _style(node: int, nodes: int, faulty: bool) -> dict:
    if faulty:
        label = f"node {node}, false parameters"
        return {"lw": 1.2, "ls": "--", "color": _FAULTY, "label": label}
    label = f"node {node}, on its rows" if nodes <= _NAMED else None
    return {"lw": 0.8, "alpha": 0.6, "label": label}


def _range(axes, losses: list[float]) -> None:
    """One range for all panels, which shows the first loss as well as the last."""
    positive = [loss for loss in losses if np.isfinite(loss) and loss > 0]
    if not positive:
        return
    low, high = min(positive), max(positive)
    if high / low > _LOG_FROM:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        axes.set_ylim(0, high * 1.05)
