# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, several_time: two jobs at once, and a program with several collectives, on the links
of a limited rate that times.py describes.

    two jobs     Four ranks each, on two nodes of each leaf. Both call Allreduce by the ring at the
                 same time. The slower one counts. With hashing, the bench writes rules for both;
                 a model of the ring's flows says which of several hashings is the worst and best.
    one program  Eight ranks call Allreduce, Bcast and Alltoall in turn. The controller spreads
                 Allreduce, copies Bcast and leads Alltoall by destination. With hashing, Open MPI
                 sends each collective by itself, and each pair of ranks has a random path.
"""

import random
import subprocess
import tempfile
from collections import Counter
from contextlib import ExitStack

from ... import process
from ...checkout import ROOT
from ...lab import Lab, RunResult
from ...sdn.algorithms.allreduce import steps
from ...sdn.tag import Function
from ..common.goals import judged
from ..common.sample import printed
from .network import network
from .run import Experiment, Plan, Progress, Row
from .times import (
    HASHING,
    IN_BLOCKS,
    LIMIT_S,
    LINKS,
    NODES,
    RATIO,
    RING,
    SPINES,
    SPREAD,
    Pair,
    Routing,
    Taken,
    command,
    launched,
    measured,
    routed,
    rows_of,
    topology,
    tuned,
)
from .times import flows as rules_of

JOBS = {1: (0, 1, 4, 5), 2: (2, 3, 6, 7)}  # nodes, by the numbers that two jobs get
ROUNDS = 9  # enough for both jobs to run together most of the time
HASHINGS = 20
WORST, BEST = "two jobs worst", "two jobs best"
ONE_PROGRAM = "one program"
COLLECTIVES = "allreduce,bcast,alltoall"
FUNCTIONS = (Function.ALLREDUCE, Function.BCAST, Function.ALLTOALL)

Routings = dict[int, Routing]  # by job


def crossing(nodes: tuple[int, ...]) -> list[Pair]:
    """The pairs of ranks on different leaves."""
    leaf = [node // NODES for node in nodes]
    ranks = range(len(nodes))
    return [(s, d) for s in ranks for d in ranks if leaf[s] != leaf[d]]


def hashed(nodes: tuple[int, ...], rng: random.Random) -> Routing:
    return {pair: rng.randrange(SPINES) for pair in crossing(nodes)}


def meeting(routings: Routings) -> int:
    """The flows of both rings on the busiest link."""
    used = Counter(
        (JOBS[job][source] // NODES, routing[source, target])
        for job, routing in routings.items()
        for source, target in steps(list(range(len(JOBS[job]))))[0].items()
        if (source, target) in routing
    )
    return max(used.values())


def cases(seed: int) -> dict[str, Routings]:
    rng = random.Random(seed)
    drawn = [{job: hashed(nodes, rng) for job, nodes in JOBS.items()} for _ in range(HASHINGS)]
    drawn.sort(key=meeting)
    return {WORST: drawn[-1], BEST: drawn[0]}


def together(lab: Lab) -> float:
    """Both jobs at once; the ms of the slower one. All nodes of a leaf are alike, so it does not
    matter which job gets which number. Each has a process of its own, since a thread cannot launch
    a job."""
    mca = {"coll": "^hikyaku", **tuned(RING)}
    run = [str(ROOT / "hikyaku"), "lab", "mpirun", "--lab", lab.name, "--tag"]
    run += ["--timeout", f"{LIMIT_S:g}"]
    with tempfile.TemporaryDirectory(dir=lab.directory) as place, ExitStack() as stack:
        children = []
        for nodes in JOBS.values():
            more = {"meet": place, "of": len(JOBS)}
            argv = [*run, *command(lab, nodes, "allreduce", mca, ROUNDS, **more)]
            pipe = subprocess.PIPE
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
            )
            stack.callback(process.stop, child)
            children.append(child)
        texts = [child.communicate(timeout=2 * LIMIT_S) for child in children]
    results = [
        RunResult(child.returncode, *text, 0) for child, text in zip(children, texts, strict=True)
    ]
    return max(printed(result, "one of two jobs")[0]["value"] for result in results)


def _two_jobs(lab: Lab, plan: Plan, progress: Progress) -> list[Row]:
    rows = []
    for at, (case, routings) in enumerate(cases(plan.seed).items()):
        progress(f"several_time: {case}", at, 3)
        taken: dict[str, list[Taken]] = {SPREAD: [], HASHING: []}
        for _ in range(plan.repeats):
            for name, values in taken.items():
                with ExitStack() as stack:
                    for job, routing in routings.items() if name == HASHING else ():
                        of = rules_of(lab.topology.wiring, JOBS[job], routing, job=job)
                        stack.enter_context(routed(lab, of))
                    values.append(measured(lab, lambda: together(lab), ROUNDS))
        rows += rows_of("several_time", taken, HASHING, case, RATIO)
    return rows


def _one_program(lab: Lab, plan: Plan, progress: Progress) -> list[Row]:
    progress(f"several_time: {ONE_PROGRAM}", 2, 3)
    rng = random.Random(plan.seed)
    taken: dict[str, list[Taken]] = {SPREAD: [], HASHING: []}
    for _ in range(plan.repeats):
        for name, values in taken.items():
            mca = tuned(RING) | ({"coll": "^hikyaku"} if name == HASHING else {})
            with ExitStack() as stack:
                for function in FUNCTIONS if name == HASHING else ():
                    routing = hashed(IN_BLOCKS, rng)
                    of = rules_of(lab.topology.wiring, IN_BLOCKS, routing, function)
                    stack.enter_context(routed(lab, of))
                values.append(
                    measured(lab, lambda m=mca: launched(lab, IN_BLOCKS, COLLECTIVES, False, m))
                )
    return rows_of("several_time", taken, HASHING, ONE_PROGRAM, RATIO)


def _several(plan: Plan, progress: Progress) -> list[Row]:
    with network("several", topology()) as lab:
        return _two_jobs(lab, plan, progress) + _one_program(lab, plan, progress)


def _goals(rows: list[Row]) -> list[dict]:
    ratios = {r["method"]: r["median"] for r in rows if r["unit"] == RATIO}
    of = {case: ratios[f"{SPREAD}, {case}"] for case in (WORST, BEST, ONE_PROGRAM)}
    two = "two jobs at once: time, of hashing's in its"
    return [
        judged(f"{two} worst case", of[WORST], "≤", 1 / 1.5),
        judged(f"{two} best case", of[BEST], "≤", 1 / 0.98),
        judged("one program, three collectives: time, of hashing's", of[ONE_PROGRAM], "≤", 1),
    ]


SEVERAL_TIME = Experiment(_several, _goals, f"several jobs and collectives, {LINKS}")
