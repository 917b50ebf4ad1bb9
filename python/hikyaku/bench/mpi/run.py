# SPDX-License-Identifier: BSD-3-Clause
"""`bench mpi`: the order of the runs, and the JSON document.

docs/man/hikyaku.1 describes the document: schema 1, one row for each wire, metric and size.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from ...lab import BY_SOCKETS, WIRES, Lab, down_dead, own_name
from ..common import machine
from ..common.phases import Phases
from ..common.sample import METRICS, Plan, with_lines
from ..common.summary import summary, turned
from .transports import ON_DEMAND, RUNS, TRANSPORTS

__all__ = ["METRICS", "TRANSPORTS", "WIRES", "Plan", "run"]


def run(
    wires: list[str],
    plan: Plan,
    repeats: int,
    transports: list[str],
    mtu: int,
    progress: Callable[[str, int, int], None],
) -> dict:
    """Measures, and returns the document. Calls @progress with the text and number of each step."""
    about = machine.describe()
    samples = Phases()
    init: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    total = len(wires) * repeats * len(transports)
    done = 0

    def once(lab: Lab, wire: str, transport: str, text: str) -> None:
        progress(f"{wire}: {transport}, {text}", done, total)
        for metric, size, value, line in with_lines(RUNS[transport](lab, plan)):
            if metric == "init_ms":
                init[wire][transport].append(value)
            else:
                samples.add((wire, metric, size), transport, value, line)

    down_dead("bench")
    for wire in wires:
        # DPDK has no port on a UDP socket to compare with
        chosen = [each for each in transports if each != "raw" or wire not in BY_SOCKETS]
        done += repeats * (len(transports) - len(chosen))
        with Lab.up(2, wire, mtu=mtu, name=own_name("bench", wire)) as lab:
            for repeat in range(repeats):
                for transport in turned(chosen, repeat):
                    once(lab, wire, transport, f"repeat {repeat + 1} of {repeats}")
                    done += 1
            samples.draw_more(
                chosen,
                lambda cell, who, here=wire: who if cell[0] == here else None,
                repeats,
                repeats,
                partial(once, lab, wire),
            )
    progress("done", total, total)
    rows = [
        {
            "wire": wire,
            "metric": metric,
            "size": size,
            **{
                t: summary(v) if (v := samples.kept((wire, metric, size), t)) else None
                for t in TRANSPORTS
                if t in transports or t not in ON_DEMAND
            },
        }
        for wire in wires
        for metric in plan.metrics
        for size in plan.sizes
    ]
    about["cores_apart"] = samples.describe()
    about |= {"repeats": repeats, "sample_ms": plan.sample_ms, "mtu": mtu}
    about["init_ms"] = {
        wire: {t: summary(values) for t, values in by.items()} for wire, by in init.items()
    }
    return {"schema": 1, "machine": about, "rows": rows}
