# SPDX-License-Identifier: BSD-3-Clause
"""What a training leaves: a model that numpy alone can load, a log, a plot. Each file is whole or
not there."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .data import Data, Scaling
from .native import Model

VERSION = 1


def best_node(model: Model, w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[int, list[float]]:
    """The node whose parameters have the lowest loss on all rows, and the loss of each. A node that
    lied, or came back late, is not taken."""
    losses = [model.loss(each, x, y) for each in w]
    finite = [loss if np.isfinite(loss) else np.inf for loss in losses]
    return int(np.argmin(finite)), losses


def predict(model: Model, w: np.ndarray, scaling: Scaling, x: np.ndarray) -> np.ndarray:
    """Numbers, or the numbers of classes, for rows of @x as they were in the file."""
    scores = model.scores(w, scaling.x(x))
    if model.classes == 0:
        return scores[:, 0] * scaling.y_scale + scaling.y_mean
    return (scores[:, 0] > 0).astype(int) if model.classes == 2 else scores.argmax(axis=1)


def quality(model: Model, w: np.ndarray, scaling: Scaling, data: Data) -> tuple[str, float]:
    said = predict(model, w, scaling, data.x)
    if data.classes is not None:
        return "accuracy", float(np.mean(said == data.y))
    rest = float(np.sum((data.y - said) ** 2))
    return "R²", 1 - rest / max(float(np.sum((data.y - data.y.mean()) ** 2)), 1e-300)


def arrays(model: Model, w: np.ndarray, scaling: Scaling, data: Data, loss: float) -> dict:
    """What model.npz holds; docs/learn.md says how to use it."""
    found: dict = {
        "version": np.array(VERSION),
        "model": np.array(model.kind),
        "features": np.array(data.features),
        "classes": np.array(data.classes or [], dtype=str),
        "mean": scaling.mean,
        "scale": scaling.scale,
        "y_mean": np.array(scaling.y_mean),
        "y_scale": np.array(scaling.y_scale),
        "l2": np.array(model.l2),
        "loss": np.array(loss),
        **model.matrices(w),
    }
    if model.kind != "mlp":
        # the same in the units of the file
        coef = found["weight"] / scaling.scale
        intercept = found["bias"] - coef @ scaling.mean
        found["coef"] = coef * scaling.y_scale
        found["intercept"] = intercept * scaling.y_scale + scaling.y_mean
    return found


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """@write makes a file beside @path, which then takes its place."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        part.chmod(0o644)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_model(path: Path, found: dict) -> None:
    write_whole(path, lambda part: np.savez(part, **found))


def write_log(path: Path, head: dict, lines: list[dict], tail: dict) -> None:
    def write(part: Path) -> None:
        with part.open("w") as out:
            ordered = sorted(lines, key=lambda line: line["time"] or 0)
            for line in [head, *ordered, tail]:
                out.write(json.dumps(line) + "\n")

    write_whole(path, write)


def curves(lines: list[dict], nodes: int) -> tuple[dict[int, list], list]:
    """Of each node (time, loss); and of all (time, bytes sent by all till then, loss of all)."""
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


def write_plot(path: Path, lines: list[dict], nodes: int, *, title: str, target: float) -> None:
    with tempfile.TemporaryDirectory(prefix="hikyaku-plot-") as scratch:
        # matplotlib writes a font cache; the home directory is not ours to write to.
        os.environ.setdefault("MPLCONFIGDIR", scratch)
        write_whole(path, lambda part: _plot(part, lines, nodes, title, target))


def _plot(path: Path, lines: list[dict], nodes: int, title: str, target: float) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    of_node, of_all = curves(lines, nodes)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), constrained_layout=True)
    for node, points in of_node.items():
        if points:
            label = f"node {node}, on its rows" if nodes <= 4 else None
            left.plot(*zip(*points, strict=True), lw=0.8, alpha=0.6, label=label)
    if of_all:
        time, sent, loss = zip(*of_all, strict=True)
        left.plot(time, loss, color="#1f5fa8", lw=2, label="all")
        right.plot(sent, loss, color="#1f5fa8", lw=2, label="all")
    for axes, name in ((left, "time, s"), (right, "bytes sent by all nodes")):
        if np.isfinite(target):
            axes.axhline(target, color="#c0392b", ls="--", lw=1, label="target")
        axes.set_xlabel(name)
        axes.set_ylabel("loss")
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
