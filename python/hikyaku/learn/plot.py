# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a training: the loss of each node and of all, over time and over bytes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..bench.common.figure import looks, plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TARGET, _ALL, _REST = "target", "all nodes", "other nodes, on their rows"
_NAMED = 4  # nodes that get a line in the legend each


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


def draw(
    lines: list[dict], nodes: int, *, title: str, target: float, faulty: Iterable[int] = ()
) -> "Figure":
    """@faulty: nodes that sent false parameters. Their curves are dashed, and do not set the
    range."""
    of_node, of_all = curves(lines, nodes)
    faulty = set(faulty)
    losses = [loss for n, points in of_node.items() if n not in faulty for _, loss in points]
    losses += [loss for *_, loss in of_all]
    shown = [loss for loss in [*losses, target] if np.isfinite(loss)]
    low, high = min(shown, default=0), max(shown, default=0)
    labels = {}
    for node, points in of_node.items():
        labels[node] = f"node {node}, on its rows" if nodes <= _NAMED else _REST
        if node in faulty:
            labels[node] = f"node {node}, false parameters"
            if not any(low <= loss <= high for _, loss in points):
                labels[node] += ", outside the range"
    look = looks([_TARGET, _ALL, *labels.values()])

    with plot(2, title) as (figure, (left, right)):
        for node, label in labels.items():
            left.curve(of_node[node], label, look[label], width=0.8, dashed=node in faulty)
        left.curve([(time, loss) for time, _, loss in of_all], _ALL, look[_ALL])
        right.curve([(sent / 1e6, loss) for _, sent, loss in of_all], _ALL, look[_ALL])
        left.title, right.title = "loss over time", "loss over bytes sent"
        left.along, right.along = "time, s", "sent by all nodes, MB"
        for panel in (left, right):
            panel.unit, panel.values = "loss", shown
            if np.isfinite(target):
                panel.level(target, _TARGET, look[_TARGET])
    return figure
