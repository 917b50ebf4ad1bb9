# SPDX-License-Identifier: BSD-3-Clause
"""The notes on a training: they name who sent false parameters, and nobody else."""

import pytest

from hikyaku.learn.live import Board


def board(nodes: int, judged: dict[tuple[int, int], tuple[int, int]]) -> Board:
    """@judged: by (judge, peer): slices taken, slices refused as false."""
    made = Board(nodes, "a title")
    made.take(
        [
            {"event": "judged", "node": judge, "peer": peer, "taken": taken, "false": false}
            for (judge, peer), (taken, false) in judged.items()
        ]
    )
    return made


def test_a_node_that_most_refuse_most_of_the_time_is_named():
    """It refuses the others, too, which says nothing of them."""
    judged = {(judge, 3): (10, 90) for judge in (0, 1, 2)}
    judged |= {(3, peer): (0, 100) for peer in (0, 1, 2)}
    made = board(4, judged)
    assert made.faulty() == [3]
    assert made.notes() == [
        "node 3 sent false parameters: 3 of 3 other nodes refused 90% of its slices"
    ]


@pytest.mark.parametrize(
    "judged",
    [
        {(0, 1): (900, 100), (2, 1): (900, 100), (3, 1): (900, 100)},  # far for a while
        {(0, 1): (0, 100)},  # one judge
        {(0, 1): (0, 5), (2, 1): (0, 5), (3, 1): (0, 5)},  # too few to judge
    ],
)
def test_honest_nodes_are_not_named(judged):
    made = board(4, judged)
    assert made.faulty() == []
    assert made.notes() == []


def test_of_two_nodes_nobody_can_tell_who_is_wrong():
    notes = board(2, {(0, 1): (1, 99), (1, 0): (1, 99)}).notes()
    assert notes[0] == (
        "node 1 refused 99% of node 0's slices: one of the two has false parameters"
    )


def test_a_refusal_for_another_reason_names_both_sides():
    made = Board(4, "a title")
    made.take([{"event": "refused", "node": 0, "peer": 3, "why": "model"}])
    assert made.notes()[0].startswith("1 node refused messages of node 3: it trains another model")
    made.take([{"event": "refused", "node": 1, "peer": 2, "why": "far"}])
    assert len(made.notes()) == 1
