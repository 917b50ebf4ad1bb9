# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, experiments tags, tags_one and tags_direct: the cost of tags for an unmodified MPI
over kernel TCP.

One job runs, and its programs in the kernel are switched on and off between short timings
(switching.py). Two jobs would differ by more than the effect. A ratio compares two timings that
follow each other.

    tags          Through three switches, which route by the tag and restore the address. Both
                  methods differ only in the tag.
    tags_one      Paper P2's figure: through one switch, with windows of 64 messages of any size.
    tags_direct   Two nodes, one veth; the receiving node restores the address. The wire itself
                  costs nothing here. Also the time of the programs, which the kernel measures in
                  separate runs, since measuring costs time.
"""

import threading
from collections import defaultdict

from ...checkout import built
from ...errors import HikyakuError
from ...lab import Job, Lab, down_dead, own_name
from ...lab.controller import controlled
from ...process import option_words
from ...sdn import tagger
from ..common.goals import judged
from ..common.sample import Plan as Sample
from ..common.sample import parse, printed
from ..common.summary import summary
from . import switching as switch
from .network import network
from .run import Experiment, Plan, Progress, Row, row

SWITCHED, ONE, DIRECT = "tags", "tags_one", "tags_direct"
SHAPE = "leaf-spine:1x2x1"
ONE_SWITCH = {"switches": ["switch"], "links": [], "nodes": 2 * [{"switch": "switch"}]}
METHODS = {"plain": switch.OFF, "tagged": switch.ON}
UNITS = {"latency_us": "µs, half round trip", "bandwidth_MBps": "MB/s, windows of 64 or 4 MiB"}
ONE_UNITS = UNITS | {"bandwidth_MBps": "MB/s, windows of 64"}
RATIO = "tagged / plain"
RATIOS = {"latency_us": "latency ratio", "bandwidth_MBps": "bandwidth ratio"}
PROGRAM = "ns a packet"
MTU = 1500
TURNS = 40  # of either side, for each repeat
MOST_S = 2  # for them, of each size
WINDOW = 64
WINDOW_BYTES = 4 << 20  # but in tags_one: a long window is one timing where there could be ten
COST_MS = 200  # of each of a few sizes: some ten thousand packets

SLOWDOWN = 0.02
PROGRAM_NS = 300


def _cost(lab: Lab) -> dict[str, float]:
    """The average time, in ns, of the programs for packets over a run."""
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


def _timings(lab: Lab, sample: Sample, plan: Plan, window: int) -> list[dict]:
    """The rows that mpi_bench printed, each with its side."""
    path, turns, most = lab.directory / "switch", TURNS * plan.repeats, MOST_S * plan.repeats
    argv = [str(built("bench/mpi_bench")), *sample.arguments()]
    argv += option_words(switch=path, turns=turns, most_ms=1000 * most, window=window)
    limit = sample.limit + 2 * most * len(sample.metrics) * len(sample.sizes)
    with switch.listening(path, lambda: _holders(lab)):
        done = lab.mpirun(2, argv, tcp=True, tag=True, one_core=True, timeout=limit)
    return [row for row in printed(done, "the benchmark") if "side" in row]


def _both_sides(lab: Lab, name: str, plan: Plan, progress: Progress) -> list[Row]:
    """One run for each size, so that progress is visible."""
    rows = []
    units = ONE_UNITS if name == ONE else UNITS
    for at, size in enumerate(plan.sizes):
        progress(f"{name}: {size} bytes", at, len(plan.sizes))
        window = WINDOW if name == ONE else max(1, min(WINDOW, WINDOW_BYTES // size))
        timings = _timings(lab, Sample(list(units), [size], plan.sample_ms), plan, window)
        for metric, unit in units.items():
            sides = {
                method: [t["value"] for t in timings if (t["metric"], t["side"]) == (metric, side)]
                for method, side in METHODS.items()
            }
            rows += [row(name, method, 2, size, unit, values) for method, values in sides.items()]
            plain, tagged = sides.values()
            ratios = [t / p for t, p in zip(tagged, plain, strict=True)]
            rows.append(row(name, RATIO, 2, size, RATIOS[metric], ratios))
    progress(f"{name}: done", len(plan.sizes), len(plan.sizes))
    return rows


def _run_switched(plan: Plan, progress: Progress) -> list[Row]:
    down_dead("bench")
    with controlled(own_name("bench", SWITCHED), SHAPE) as (lab, _):
        return _both_sides(lab, SWITCHED, plan, progress)


def _run_one(plan: Plan, progress: Progress) -> list[Row]:
    with network(ONE, ONE_SWITCH) as lab:
        return _both_sides(lab, ONE, plan, progress)


def _run_direct(plan: Plan, progress: Progress) -> list[Row]:
    cost: dict[str, list[float]] = defaultdict(list)
    down_dead("bench")
    with Lab.up(2, "memif", mtu=MTU, name=own_name("bench", DIRECT)) as lab:
        rows = _both_sides(lab, DIRECT, plan, progress)
        for repeat in range(plan.repeats):
            progress(f"{DIRECT}: the programs' time, repeat {repeat + 1}", repeat, plan.repeats)
            for name, ns in _cost(lab).items():
                cost[name].append(ns)
    progress(f"{DIRECT}: done", plan.repeats, plan.repeats)
    return rows + [row(DIRECT, name, 2, 0, PROGRAM, ns) for name, ns in cost.items()]


def _of(rows: list[Row], unit: str, method: str) -> list[Row]:
    return [r for r in rows if r["unit"] == unit and r["method"] == method]


def _ratio_goals(rows: list[Row], where: str = "") -> list[dict]:
    latency = summary([r["median"] for r in _of(rows, RATIOS["latency_us"], RATIO)])
    bandwidth = summary([r["median"] for r in _of(rows, RATIOS["bandwidth_MBps"], RATIO)])
    latest, least = 1 + SLOWDOWN, 1 - SLOWDOWN
    worst, same = f"with tags, of that without{where}, worst size", "the same, median of all sizes"
    return [
        judged(f"latency {worst}", latency["max"], "≤", latest),
        judged(same, latency["median"], "≤", latest),
        judged(f"bandwidth {worst}", bandwidth["min"], "≥", least),
        judged(same, bandwidth["median"], "≥", least),
    ]


def _direct_goals(rows: list[Row]) -> list[dict]:
    (egress,) = _of(rows, PROGRAM, "egress")
    program = judged("ns that tagging a packet takes", egress["median"], "≤", PROGRAM_NS)
    return [*_ratio_goals(rows, ", one veth"), program]


SWITCHED_EXPERIMENT = Experiment(
    _run_switched, _ratio_goals, "tags on kernel TCP, through three switches"
)
ONE_EXPERIMENT = Experiment(_run_one, _ratio_goals, "tags on kernel TCP, through one switch")
DIRECT_EXPERIMENT = Experiment(_run_direct, _direct_goals, "tags on kernel TCP, one veth")
