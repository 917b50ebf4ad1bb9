# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that gossip on this machine, one of which sends false parameters."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..learn import data, job, plot, result, samples
from ..learn.live import Board
from ..process import option_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES, LIAR = 5, 2
LENGTH = 50  # of the vector of random numbers that the liar sends
MAX_SECONDS = 30.0
# Short steps and many reports, so that the curves show how the nodes learn.
SLOW = {"batch": 60, "step": 0.004, "momentum": 0, "report_seconds": 0.01}


@dataclass(frozen=True)
class Training:
    lines: list[dict]  # of all nodes
    recognised: list[int]  # nodes whose parameters most others refused
    notes: list[str]
    seconds: float
    node: int  # the best one that others accept
    quality: tuple[str, float]


def plan() -> job.Plan:
    return job.Plan(
        data=data.from_csv(Path("classes.csv"), samples.classes(), target=None, task="auto"),
        kind="logistic",
        nodes=NODES,
        options=option_words(merge="trimmed", fault=f"{LIAR}:outlier={LENGTH}", **SLOW),
        max_seconds=MAX_SECONDS,
    )


def run() -> Training:
    it = plan()
    board = Board(NODES, "", trims=True)
    outcome = job.train(it, job.on_this_machine(NODES), on_lines=board.take)
    x, y = outcome.scaling.x(it.data.x), outcome.scaling.y(it.data.y)
    losses = [it.model.loss(each, x, y) for each in outcome.w]
    node, _ = result.best_node(losses, board.faulty())
    return Training(
        outcome.lines,
        board.faulty(),
        board.liars(),
        max(line["time"] for line in outcome.lines if line["event"] == "end"),
        node,
        result.quality(it.model, outcome.w[node], outcome.scaling, it.data),
    )


def sentence(it: Training) -> str:
    """@it in one line."""
    learnt = [str(node) for node in range(NODES) if node not in it.recognised]
    measure, value = it.quality
    notes = "; ".join(it.notes) or "no node was recognised as faulty"
    return (
        f"nodes {', '.join(learnt[:-1])} and {learnt[-1]} learnt in {it.seconds:.2f} s, "
        f"{measure} {value:.4f} (node {it.node}'s model); {notes}"
    )


def draw(it: Training) -> "Figure":
    title = f"{NODES} nodes gossip, and node {LIAR} sends false parameters"
    return plot.draw(it.lines, NODES, title=title, target=math.nan, faulty=it.recognised)
