# SPDX-License-Identifier: BSD-3-Clause
"""Compares the models of gossip learning with those of scikit-learn's solvers.

Objective and data are the same. Nodes run in this process (learn/local.c), so every test is
deterministic."""

from functools import cache

import numpy as np
import pytest
from sklearn import datasets, linear_model, neural_network, svm

from hikyaku.learn.data import Scaling, split
from hikyaku.learn.native import Model, train


def regression_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3000, 10)) @ (np.eye(10) + 0.3 * rng.normal(size=(10, 10)))
    return x, x @ rng.normal(size=10) + 2 * rng.normal(size=3000)


LOAD = {
    "made": regression_data,
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "moons": lambda: datasets.make_moons(2000, noise=0.25, random_state=0),
    "friedman": lambda: datasets.make_friedman1(2000, noise=1.0, random_state=0),
}
REGRESSION = {"made", "diabetes", "friedman"}


def load(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    x, y = LOAD[name]()
    y = np.asarray(y, dtype=np.float64)
    scaling = Scaling.of(x, y, regression=name in REGRESSION)
    return scaling.x(x), scaling.y(y), 0 if name in REGRESSION else int(y.max()) + 1


def flat(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


@cache  # several tests have the same objective
def theirs(model: Model, name: str) -> np.ndarray:
    """The parameters that scikit-learn finds for the same objective on the data @name."""
    x, y, _ = load(name)
    strength = model.l2 * len(x)
    if model.kind == "linear":
        fit = linear_model.Ridge(alpha=strength).fit(x, y)
    elif model.kind == "logistic":
        fit = linear_model.LogisticRegression(C=1 / strength, tol=1e-8, max_iter=10000).fit(x, y)
    elif model.kind == "svm":
        # it also penalises the bias, but with this scaling hardly
        loss = "hinge" if model.hinge else "squared_hinge"
        fit = svm.LinearSVC(
            C=1 / strength,
            loss=loss,
            dual=model.hinge,
            intercept_scaling=30,
            max_iter=300000,
            random_state=0,
        ).fit(x, y)
    else:
        kind = neural_network.MLPClassifier if model.classes else neural_network.MLPRegressor
        fit = kind(
            hidden_layer_sizes=(model.hidden,),
            activation="tanh",
            alpha=strength,
            max_iter=3000,
            tol=1e-5,
            n_iter_no_change=20,
            random_state=0,
        ).fit(x, y)
        return flat(fit.coefs_[0].T, fit.intercepts_[0], fit.coefs_[1].T, fit.intercepts_[1])
    return flat(fit.coef_, fit.intercept_)


def shards(x: np.ndarray, y: np.ndarray, nodes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(x[rows], y[rows]) for rows in split(len(x), nodes, 0)]


def above(model: Model, w: np.ndarray, name: str) -> list[float]:
    """Returns by what share each node's loss on the data @name exceeds scikit-learn's."""
    x, y, _ = load(name)
    best = model.loss(theirs(model, name), x, y)
    return [model.loss(each, x, y) / best - 1 for each in w]


@pytest.mark.parametrize("merge", ["mean", "age", "push-sum"])
@pytest.mark.parametrize(
    ("kind", "name", "extra"),
    [
        ("linear", "made", {}),
        ("linear", "diabetes", {}),
        ("logistic", "cancer", {}),
        ("logistic", "iris", {}),
        ("svm", "cancer", {}),
        ("svm", "wine", {}),
        ("svm", "cancer", {"hinge": True}),
        ("mlp", "moons", {"hidden": 16, "l2": 1e-4}),
        ("mlp", "friedman", {"hidden": 16, "l2": 1e-4}),
    ],
)
def test_as_good_as_scikit_learn(kind: str, name: str, extra: dict, merge: str) -> None:
    x, y, classes = load(name)
    model = Model(kind, x.shape[1], classes, **{"l2": 0.01, **extra})
    result = train(model, shards(x, y, 2), merge=merge, seed=1)
    assert result.stop == "converged"
    assert max(above(model, result.w, name)) < 0.005


@pytest.mark.parametrize("topology", ["all", "ring", "random", "exponential"])
def test_more_nodes(topology: str) -> None:
    name = "made"
    x, y, classes = load(name)
    model = Model("linear", x.shape[1], classes, l2=0.01)
    result = train(model, shards(x, y, 8), topology=topology, seed=1)
    assert max(above(model, result.w, name)) < 0.005


@pytest.mark.parametrize(("kind", "name"), [("linear", "made"), ("logistic", "moons")])
def test_lost_frames_and_liars(kind: str, name: str) -> None:
    """Within 1 % with 10 % of frames lost, one node of NaN and one of outliers."""
    x, y, classes = load(name)
    model = Model(kind, x.shape[1], classes, l2=0.01)
    faults = {2: "nan", 5: "outlier"}
    result = train(
        model,
        shards(x, y, 8),
        merge="trimmed",
        drop=0.1,
        faults=faults,
        fault_scale=20.0,
        seed=1,
    )
    assert result.refused["not_finite"] > 0
    assert result.refused["far"] > 0
    honest = [w for node, w in enumerate(result.w) if node not in faults]
    assert max(above(model, np.array(honest), name)) < 0.01


def test_progress_can_end_it_and_errors_come_through() -> None:
    x, y, classes = load("made")
    model = Model("linear", x.shape[1], classes)
    seen = []

    def fail(progress: object) -> bool:
        seen.append(progress)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        train(model, shards(x, y, 2), progress_every=5, on_progress=fail)
    assert len(seen) == 1


def test_matrices_are_the_layout_of_c() -> None:
    """numpy's scores and C's losses agree, so Python knows the layout of the parameters."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.integers(0, 3, 50).astype(float)
    for model in (
        Model("logistic", 4, 3),
        Model("mlp", 4, 3, 5),
        Model("logistic", 4, 2),
        Model("mlp", 4, 2, 5),
    ):
        labels = np.minimum(y, model.classes - 1)
        w = rng.normal(size=model.parameters)
        scores = model.scores(w, x)
        if model.classes == 2:
            scores = np.column_stack([np.zeros(len(x)), scores])
        scores = scores - scores.max(axis=1, keepdims=True)
        chance = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        expected = -np.log(chance[np.arange(len(x)), labels.astype(int)]).mean()
        assert model.loss(w, x, labels) == pytest.approx(expected, rel=1e-12)
