# SPDX-License-Identifier: BSD-3-Clause
"""The node whose model a training saves."""

import math

from hikyaku.learn.result import best_node


def test_a_node_that_others_refused_is_not_the_best():
    assert best_node([0.3, 0.2, 0.1], []) == (2, 3)
    assert best_node([0.3, 0.2, 0.1], [2]) == (1, 2)
    assert best_node([0.3, 0.2, 0.1], [1, 2]) == (0, 1)


def test_if_each_refused_the_other_both_count():
    assert best_node([0.2, 0.1], [0, 1]) == (1, 2)


def test_a_loss_that_is_not_finite_is_the_worst():
    assert best_node([math.nan, math.inf, 0.5], []) == (2, 3)
