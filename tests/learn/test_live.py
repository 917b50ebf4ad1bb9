# SPDX-License-Identifier: BSD-3-Clause
"""The table of a training is complete on a narrow terminal. The notes on it name who sent false
parameters, and nobody else."""

import pytest
from rich.console import Console

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
    said = "node 3 sent false parameters: 3 of 3 other nodes refused 90% of its slices"
    assert made.notes() == [
        f"{said}; to keep them out of the model: --merge trimmed, with 4 nodes or more"
    ]
    made.trims = True
    assert made.notes() == [said]


def test_a_short_training_names_a_liar_too():
    """Most of its slices were stale. So no node refused more than 28 as far."""
    judged = {(0, 2): (1, 28), (1, 2): (0, 6), (3, 2): (0, 9)}
    assert board(4, judged).faulty() == [2]


def test_advice_for_a_liar_comes_only_if_the_models_have_something_of_it():
    def note(*judges: tuple[int, int]) -> str:
        (text,) = board(4, {(judge, 3): of for judge, of in enumerate(judges)}).notes()
        return text

    advice = "to keep them out of the model"
    assert "3 of 3 other nodes refused 100% of its slices" in note((0, 90), (0, 90), (0, 90))
    assert advice not in note((0, 90), (0, 90), (0, 90))
    assert advice in note((1, 999), (0, 999), (0, 999))
    assert "refused 99% of its slices" in note((1, 999), (0, 999), (0, 999))
    assert advice in note((90, 0), (0, 90), (0, 90))  # by the node that took all


@pytest.mark.parametrize(
    "judged",
    [
        {(0, 1): (900, 100), (2, 1): (900, 100), (3, 1): (900, 100)},  # far for a while
        {(0, 1): (48, 52), (2, 1): (48, 52), (3, 1): (40, 60)},  # late, on a busy machine
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


def test_a_liar_is_named_while_nodes_train():
    """Once, and not before most nodes have refused most of its slices for two seconds."""
    made = Board(4, "a title")

    def at(time: float, taken: int, false: int) -> list[str]:
        line = {"event": "judged", "peer": 3, "taken": taken, "false": false, "time": time}
        made.take([line | {"node": judge} for judge in (0, 1)])
        return made.warnings()

    assert at(0.5, 10, 90) == []
    assert at(1.5, 200, 100) == [], "it was far for a while"
    assert at(2.0, 200, 500) == []
    assert at(3.5, 200, 600) == []
    (said,) = at(4.0, 200, 800)
    assert said == (
        "node 3 sends false parameters: 2 of 3 other nodes refuse 80% of its slices; to keep them "
        "out of the model: --merge trimmed, with 4 nodes or more; Ctrl-C ends this run"
    )
    assert at(9.0, 200, 900) == []
    made.warned.clear()
    made.trims = True
    assert made.warnings() == [said.partition(";")[0].replace("80%", "81%")]


def test_a_refusal_for_another_reason_names_both_sides():
    made = Board(4, "a title")
    made.take([{"event": "refused", "node": 0, "peer": 3, "why": "model"}])
    assert made.notes()[0].startswith("1 node refused messages of node 3: it trains another model")
    made.take([{"event": "refused", "node": 1, "peer": 2, "why": "far"}])
    assert len(made.notes()) == 1


def test_at_the_end_the_loss_is_that_of_the_decision():
    """The last line of a node may be of an earlier loss, or of none."""
    line = {"event": "end", "state": "done", "stop": "target"} | WIDEST
    made = Board(2, "a title")
    made.take([line | {"node": 0, "time": 1.0, "loss_all": 0.25, "stop_loss": 0.19}])
    made.take([line | {"node": 1, "time": 2.0, "loss_all": None, "stop_loss": 0.19}])
    assert made.table().caption == "2.0 s, agreed loss 0.19"


WIDEST = {
    "epochs": 99_949,
    "loss": 1.23456e-05,
    "loss_all": 1.23456e-05,
    "consensus": 1.23456e-05,
    "messages": 219_700,
    "drops": 123_456_789,
    "rejects": 999_940,
    "bytes": 123_456_789_012,
}


def last_row(width: int, nodes: int) -> list[str]:
    """The words of the last row of the table, which may have several lines, after the last node has
    reported WIDEST."""
    made = Board(nodes, "a title")
    line = {"event": "progress", "node": nodes - 1, "state": "training", "stop": "none"}
    made.take([line | WIDEST | {"time": time, "messages": 219_700 * time} for time in (0, 1)])
    console = Console(width=width)
    with console.capture() as capture:
        console.print(made.table())
    lines = capture.get().splitlines()
    (rule,) = [at for at, line in enumerate(lines) if "─" in line]
    return " ".join(lines[rule + nodes : -1]).split()


def test_no_number_is_cut_on_80_columns() -> None:
    """A rate of 219.7 k was."""
    assert last_row(80, nodes=1024) == [
        *("1023", "training", "99.9k", "1.235e-05", "1.2e-05"),
        *("220k", "220k", "123M", "1M", "123G"),
    ]


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_narrower_terminal_folds_numbers(width: int) -> None:
    """Their parts stand below each other."""
    whole, folded = ("".join(last_row(w, nodes=1)) for w in (80, width))
    assert sorted(folded) == sorted(whole)


def test_a_node_that_ended_is_not_lost():
    """Neither one that said that it leaves, nor one whose message of this was lost."""
    made = Board(3, "a title")
    gone = {"event": "member", "node": 1, "peer": 0, "joined": False, "left": False, "time": 3.5}
    made.take([gone | {"left": True}])
    assert made.notes() == []
    made.take([gone])
    assert made.notes() == ["node 1 lost node 0"], "it may have been killed"
    end = {"event": "end", "node": 0, "time": 3.0, "stop": "target", "state": "ended"}
    made.take([end])
    assert made.notes() == []
    made.take([end | {"time": 4.0}])
    assert made.notes() == ["node 1 lost node 0"], "it had been lost, and came back"
