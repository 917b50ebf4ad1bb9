# SPDX-License-Identifier: BSD-3-Clause
"""The files of a training: a model that numpy can load, and a log. Each is written completely or
not at all."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .data import Data, Scaling
from .native import Model

VERSION = 1


def best_node(losses: list[float], faulty: list[int]) -> tuple[int, int]:
    """The node with the lowest of @losses, and among how many. @faulty: nodes whose parameters
    others refused; they do not count, unless they are all nodes."""
    all_nodes = range(len(losses))
    nodes = [node for node in all_nodes if node not in faulty] or list(all_nodes)
    return min(nodes, key=lambda n: losses[n] if np.isfinite(losses[n]) else np.inf), len(nodes)


def predict(model: Model, w: np.ndarray, scaling: Scaling, x: np.ndarray) -> np.ndarray:
    """Predicts numbers, or indices of classes, for rows of @x as in the file."""
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


HARDLY = 0.99  # a loss above this part of a constant's is hardly better


def constant_loss(model: Model, x: np.ndarray, y: np.ndarray) -> float:
    """The least loss of a model that says the same for each row: all weights are 0. @x, @y: as the
    nodes have them."""
    if model.classes == 0:
        bias = np.array([np.mean(y)])
    else:
        share = np.array([np.mean(y == each) for each in range(model.classes)])
        share = share[1:] if model.classes == 2 else share
        if model.kind == "svm":
            bias = np.sign(2 * share - 1) if model.hinge else 2 * share - 1
        else:
            some = np.clip(share, 1e-12, 1 - 1e-12)
            bias = np.log(some / (1 - some)) if model.classes == 2 else np.log(some)
    w = np.zeros(model.parameters)
    w[-len(bias) :] = bias  # the last ones in each layout
    return model.loss(w, x, y)


def arrays(model: Model, w: np.ndarray, scaling: Scaling, data: Data, loss: float) -> dict:
    """The arrays of model.npz; docs/learn.md explains their use."""
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
    """Lets @write make a file beside @path, which then replaces @path."""
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
