# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rma`: one-sided operations of MPI between two ranks, by components of Open MPI.

Within each repeat the ways follow each other, and another one is first each time.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ...lab import Lab, down_dead, own_name
from ...process import option_words
from ..common import machine
from ..common.sample import Values, parse
from ..common.summary import summary, turned
from .ways import measure

METRICS = ("put_us", "get_us", "acc_us", "fetch_add_us", "cas_us", "lock_put_us")


@dataclass(frozen=True)
class Plan:
    ways: list[str]
    wire: str
    sizes: list[int]
    repeats: int
    window: int = 1
    sample_ms: int = 60

    @property
    def limit(self) -> float:
        return 60 + 4 * (len(self.sizes) + 1) * (5 + self.sample_ms / 100)


def _once(lab: Lab, plan: Plan, way: str) -> Values:
    sizes = ",".join(map(str, plan.sizes))
    options = option_words(sizes=sizes, window=plan.window, sample_ms=plan.sample_ms)
    return parse(measure(lab, way, options, plan.limit), way)


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document."""
    about = machine.describe()
    found: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    total, done = plan.repeats * len(plan.ways), 0
    down_dead("bench")
    with Lab.up(2, plan.wire, name=own_name("bench", "rma")) as lab:
        for repeat in range(plan.repeats):
            for way in turned(plan.ways, repeat):
                progress(f"{way}, repeat {repeat + 1} of {plan.repeats}", done, total)
                done += 1
                for cell, value in _once(lab, plan, way).items():
                    found[cell][way].append(value)
    progress("done", total, total)
    about |= {"repeats": plan.repeats, "sample_ms": plan.sample_ms, "wire": plan.wire}
    about |= {"window": plan.window}
    rows = [
        {"metric": metric, "size": size, **{w: summary(v) for w, v in found[metric, size].items()}}
        for metric, size in sorted(found, key=lambda cell: (METRICS.index(cell[0]), cell[1]))
    ]
    return {"schema": 1, "machine": about, "ways": plan.ways, "rows": rows}
