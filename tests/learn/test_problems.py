# SPDX-License-Identifier: BSD-3-Clause
"""The problems of `bench learn`: their rows follow from the seed, and their least loss is that of
scikit-learn's solvers."""

import numpy as np
import pytest
from sklearn import linear_model, svm

from hikyaku.bench.learn.problems import PROBLEMS, least, rows
from hikyaku.errors import HikyakuError
from hikyaku.learn.data import Data, Scaling
from hikyaku.learn.native import Model

SOLVERS = {
    "linear": linear_model.LinearRegression(),
    "logistic": linear_model.LogisticRegression(C=1e9, tol=1e-9, max_iter=10_000),
    # its penalty on the bias is small, like that on the weights
    "svm": svm.LinearSVC(C=1e4, dual=False, tol=1e-9, max_iter=100_000),
}


def model_of(name: str, data: Data) -> Model:
    return Model(PROBLEMS[name].kind, data.x.shape[1], len(data.classes or []))


@pytest.mark.parametrize("name", PROBLEMS)
def test_least_loss(name):
    data = rows(PROBLEMS[name], 3000, 1)
    model = model_of(name, data)
    scaling = Scaling.of(data.x, data.y, regression=PROBLEMS[name].regression)
    x, y = scaling.x(data.x), scaling.y(data.y)
    fit = SOLVERS[model.kind].fit(x, y)
    theirs = model.loss(np.append(np.ravel(fit.coef_), fit.intercept_), x, y)
    found = least(model, data)
    assert found == pytest.approx(theirs, rel=1e-6)
    assert found <= theirs + 1e-9


def test_rows_follow_from_the_seed():
    line, again, other = (rows(PROBLEMS["line"], 1000, seed) for seed in (1, 1, 2))
    assert np.array_equal(line.x, again.x) and np.array_equal(line.y, again.y)
    assert not np.array_equal(line.x, other.x)
    assert line.x.shape == (1000, 1)
    one, two = (rows(PROBLEMS[name], 1000, 1) for name in ("logistic", "svm"))
    assert np.array_equal(one.x, two.x) and np.array_equal(one.y, two.y)
    assert 200 < one.y.sum() < 800  # both classes have many rows


def test_classes_that_do_not_overlap_have_no_least_loss():
    x = np.linspace(-1, 1, 20).reshape(-1, 1)
    data = Data(x, (x[:, 0] > 0).astype(float), ["no", "yes"], ["x"], "apart")
    with pytest.raises(HikyakuError, match="least loss of logistic on 20 rows was not found"):
        least(Model("logistic", 1, 2), data)
