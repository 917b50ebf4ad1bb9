# SPDX-License-Identifier: BSD-3-Clause
"""The estimators pass scikit-learn's checks, find models as good as scikit-learn's, and are
documented as scikit-learn's are."""

import doctest
import inspect
import re
from typing import Self

import narwhals
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from hikyaku.learn import GossipClassifier, GossipRegressor, estimators

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


def test_the_curve_of_the_loss() -> None:
    """It falls to the loss of the models, and recording it changes no bit of them."""
    x, y = load_diabetes(return_X_y=True)
    plain, often, seldom = (
        GossipRegressor(n_nodes=3, random_state=1, max_epochs=40, loss_every=every).fit(x, y)
        for every in (0, 1, 10)
    )
    assert plain.losses_.shape == (0, 2)
    assert np.array_equal(plain.coef_, often.coef_)
    epochs, losses = often.losses_.T
    assert (np.diff(epochs) >= 0).all()
    assert losses[-1] < losses[0] / 1.2
    assert losses[-1] == pytest.approx(often.loss_, rel=0.05)
    assert 3 < len(seldom.losses_) < len(often.losses_) / 5


def test_what_it_refuses() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="one class"):
        GossipClassifier().fit(x, np.zeros(len(x)))
    with pytest.raises(ValueError, match="151 nodes and n_samples=150"):
        GossipRegressor(n_nodes=151).fit(x, y)
    with pytest.raises(ValueError, match="merge"):
        GossipRegressor(merge="median").fit(x, y)


# ---- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_probabilities_agree_with_predictions(model: str, classes: int) -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[y < classes], y[y < classes]
    ours = GossipClassifier(model, max_epochs=100, random_state=0).fit(x, y)
    shares = ours.predict_proba(x)
    assert shares.shape == (len(x), classes)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(x)))
    assert np.array_equal(ours.classes_[shares.argmax(axis=1)], ours.predict(x))


def test_an_svm_says_why_it_has_no_probabilities() -> None:
    """scikit-learn's available_if puts the reason behind its own message, as for SVC."""
    svm = GossipClassifier("svm")
    assert not hasattr(svm, "predict_proba")
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as refusal:
        _ = svm.predict_proba
    reason = str(refusal.value.__cause__)
    assert "model 'svm' has no probabilities" in reason
    assert "use model 'logistic' or 'mlp'" in reason


# ---- names of features ---------------------------------------------------------------------------


class Columns:
    """A table with names of columns, and as little more as scikit-learn needs. pandas is not
    installed here."""

    _implementation = narwhals.Implementation.UNKNOWN

    def __init__(self, columns: list[str], values: np.ndarray):
        self.columns, self.values, self.shape = columns, values, values.shape

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __narwhals_dataframe__(self) -> Self:
        return self

    def _with_version(self, version: object) -> Self:
        self._version = version
        return self


@pytest.mark.parametrize("estimator", [GossipClassifier, GossipRegressor])
def test_names_of_features_are_kept_and_compared(estimator: type[BaseEstimator]) -> None:
    x, y = load_iris(return_X_y=True)
    names = ["length", "width", "petal length", "petal width"]
    ours = estimator(max_epochs=20, random_state=0).fit(Columns(names, x), y)
    assert ours.n_features_in_ == 4
    assert ours.feature_names_in_.tolist() == names
    assert ours.predict(Columns(names, x)).shape == y.shape
    with pytest.raises(ValueError, match="feature names should match"):
        ours.predict(Columns(names[::-1], x))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        ours.predict(x)


def test_features_without_names_are_counted() -> None:
    x, y = load_iris(return_X_y=True)
    ours = GossipClassifier(max_epochs=20, random_state=0).fit(x, y)
    assert ours.n_features_in_ == 4
    assert not hasattr(ours, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 3 features, but GossipClassifier is expecting 4"):
        ours.predict(x[:, :3])


# ---- documentation -------------------------------------------------------------------------------


def section(estimator: type, name: str) -> dict[str, str]:
    """The entries of a section of the docstring, as numpydoc has them: type by name."""
    text = inspect.getdoc(estimator)
    body = re.search(rf"^{name}\n-+\n(.*?)(?:\n\n\S+.*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)[
        1
    ]
    return dict(re.findall(r"^(\w+) : (.+)$", body, re.MULTILINE))


@pytest.mark.parametrize("estimator", [GossipClassifier, GossipRegressor])
def test_the_docstring_has_every_parameter_and_its_default(estimator: type[BaseEstimator]) -> None:
    documented = section(estimator, "Parameters")
    defaults = estimator().get_params()
    assert list(documented) == list(inspect.signature(estimator).parameters)
    assert documented.keys() == defaults.keys()
    for name, default in defaults.items():
        said = documented[name].partition("default=")[2]
        assert type(default)(said.strip('"')) == default if default is not None else said == "None"


@pytest.mark.parametrize("estimator", [GossipClassifier, GossipRegressor])
def test_the_docstring_has_every_attribute_after_fit(estimator: type[BaseEstimator]) -> None:
    x, y = load_iris(return_X_y=True)
    ours = estimator(max_epochs=20, random_state=0).fit(Columns(list("abcd"), x), y)
    fitted = {name for name in vars(ours) if name.endswith("_") and not name.startswith("_")}
    assert section(estimator, "Attributes").keys() == fitted


def test_the_examples_run() -> None:
    tests = [t for t in doctest.DocTestFinder().find(estimators) if t.examples]
    assert {t.name.rpartition(".")[2] for t in tests} == {"GossipClassifier", "GossipRegressor"}
    assert doctest.testmod(estimators).failed == 0
