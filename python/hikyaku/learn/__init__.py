# SPDX-License-Identifier: BSD-3-Clause
"""Gossip learning: nodes train on their own rows and merge parameters with neighbours.

    from hikyaku.learn import GossipClassifier
    GossipClassifier(model="svm", n_nodes=8, random_state=1).fit(X, y)

The estimators need scikit-learn; the rest does not, so they are loaded when they are asked for.
"""

__all__ = ["GossipClassifier", "GossipRegressor"]


def __getattr__(name: str) -> object:
    if name in __all__:
        try:
            from . import estimators
        except ModuleNotFoundError as error:
            from ..packages import missing

            if sentence := missing(error):
                raise ModuleNotFoundError(str(sentence), name=error.name) from error
            raise

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
