# SPDX-License-Identifier: BSD-3-Clause
"""The tables and goals of `bench learn`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ..common import goals
from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number, repeats_text
from .problems import PROBLEMS
from .run import (
    ALONE,
    ITERATIONS,
    LOSS,
    PASSES,
    QUALITY,
    TIME,
    TO_ONE,
    TO_TCP,
    nodes_text,
)

# ---- goals ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A limit for a ratio of two nodes over dpdk."""

    model: str
    metric: str
    least: float

    @property
    def text(self) -> str:
        than = {TO_ONE: "one", TO_TCP: "tcp"}[self.metric]
        return f"{self.model}: 2 nodes by dpdk, times as fast as {than}"


# of the line the paper's own figures
GOALS = (
    Goal("line", TO_ONE, 2),
    Goal("line", TO_TCP, 1.2),
    Goal("plane", TO_ONE, 1.8),
    Goal("plane", TO_TCP, 1.2),
)


def judge(rows: list[dict]) -> list[dict]:
    """The goals that were measured, and whether they are met."""
    ratio = {(r["model"], r["metric"]): r["median"] for r in rows
             if (r["backend"], r["nodes"]) == ("dpdk", 2) and "missed" not in r}  # fmt: skip
    return [
        goals.judged(goal.text, ratio[goal.model, goal.metric], "≥", goal.least)
        for goal in GOALS
        if (goal.model, goal.metric) in ratio
    ]


# ---- tables --------------------------------------------------------------------------------------

TITLES = {
    "line": "Regression, y = a·x + b",
    "plane": "Regression, 16 features",
    "logistic": "Logistic regression, 16 features",
    "svm": "Linear SVM, 16 features",
}
COLUMNS = {
    TIME: "time, s",
    TO_ONE: "× one",
    TO_TCP: "× tcp",
    ITERATIONS: "iter./s",
    PASSES: "passes",
    LOSS: "loss",
    QUALITY: "R²",
}


def _name(row: dict) -> str:
    backend = row["backend"]
    return nodes_text(row["nodes"]) + ("" if backend == ALONE else f", {backend}")


def _cell(row: dict | None) -> str:
    if row and "missed" in row:
        return "missed"
    # a loss and an accuracy differ from 1 in their last digits only
    return (
        number(row["median"], 4 if row and row["metric"] in (LOSS, QUALITY) else 3) if row else "–"
    )


def _table(model: str, rows: list[dict], target: float) -> Table:
    made = left_titled(f"{TITLES[model]}, until the loss is {target:g} times the least")
    made.add_column("", no_wrap=True)
    for metric, text in COLUMNS.items():
        classes = metric == QUALITY and not PROBLEMS[model].regression
        made.add_column("right" if classes else text, justify="right", no_wrap=True)
    by = {(_name(r), r["metric"]): r for r in rows}
    for name in dict.fromkeys(_name(r) for r in rows):
        made.add_row(name, *(_cell(by.get((name, metric))) for metric in COLUMNS))
    return made


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for model in TITLES:
        rows = [r for r in document["rows"] if r["model"] == model]
        if rows:
            console.print(_table(model, rows, about["targets"][model]))
    limits = {r["missed"] for r in document["rows"] if "missed" in r}
    for limit in sorted(limits):
        console.print(f"missed: {limit}.", highlight=False)
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    warn_if_busy(about, console)
    console.print(
        f"Medians of {repeats_text(about['repeats'])}; {about['rows']} rows, seed {about['seed']}; "
        f"iterations of {about['batch']} rows, those of all nodes; a message after each "
        f"{about['gossip_every']} of a node; passes: rows trained with, of all rows; loss: times "
        f"the least; right: the share of rows whose class the model gets right. × one, × tcp: "
        f"times as fast as one node, and as tcp with as many nodes. "
        f"{about['cpu']}, {about['cores']} cores, one a node, shared by more nodes; dpdk on memif, "
        f"the others on veth; load at start {about['load_at_start']}; DPDK {about['dpdk']}.",
        highlight=False,
    )
