# SPDX-License-Identifier: BSD-3-Clause
"""GossipRegressor and GossipClassifier: gossip learning as scikit-learn's estimators.

They train @n_nodes nodes in this process (learn/local.c), on a network that is a queue. It needs no
root and no launcher, and is as fast as C. With @random_state it gives the same bits in every run.
The nodes run the same code as in `hikyaku learn`.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from textwrap import indent

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .data import Scaling, split
from .native import MERGES, TOPOLOGIES, Model, Progress, train

_SHARED = {
    "n_nodes": [Interval(Integral, 1, 1024, closed="both")],
    "topology": [StrOptions(set(TOPOLOGIES))],
    "merge": [StrOptions(set(MERGES))],
    "alpha": [Interval(Real, 0, None, closed="left")],
    "hidden": [Interval(Integral, 1, 4096, closed="both")],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, 1, closed="left")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "gossip_every": [Interval(Integral, 0, None, closed="left")],
    "drop": [Interval(Real, 0, 1, closed="left")],
    "loss_every": [Interval(Integral, 0, None, closed="left")],
    "random_state": ["random_state"],
}

_PARAMETERS = """\
n_nodes : int, default=2
    Number of nodes. The rows are distributed among them.
topology : {"all", "ring", "random", "exponential"}, default="all"
    Neighbours of each node.
merge : {"mean", "age", "trimmed", "push-sum"}, default="mean"
    How a node combines its model with a neighbour's (docs/learn.md).
alpha : float, default=1e-4
    Penalty: alpha/2 times the sum of squared weights of the standardised features is added to
    the mean loss of a row.
hidden : int, default=16
    Hidden units of the mlp.
batch_size : int, default=16
    Rows of a step of SGD.
max_epochs : int, default=10000
    Limit of each node, in passes over its rows.
tol : float, default=1e-4
    Relative fall of the loss that is progress.
n_iter_no_change : int, default=10
    Epochs without progress before the step is halved.
gossip_every : int, default=1
    Batches between two messages; 0: no messages.
drop : float, default=0.0
    Share of messages that the network loses.
loss_every : int, default=0
    Epochs between two entries of losses_, each of which costs a pass over all rows for every
    node; 0: none.
random_state : int, RandomState instance or None, default=None
    An int gives the same bits in every fit."""

_ATTRIBUTES = """\
n_features_in_ : int
    Number of features seen during fit.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the features, if X has columns whose names are all strings.
n_iter_ : int
    Epochs of the node that trained longest.
loss_ : float
    Objective of the final model on all rows. The mean of the nodes' models is the final one.
losses_ : ndarray of shape (n_losses, 2)
    The curve of the loss: epochs, and the mean over the nodes of their models' objective on all
    rows. Empty if loss_every is 0.
stop_ : {"converged", "epochs", "rounds"}
    Why the training ended: the loss no longer fell, max_epochs was reached, or too few messages
    arrived."""


def _parameters(cls: type) -> type:
    """Makes __init__, from whose signature scikit-learn reads the parameters. Completes the
    docstring by the parts that all estimators share."""
    cls = dataclass(eq=False, repr=False)(cls)  # scikit-learn compares by identity
    for name, text in (("{parameters}", _PARAMETERS), ("{attributes}", _ATTRIBUTES)):
        cls.__doc__ = (cls.__doc__ or "").replace(name, indent(text, "    ").lstrip())
    return cls


@_parameters
class _Gossip(BaseEstimator):
    """The common part of both."""

    model: str
    _: KW_ONLY
    n_nodes: int = 2
    topology: str = "all"
    merge: str = "mean"
    alpha: float = 1e-4
    hidden: int = 16
    batch_size: int = 16
    max_epochs: int = 10000
    tol: float = 1e-4
    n_iter_no_change: int = 10
    gossip_every: int = 1
    drop: float = 0.0
    loss_every: int = 0
    random_state: int | np.random.RandomState | None = None

    def _train(self, x: np.ndarray, y: np.ndarray, classes: int) -> None:
        """Trains, and sets the attributes of fit(). @x and @y are checked."""
        if self.n_nodes > len(x):
            raise ValueError(
                f"{self.n_nodes} nodes and n_samples={len(x)}: each node needs a row "
                f"(1 sample at least); set n_nodes to at most {len(x)}"
            )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        scaling = Scaling.of(x, y, regression=classes == 0)
        model = Model(
            self.model, x.shape[1], classes, self.hidden if self.model == "mlp" else 0, self.alpha
        )
        xs, ys = scaling.x(x), scaling.y(y)
        curve: list[tuple[float, float]] = []

        def note(now: Progress) -> bool:
            curve.append((now.rows / len(x), now.loss))
            return True

        batches = -(-len(x) // (self.n_nodes * self.batch_size))  # of a node's epoch
        rounds = -(-batches // max(self.gossip_every, 1))
        result = train(
            model,
            [(xs[rows], ys[rows]) for rows in split(len(x), self.n_nodes, seed)],
            topology=self.topology,
            merge=self.merge,
            drop=self.drop,
            seed=seed,
            batch=self.batch_size,
            max_epochs=self.max_epochs,
            tolerance=self.tol,
            epochs_no_change=self.n_iter_no_change,
            gossip_every=self.gossip_every,
            progress_every=self.loss_every * rounds,
            on_progress=note if self.loss_every else None,
        )
        w = result.w.mean(axis=0)
        self.n_iter_ = max(1, result.epochs)
        self.loss_ = model.loss(w, xs, ys)
        self.losses_ = np.array(curve).reshape(-1, 2)
        self.stop_ = result.stop
        self._model, self._scaling, self._w = model, scaling, w
        if self.model == "mlp":
            return
        parts = model.matrices(w)
        self.coef_ = parts["weight"] / scaling.scale * scaling.y_scale
        offset = parts["bias"] * scaling.y_scale + scaling.y_mean
        self.intercept_ = offset - self.coef_ @ scaling.mean

    def _scores(self, x) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, x, dtype=np.float64, reset=False)
        return self._model.scores(self._w, self._scaling.x(x))


@_parameters
class GossipRegressor(RegressorMixin, _Gossip):
    """Regression by nodes that gossip.

    Each node trains on its share of the rows and sends its parameters to neighbours. The nodes run
    in this process, on a simulated network.

    Parameters
    ----------
    model : {"linear", "mlp"}, default="linear"
        Linear least squares, or a network with one hidden layer.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights in the units of the data. An mlp does not have them.
    intercept_ : float
        The prediction where all features are 0. An mlp does not have it.
    {attributes}

    See Also
    --------
    GossipClassifier : The same for classes.

    Examples
    --------
    >>> from hikyaku.learn import GossipRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> y = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    >>> model = GossipRegressor(n_nodes=3, random_state=0).fit(X, y)
    >>> model.predict([[6.0]]).round(1)
    array([13.])
    >>> round(model.score(X, y), 2)
    1.0
    """

    _parameter_constraints = {**_SHARED, "model": [StrOptions({"linear", "mlp"})]}  # noqa: RUF012

    model: str = "linear"

    def fit(self, X, y):
        """Trains on the rows of X and their numbers y; returns self."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._train(X, np.asarray(y, dtype=np.float64), 0)
        if self.model == "linear":
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def predict(self, X):
        """The number for each row of X."""
        scores = self._scores(X)[:, 0]
        return scores * self._scaling.y_scale + self._scaling.y_mean


def _has_probabilities(estimator) -> bool:
    if estimator.model == "svm":
        raise AttributeError(
            "model 'svm' has no probabilities, since its scores are not log odds; use model "
            "'logistic' or 'mlp', decision_function, or CalibratedClassifierCV"
        )
    return True


@_parameters
class GossipClassifier(ClassifierMixin, _Gossip):
    """Classification by nodes that gossip.

    Each node trains on its share of the rows and sends its parameters to neighbours. The nodes run
    in this process, on a simulated network.

    Parameters
    ----------
    model : {"logistic", "svm", "mlp"}, default="logistic"
        Logistic regression (softmax if there are more than two classes), a linear support vector
        machine with squared hinge loss, or a network with one hidden layer.
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights in the units of the data; one row if there are two classes. An mlp does not have
        them.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The scores where all features are 0. An mlp does not have them.
    {attributes}

    See Also
    --------
    GossipRegressor : The same for numbers.

    Notes
    -----
    Model "svm" has no ``predict_proba``: its scores are distances from a plane, not log odds. Use
    ``decision_function``, or scikit-learn's ``CalibratedClassifierCV``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hikyaku.learn import GossipClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GossipClassifier(n_nodes=3, random_state=0).fit(X, y)
    >>> model.predict(X[[0, 60, 120]])
    array([0, 1, 2])
    >>> model.predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    >>> round(model.score(X, y), 2)
    0.98
    """

    _parameter_constraints = {  # noqa: RUF012
        **_SHARED,
        "model": [StrOptions({"logistic", "svm", "mlp"})],
    }

    model: str = "logistic"

    def fit(self, X, y):
        """Trains on the rows of X and their labels y; returns self."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        labels = LabelEncoder().fit(y)
        self.classes_ = labels.classes_
        if len(self.classes_) < 2:
            raise ValueError(
                f"all rows are of one class, {self.classes_[0]!r}; a classifier needs two classes"
            )
        self._train(X, labels.transform(y).astype(np.float64), len(self.classes_))
        return self

    def decision_function(self, X):
        """The scores, of shape (n_samples,) with two classes, otherwise (n_samples, n_classes). Of
        two classes, rows with a positive score belong to the second."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """The label for each row of X."""
        scores = self.decision_function(X)
        which = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[which]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """The probability of each class, of shape (n_samples, n_classes)."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            one = 1 / (1 + np.exp(-np.clip(scores[:, 0], -700, 700)))
            return np.column_stack([1 - one, one])
        power = np.exp(scores - scores.max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)
