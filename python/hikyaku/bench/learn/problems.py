# SPDX-License-Identifier: BSD-3-Clause
"""The problems of `bench learn`: rows drawn from a seed, and the least loss on them.

line      y = a·x + b with noise: the regression of Yamamoto et al.
plane     the same with 16 features
logistic  two classes that overlap, 16 features; logistic regression
svm       the same rows; linear SVM with the squared hinge, whose least loss Newton's method finds
"""

from dataclasses import dataclass

import numpy as np

from ...errors import HikyakuError
from ...learn.data import Data, Scaling
from ...learn.native import Model

SIGNAL = 2.0  # length of the vector of weights that make the rows: for each seed and size alike
NOISE = 0.5
STEPS = 50  # of Newton's method, which needs less than ten here


@dataclass(frozen=True)
class Problem:
    """@kind: the model of hk_learn. @target: the loss that ends a training, times the least one.
    Fewer parameters have less noise, so a line has a target that is nearer."""

    kind: str
    features: int
    target: float

    @property
    def regression(self) -> bool:
        return self.kind == "linear"


PROBLEMS = {
    "line": Problem("linear", 1, 1.001),
    "plane": Problem("linear", 16, 1.02),
    "logistic": Problem("logistic", 16, 1.02),
    "svm": Problem("svm", 16, 1.02),
}


def rows(problem: Problem, count: int, seed: int) -> Data:
    """@count rows with the same features for the same @seed, whatever is learnt from them."""
    draw = np.random.default_rng(seed)
    weights, bias = draw.normal(size=problem.features), draw.normal()
    x = draw.normal(size=(count, problem.features))
    score = x @ (weights * SIGNAL / np.linalg.norm(weights)) + bias
    names = [f"x{i}" for i in range(problem.features)]
    if problem.regression:
        return Data(x, score + NOISE * draw.normal(size=count), None, names, "made")
    y = (draw.random(count) < 1 / (1 + np.exp(-score))).astype(np.float64)
    return Data(x, y, ["no", "yes"], names, "made")


def _slopes(kind: str, score: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second derivative of each row's loss by its score."""
    if kind == "linear":
        return score - y, np.ones_like(score)
    if kind == "logistic":
        p = 1 / (1 + np.exp(-score))
        return p - y, p * (1 - p)
    sign = 2 * y - 1
    gap = np.maximum(0, 1 - sign * score)
    return -2 * sign * gap, 2.0 * (gap > 0)


def least(model: Model, data: Data) -> float:
    """The least loss of @model, which has no penalty, on @data as its nodes see it."""
    scaling = Scaling.of(data.x, data.y, regression=data.classes is None)
    x, y = scaling.x(data.x), scaling.y(data.y)
    inputs = np.column_stack([x, np.ones(len(x))])
    w = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        first, second = _slopes(model.kind, inputs @ w, y)
        try:
            step = np.linalg.solve((inputs.T * second) @ inputs, inputs.T @ first)
        except np.linalg.LinAlgError:
            break
        w -= step
        if np.abs(step).max() <= 1e-9 * (1 + np.abs(w).max()):
            return model.loss(w, x, y)
    raise HikyakuError(
        f"the least loss of {model.kind} on {data.rows} rows was not found", "use more rows"
    )
