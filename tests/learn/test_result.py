# SPDX-License-Identifier: BSD-3-Clause
"""The node whose model a training saves, and the model that it must surpass."""

import math

import numpy as np
import pytest

from hikyaku.cli.learn import _useless
from hikyaku.learn.live import Board
from hikyaku.learn.native import Model
from hikyaku.learn.result import best_node, constant_loss


def test_a_node_that_others_refused_is_not_the_best():
    assert best_node([0.3, 0.2, 0.1], []) == (2, 3)
    assert best_node([0.3, 0.2, 0.1], [2]) == (1, 2)
    assert best_node([0.3, 0.2, 0.1], [1, 2]) == (0, 1)


def test_if_each_refused_the_other_both_count():
    assert best_node([0.2, 0.1], [0, 1]) == (1, 2)


def test_a_loss_that_is_not_finite_is_the_worst():
    assert best_node([math.nan, math.inf, 0.5], []) == (2, 3)


MODELS = [
    Model("linear", 2),
    Model("mlp", 2, hidden=3),
    *(Model("logistic", 2, classes) for classes in (2, 3)),
    *(Model("mlp", 2, classes, hidden=3) for classes in (2, 3)),
    *(Model("svm", 2, classes, hinge=hinge) for classes in (2, 3) for hinge in (False, True)),
]


@pytest.mark.parametrize("model", MODELS)
def test_no_other_constant_is_better_than_the_best(model):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 2))
    y = rng.choice(3, 200, p=[0.6, 0.3, 0.1]) if model.classes == 3 else rng.random(200)
    y = (y > 0.7) if model.classes == 2 else y
    y = y.astype(float)
    least = constant_loss(model, x, y)
    for _ in range(300):
        w = np.zeros(model.parameters)
        w[-model.outputs :] = rng.normal(size=model.outputs, scale=2)
        assert model.loss(w, x, y) >= least - 1e-9


def test_three_equal_classes_have_the_logarithm():
    y = np.repeat([0.0, 1.0, 2.0], 4)
    least = constant_loss(Model("logistic", 1, 3), np.zeros((12, 1)), y)
    assert least == pytest.approx(math.log(3))


CHECK = "check --target and the columns, or try --model mlp"
TRIMMED = "--merge trimmed, with 4 nodes or more"


@pytest.mark.parametrize(
    ("stop", "faulty", "trims", "fix"),
    [
        ("converged", False, True, CHECK),
        ("converged", True, True, CHECK),
        ("time", False, True, "more time: --max-seconds"),
        ("epochs", False, True, "more epochs: --max-epochs"),
        ("time", True, False, TRIMMED),
        ("converged", False, False, f"{TRIMMED}, if a node may be faulty; else {CHECK}"),
    ],
)
def test_a_useless_model_comes_with_a_fix(stop, faulty, trims, fix):
    board = Board(4, "a title", trims=trims)
    if faulty:
        line = {"event": "judged", "peer": 2, "taken": 0, "false": 90}
        board.take([line | {"node": judge} for judge in (0, 1, 3)])
    than = f"than the best constant, whose loss is 1.09861; fix: {fix}"
    for loss, hardly in ((math.log(3), "hardly better"), (1.3, "worse"), (math.nan, "worse")):
        said = _useless({"stop": stop}, loss, math.log(3), board)
        assert said == f"this model is {hardly} {than}"
