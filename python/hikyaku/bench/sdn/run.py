# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench sdn`: the gain and cost of a network that knows the communication pattern.

Each experiment is a module with a function that measures and one that judges, and an entry in
EXPERIMENTS. All rows of the document have one form:

    experiment, method, ranks, bytes, median, min, max, unit

A method is a name, or a name and a case, as in "spread, ring worst": see in_cases().
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..common import machine
from ..common.summary import summary

Row = dict[str, str | int | float]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """The settings of all experiments. @sizes and @sample_ms: of those that send messages."""

    repeats: int
    sizes: list[int]
    sample_ms: int
    seed: int = 1


@dataclass(frozen=True)
class Experiment:
    """@run gives rows; @goals judges them (goals.judged)."""

    run: Callable[[Plan, Progress], list[Row]]
    goals: Callable[[list[Row]], list[dict]]
    about: str  # one line for the table's title
    computed: bool = False  # from topology and placements alone: no switch forwards a packet


def row(experiment: str, method: str, ranks: int, size: int, unit: str, values: list[float]) -> Row:
    """@values: of each repeat."""
    return {
        "experiment": experiment,
        "method": method,
        "ranks": ranks,
        "bytes": size,
        **summary(values),
        "unit": unit,
    }


def in_cases(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """@rows by case, and then by the name of the method. Empty if they have no cases."""
    found: dict[str, dict[str, Row]] = {}
    for each in rows:
        name, _, case = str(each["method"]).partition(", ")
        if case:
            found.setdefault(case, {})[name] = each
    return found


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order in which they run."""
    from . import bcast as sdn_bcast
    from . import failover as sdn_fabric
    from . import model as sdn_model
    from . import several as sdn_several
    from . import tags as sdn_tags
    from . import times as sdn_times

    return {
        "tags": sdn_tags.SWITCHED_EXPERIMENT,
        "tags_one": sdn_tags.ONE_EXPERIMENT,
        "tags_direct": sdn_tags.DIRECT_EXPERIMENT,
        "bcast": sdn_bcast.BCAST,
        "bcast_time": sdn_times.BCAST_TIME,
        "spread": sdn_model.SPREAD,
        "allreduce_time": sdn_times.ALLREDUCE_TIME,
        "several_time": sdn_several.SEVERAL_TIME,
        "failover": sdn_fabric.FAILOVER,
        "entries": sdn_model.ENTRIES_USED,
        "scale": sdn_model.SCALE,
    }


def run(names: list[str], plan: Plan, progress: Progress) -> dict:
    """Measures and returns the document."""
    about = machine.describe()
    about |= {"repeats": plan.repeats, "sample_ms": plan.sample_ms}
    known = experiments()
    rows: list[Row] = []
    goals: list[dict] = []
    for name in names:
        found = known[name].run(plan, progress)
        rows += found
        goals += known[name].goals(found)
    return {"schema": 1, "machine": about, "rows": rows, "goals": goals}
