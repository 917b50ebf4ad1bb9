# SPDX-License-Identifier: BSD-3-Clause
"""The estimators pass scikit-learn's checks, and find models as good as scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from hikyaku.learn import GossipClassifier, GossipRegressor

ESTIMATORS = [
    GossipRegressor(random_state=0),
    GossipRegressor("mlp", max_epochs=200, random_state=0),
    GossipRegressor(merge="trimmed", n_nodes=4, topology="ring", random_state=0),
    GossipClassifier(random_state=0),
    GossipClassifier("svm", merge="push-sum", random_state=0),
    GossipClassifier("mlp", max_epochs=300, random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{e.model}")
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator: object) -> None:
    results = check_estimator(estimator, on_fail=None)
    bad = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not bad
    assert sum(r["status"] == "passed" for r in results) > 40


def test_coefficients_are_in_the_units_of_the_data() -> None:
    x, y = load_diabetes(return_X_y=True)
    x = x * 1000 + 7
    ours = GossipRegressor(alpha=0, n_nodes=4, random_state=1).fit(x, y)
    theirs = Ridge(alpha=0).fit(x, y)
    assert ours.predict(x) == pytest.approx(x @ ours.coef_ + ours.intercept_)
    assert ours.score(x, y) > theirs.score(x, y) - 0.005


def test_as_good_as_logistic_regression() -> None:
    for load in (load_iris, load_breast_cancer):
        x, y = load(return_X_y=True)
        ours = cross_val_score(GossipClassifier(alpha=0.002, n_nodes=3, random_state=1), x, y)
        theirs = cross_val_score(LogisticRegression(max_iter=10000), x, y)
        assert ours.mean() > theirs.mean() - 0.03


def test_a_seed_repeats_the_bits_and_another_does_not() -> None:
    x, y = load_diabetes(return_X_y=True)
    first, again, other = (
        GossipRegressor(random_state=seed, drop=0.1, max_epochs=50).fit(x, y).coef_
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_it_refuses() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="one class"):
        GossipClassifier().fit(x, np.zeros(len(x)))
    with pytest.raises(ValueError, match="151 nodes and n_samples=150"):
        GossipRegressor(n_nodes=151).fit(x, y)
    with pytest.raises(ValueError, match="merge"):
        GossipRegressor(merge="median").fit(x, y)
    assert not hasattr(GossipClassifier("svm"), "predict_proba")
