# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench learn`: the time in which nodes reach a loss by gossip, over every backend.

Each case trains the same rows until the loss of all nodes is near the least one (problems.py). One
node has all rows, and of n nodes each has 1/n of them. Within each repeat the cases of a model
follow each other with one seed, and ratios are those of one repeat. Each repeat has another seed,
because the number of rows until the target depends on their order.

Nodes that are more than the machine's cores share these, and yield after each round. They show what
gossip among many nodes costs, and cannot show that many cores are faster than two.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...errors import HikyakuError
from ...lab import Lab, down_dead, own_name
from ...learn import job
from ...learn.data import Data
from ...learn.result import best_node, quality
from ...process import option_words
from ..common import machine
from ..common.summary import in_turn, summary
from ..rtc.run import WIRES
from .problems import PROBLEMS, Problem, least, rows

BACKENDS = tuple(WIRES)
ALONE = "none"  # of a single node
TCP = "tcp"  # with which others are compared
MOST_NODES = 32  # a process can open so many wires of memif
BATCH = 16  # rows of an iteration: hk_learn's own
LIMIT_SECONDS = 120.0  # of one training

# Metrics of each case, and their units.
TIME, ITERATIONS, PASSES, LOSS, QUALITY = "time", "iterations", "passes", "loss", "quality"
TO_ONE, TO_TCP = "to_one", "to_tcp"
UNITS = {
    TIME: "s",
    ITERATIONS: "1/s",
    PASSES: "passes",
    LOSS: "times the least",
    QUALITY: "R² or accuracy",
    TO_ONE: "ratio",
    TO_TCP: "ratio",
}

NO_FIGURES = {"median": None, "min": None, "max": None}


@dataclass(frozen=True)
class Plan:
    """@rows: of the data. @gossip_every: batches that a node trains between two messages. @seed: of
    the rows, and of the first repeat's training."""

    models: list[str]
    backends: list[str]
    nodes: list[int]
    repeats: int
    rows: int = 100_000
    gossip_every: int = 4
    seed: int = 1


@dataclass(frozen=True)
class Case:
    model: str
    backend: str
    nodes: int

    @property
    def text(self) -> str:
        return f"{self.model}, {nodes_text(self.nodes)}, {self.backend}"


Values = dict[str, float]  # by metric


class MissedError(HikyakuError):
    """A training that has not reached its target in time. Others may have."""

    def __init__(self, cases: Iterable[str], limit: str):
        """@cases: their texts. @limit: what they missed."""
        fix = "the machine is too busy to measure, or it has too few cores; try fewer nodes"
        super().__init__(f"{'; '.join(cases)}: {limit}", fix)
        self.limit = limit


def nodes_text(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def cases(plan: Plan) -> Iterator[list[Case]]:
    """The runs of each model, which are compared with each other."""
    for model in plan.models:
        group = [Case(model, ALONE, 1)] if 1 in plan.nodes else []
        group += [Case(model, b, n) for n in plan.nodes if n > 1 for b in plan.backends]
        yield group


# ---- one run -------------------------------------------------------------------------------------


class Bench:
    """The labs, which it brings up at first use, and the trainings in them."""

    def __init__(self, plan: Plan, labs: ExitStack):
        self.plan = plan
        self.lab = cache(lambda wire, nodes: labs.enter_context(_lab(wire, nodes)))
        self.data = cache(self._data)

    def _data(self, model: str) -> tuple[Problem, Data, float]:
        """The problem, its rows and the least loss on them."""
        problem = PROBLEMS[model]
        data = rows(problem, self.plan.rows, self.plan.seed)
        return problem, data, least(job.Plan(data, problem.kind, 1, l2=0.0).model, data)

    def run(self, case: Case, repeat: int) -> Values:
        problem, data, lowest = self.data(case.model)
        options = option_words(
            schedule="inverse",
            batch=BATCH,
            gossip_every=self.plan.gossip_every,
            target_loss=repr(problem.target * lowest),
            max_epochs=1_000_000,  # the limit of time comes first
            protection="off",
        )
        training = job.Plan(
            data,
            problem.kind,
            case.nodes,
            seed=self.plan.seed + repeat,
            l2=0.0,
            options=options,
            max_seconds=LIMIT_SECONDS,
        )
        backend = "udp" if case.backend == ALONE else case.backend
        lab = self.lab(WIRES[backend], max(2, case.nodes))
        outcome = job.train(training, job.in_lab(case.nodes, backend=backend, lab_name=lab.name))
        return values(training, outcome, lowest, case.text)


def _lab(wire: str, nodes: int) -> Lab:
    return Lab.up(nodes, wire, name=own_name("bench", f"learn-{wire}{nodes}"))


def values(training: job.Plan, outcome: job.Outcome, lowest: float, what: str) -> Values:
    """The values of a training that has reached its target. @lowest: the least loss."""
    ends = [line for line in outcome.lines if line["event"] == "end"]
    if any(line["stop"] != "target" for line in ends):
        limit = f"the loss was not within its target after {training.max_seconds:g} s"
        raise MissedError([what], limit)
    data, scaling, model = training.data, outcome.scaling, training.model
    x, y = scaling.x(data.x), scaling.y(data.y)
    losses = [model.loss(w, x, y) for w in outcome.w]
    node, _ = best_node(losses, [])
    # a node that stops last ends the training of all
    seconds = max(line["trained"] for line in ends)
    trained = sum(line["rows"] for line in ends)
    return {
        TIME: seconds,
        ITERATIONS: trained / BATCH / seconds,
        PASSES: trained / data.rows,
        LOSS: losses[node] / lowest,
        QUALITY: quality(model, np.asarray(outcome.w[node]), scaling, data)[1],
    }


# ---- all of them ---------------------------------------------------------------------------------


def steps(plan: Plan) -> list[tuple[Case, int]]:
    """(case, repeat) in the order of the runs; the first case changes with each repeat."""
    return in_turn(cases(plan), plan.repeats)


def with_ratios(found: dict[tuple[Case, int], Values]) -> dict[tuple[Case, int], Values]:
    """@found, by case and repeat, with how many times as fast as one node, and as TCP with as many
    nodes, each case was."""

    def ratios(case: Case, repeat: int) -> Values:
        others = {
            TO_ONE: Case(case.model, ALONE, 1),
            TO_TCP: Case(case.model, TCP, case.nodes),
        }
        return {
            name: found[other, repeat][TIME] / found[case, repeat][TIME]
            for name, other in others.items()
            if other != case and (other, repeat) in found
        }

    return {(case, n): {**each, **ratios(case, n)} for (case, n), each in found.items()}


def table(
    found: dict[tuple[Case, int], Values], plan: Plan, missed: dict[Case, MissedError] | None = None
) -> list[dict]:
    """A row for each case and metric, in the order of cases(). A case of @missed has one row, for
    its time, without figures."""
    missed = missed or {}
    by: dict[tuple[Case, str], list[float]] = defaultdict(list)
    for (case, _), each in with_ratios(found).items():
        for metric, value in each.items():
            by[case, metric].append(value)

    def row(case: Case, metric: str, figures: dict) -> dict:
        about = {"model": case.model, "backend": case.backend, "nodes": case.nodes}
        return {**about, "metric": metric, **figures, "unit": UNITS[metric]}

    rows: list[dict] = []
    for case in (case for group in cases(plan) for case in group):
        if case in missed:
            rows.append(row(case, TIME, NO_FIGURES | {"missed": missed[case].limit}))
        else:
            rows += [row(case, m, summary(by[case, m])) for m in UNITS if (case, m) in by]
    return rows


def missed_error(document: dict) -> MissedError | None:
    """The error that names the cases of @document without figures, if there are any."""
    missed = [row for row in document["rows"] if "missed" in row]
    texts = [Case(row["model"], row["backend"], row["nodes"]).text for row in missed]
    return MissedError(texts, missed[0]["missed"]) if missed else None


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document without its goals. Calls @progress at each step. A case
    that misses its target is not run again, and the others go on."""
    about = machine.describe()
    order = steps(plan)
    found: dict[tuple[Case, int], Values] = {}
    missed: dict[Case, MissedError] = {}
    down_dead("bench")
    with ExitStack() as labs:
        bench = Bench(plan, labs)
        for done, (case, repeat) in enumerate(order):
            if case in missed:
                continue
            progress(f"{case.text}, repeat {repeat + 1} of {plan.repeats}", done, len(order))
            try:
                found[case, repeat] = bench.run(case, repeat)
            except MissedError as error:
                missed[case] = error
    progress("done", len(order), len(order))
    # the repeats that a case ended in time are its fast ones only
    found = {(case, n): each for (case, n), each in found.items() if case not in missed}
    if not found:
        raise next(iter(missed.values()))
    about |= {"repeats": plan.repeats, "seed": plan.seed, "rows": plan.rows}
    about |= {"gossip_every": plan.gossip_every, "batch": BATCH}
    about["targets"] = {model: PROBLEMS[model].target for model in plan.models}
    return {"schema": 1, "machine": about, "rows": table(found, plan, missed)}
