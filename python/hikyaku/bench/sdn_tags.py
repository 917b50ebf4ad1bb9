# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, experiment tags: what tags cost an unmodified MPI over kernel TCP (paper P2).

Two nodes, one wire (veth), the same program with and without tags, alternating; the ratio is that
of two runs beside each other. The receiving node restores the address, which in an OpenFlow network
the last switch does: so the cost of that is in the figures, too. The programs' own time is taken by
the kernel in a run apart, since measuring them costs.
"""

import threading
from collections import defaultdict

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Job, Lab, down_dead, own_name
from ..sdn import tagger
from . import goals as verdicts
from .driver import summary
from .sample import Plan as Sample
from .sample import Values, parse
from .sdn import Experiment, Plan, Progress, Row, row

NAME = "tags"
METHODS = {"plain": False, "tagged": True}
UNITS = {"latency_us": "µs, half round trip", "bandwidth_MBps": "MB/s, window 64"}
RATIO = "tagged / plain"
RATIOS = {"latency_us": "latency ratio", "bandwidth_MBps": "bandwidth ratio"}
PROGRAM = "ns a packet"
MTU = 1500
COST_MS = 200  # of each of a few sizes: some ten thousand packets

SLOWDOWN = 0.02
PROGRAM_NS = 300


def _bench(lab: Lab, sample: Sample, tag: bool) -> Values:
    argv = [str(built("bench/mpi_bench")), *sample.arguments()]
    done = lab.mpirun(2, argv, tcp=True, tag=tag, one_core=True, timeout=sample.limit)
    return parse(done, "tagged TCP" if tag else "TCP")


def _cost(lab: Lab) -> dict[str, float]:
    """ns that the programs for packets take, on average over a run."""
    sample = Sample(["latency_us"], [8, 1024], COST_MS)
    argv = ["-np", "2", str(built("bench/mpi_bench")), *sample.arguments()]
    last: list[dict] = []
    ended = threading.Event()

    def watch() -> None:
        base = lab.node_directory(lab.topology.nodes[0].name) / "run"
        while not ended.wait(0.05):
            last[:] = tagger.jobs(base) or last

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        job = Job(argv, tcp=True, tag=True, measure=True, one_core=True, timeout=sample.limit)
        parse(lab.launch(job), "tagged TCP, measured")
    finally:
        ended.set()
        watcher.join()
    if not last or not last[0]["egress"]["runs"] or not last[0]["ingress"]["runs"]:
        raise HikyakuError("the kernel did not measure the tagger's programs")
    return {name: last[0][name]["ns"] / last[0][name]["runs"] for name in ("egress", "ingress")}


def _run(plan: Plan, progress: Progress) -> list[Row]:
    sample = Sample(list(UNITS), plan.sizes, plan.sample_ms)
    values: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    cost: dict[str, list[float]] = defaultdict(list)
    total = plan.repeats * (len(METHODS) + 1)
    done = 0
    down_dead("bench")
    with Lab.up(2, "memif", mtu=MTU, name=own_name("bench", NAME)) as lab:
        for repeat in range(plan.repeats):
            # who is first takes turns
            for method in list(METHODS)[:: -1 if repeat % 2 else 1]:
                progress(f"tags: {method}, repeat {repeat + 1} of {plan.repeats}", done, total)
                for (metric, size), value in _bench(lab, sample, METHODS[method]).items():
                    values[metric, method, size].append(value)
                done += 1
            progress(f"tags: programs, repeat {repeat + 1} of {plan.repeats}", done, total)
            for name, ns in _cost(lab).items():
                cost[name].append(ns)
            done += 1
    progress("done", total, total)
    rows = []
    for metric, unit in UNITS.items():
        for size in plan.sizes:
            plain, tagged = (values[metric, method, size] for method in METHODS)
            rows += [row(NAME, m, 2, size, unit, values[metric, m, size]) for m in METHODS]
            ratios = [t / p for t, p in zip(tagged, plain, strict=True)]
            rows.append(row(NAME, RATIO, 2, size, RATIOS[metric], ratios))
    return rows + [row(NAME, name, 2, 0, PROGRAM, ns) for name, ns in cost.items()]


def _goals(rows: list[Row]) -> list[dict]:
    def of(unit: str, method: str) -> list[Row]:
        return [r for r in rows if r["unit"] == unit and r["method"] == method]

    latency = summary([r["median"] for r in of(RATIOS["latency_us"], RATIO)])
    bandwidth = summary([r["median"] for r in of(RATIOS["bandwidth_MBps"], RATIO)])
    (egress,) = of(PROGRAM, "egress")
    judged = verdicts.judged
    return [
        judged(
            {"goal": "latency with tags, of that without, worst size"},
            latency["max"],
            "≤",
            1 + SLOWDOWN,
        ),
        judged({"goal": "the same, median of all sizes"}, latency["median"], "≤", 1 + SLOWDOWN),
        judged(
            {"goal": "bandwidth with tags, of that without, worst size"},
            bandwidth["min"],
            "≥",
            1 - SLOWDOWN,
        ),
        judged({"goal": "the same, median of all sizes"}, bandwidth["median"], "≥", 1 - SLOWDOWN),
        judged({"goal": "ns that tagging a packet takes"}, egress["median"], "≤", PROGRAM_NS),
    ]


EXPERIMENT = Experiment(_run, _goals, "tags on kernel TCP, two nodes, one veth")
