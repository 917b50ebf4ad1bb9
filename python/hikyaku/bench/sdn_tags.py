# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, experiments tags and tags_direct: what tags cost an unmodified MPI over kernel TCP.

The same program with and without tags, alternating; a ratio is that of two runs beside each other.

    tags          Paper P2's figure: through switches, which route by the tag and restore the
                  address. Both ways are the same but for the tag.
    tags_direct   Two nodes, one veth, where the receiving node restores the address: what it costs
                  where the wire itself costs nothing. And the programs' own time, which the kernel
                  takes in runs apart, since measuring costs.
    tags_within   The same wire, within one job, whose programs are switched on and off for each of
                  many short timings (switch.py): what differs between two runs is in neither.
"""

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Job, Lab, down_dead, own_name
from ..lab.controller import controlled
from ..sdn import tagger
from . import goals as verdicts
from . import switch
from .driver import summary
from .sample import Plan as Sample
from .sample import Values, parse
from .sdn import Experiment, Plan, Progress, Row, row

SWITCHED, DIRECT, WITHIN = "tags", "tags_direct", "tags_within"
SHAPE = "leaf-spine:1x2x1"
METHODS = {"plain": False, "tagged": True}
UNITS = {"latency_us": "µs, half round trip", "bandwidth_MBps": "MB/s, window 64"}
RATIO = "tagged / plain"
RATIOS = {"latency_us": "latency ratio", "bandwidth_MBps": "bandwidth ratio"}
PROGRAM = "ns a packet"
MTU = 1500
WITHIN_MS = 5  # of a timing
TURNS = 40  # of either side, for each repeat
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


def _holders(lab: Lab) -> list[int]:
    """The processes that hold the programs of what is tagged in @lab."""
    bases = [lab.node_directory(node.name) / "run" for node in lab.topology.nodes]
    return [job["pid"] for base in bases for job in tagger.jobs(base)]


def _within(lab: Lab, plan: Plan) -> list[Row]:
    sample = Sample(list(UNITS), plan.sizes, WITHIN_MS)
    path, turns = lab.directory / "switch", TURNS * plan.repeats
    argv = [str(built("bench/mpi_bench")), *sample.arguments()]
    argv += ["--switch", str(path), "--turns", str(turns)]
    limit = sample.limit * (1 + turns / 20)
    with switch.listening(path, lambda: _holders(lab)):
        done = lab.mpirun(2, argv, tcp=True, tag=True, one_core=True, timeout=limit)
    if done.returncode != 0:
        raise HikyakuError(f"the benchmark failed: {done.stderr.strip()[-500:]}")
    timings = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = []
    for metric, unit in UNITS.items():
        for size in plan.sizes:
            here = [t for t in timings if (t["metric"], t.get("size")) == (metric, size)]
            sides = {
                m: [t["value"] for t in here if t["side"] == side]
                for m, side in (("plain", switch.OFF), ("tagged", switch.ON))
            }
            rows += [row(WITHIN, m, 2, size, unit, values) for m, values in sides.items()]
            ratios = [t / p for p, t in zip(*sides.values(), strict=True)]
            rows.append(row(WITHIN, RATIO, 2, size, RATIOS[metric], ratios))
    return rows


def _pairs(lab: Lab, name: str, plan: Plan, step: Callable[[str], None]) -> list[Row]:
    """Both methods in each repeat; who is first takes turns."""
    sample = Sample(list(UNITS), plan.sizes, plan.sample_ms)
    values: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for repeat in range(plan.repeats):
        for method in list(METHODS)[:: -1 if repeat % 2 else 1]:
            step(f"{name}: {method}, repeat {repeat + 1} of {plan.repeats}")
            for (metric, size), value in _bench(lab, sample, METHODS[method]).items():
                values[metric, method, size].append(value)
    rows = []
    for metric, unit in UNITS.items():
        for size in plan.sizes:
            plain, tagged = (values[metric, method, size] for method in METHODS)
            rows += [row(name, m, 2, size, unit, values[metric, m, size]) for m in METHODS]
            ratios = [t / p for t, p in zip(tagged, plain, strict=True)]
            rows.append(row(name, RATIO, 2, size, RATIOS[metric], ratios))
    return rows


def _run_switched(plan: Plan, progress: Progress) -> list[Row]:
    step = _counted(progress, plan.repeats * len(METHODS))
    down_dead("bench")
    with controlled(own_name("bench", SWITCHED), SHAPE) as (lab, _):
        rows = _pairs(lab, SWITCHED, plan, step)
    step("done")
    return rows


def _run_direct(plan: Plan, progress: Progress) -> list[Row]:
    step = _counted(progress, plan.repeats * (len(METHODS) + 1))
    cost: dict[str, list[float]] = defaultdict(list)
    down_dead("bench")
    with Lab.up(2, "memif", mtu=MTU, name=own_name("bench", DIRECT)) as lab:
        rows = _pairs(lab, DIRECT, plan, step)
        for repeat in range(plan.repeats):
            step(f"{DIRECT}: programs, repeat {repeat + 1} of {plan.repeats}")
            for name, ns in _cost(lab).items():
                cost[name].append(ns)
    step("done")
    return rows + [row(DIRECT, name, 2, 0, PROGRAM, ns) for name, ns in cost.items()]


def _run_within(plan: Plan, progress: Progress) -> list[Row]:
    progress(f"{WITHIN}: {TURNS * plan.repeats} turns of each size", 0, 1)
    down_dead("bench")
    with Lab.up(2, "memif", mtu=MTU, name=own_name("bench", WITHIN)) as lab:
        return _within(lab, plan)


def _counted(progress: Progress, total: int) -> Callable[[str], None]:
    done = itertools.count()
    return lambda text: progress(text, next(done), total)


def _of(rows: list[Row], unit: str, method: str) -> list[Row]:
    return [r for r in rows if r["unit"] == unit and r["method"] == method]


def _ratio_goals(rows: list[Row], where: str = "") -> list[dict]:
    latency = summary([r["median"] for r in _of(rows, RATIOS["latency_us"], RATIO)])
    bandwidth = summary([r["median"] for r in _of(rows, RATIOS["bandwidth_MBps"], RATIO)])
    latest, least = 1 + SLOWDOWN, 1 - SLOWDOWN
    return [
        verdicts.judged({"goal": goal}, value, relation, limit)
        for goal, value, relation, limit in (
            (f"latency with tags, of that without{where}, worst size", latency["max"], "≤", latest),
            ("the same, median of all sizes", latency["median"], "≤", latest),
            (
                f"bandwidth with tags, of that without{where}, worst size",
                bandwidth["min"],
                "≥",
                least,
            ),
            ("the same, median of all sizes", bandwidth["median"], "≥", least),
        )
    ]


def _direct_goals(rows: list[Row]) -> list[dict]:
    (egress,) = _of(rows, PROGRAM, "egress")
    goal = {"goal": "ns that tagging a packet takes"}
    return [verdicts.judged(goal, egress["median"], "≤", PROGRAM_NS)]


SWITCHED_EXPERIMENT = Experiment(
    _run_switched, _ratio_goals, "tags on kernel TCP, through three switches"
)
DIRECT_EXPERIMENT = Experiment(_run_direct, _direct_goals, "tags on kernel TCP, one veth")
WITHIN_EXPERIMENT = Experiment(
    _run_within,
    lambda rows: _ratio_goals(rows, ", one veth"),
    "tags on kernel TCP, one veth, switched within one job",
)
