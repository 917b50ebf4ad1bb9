# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, bcast: MPI_Bcast of 1 MiB from rank 0 to 7 others on leaf-spine:2x2x4, Open vSwitch
with its controller; bytes on the link that carried most, of the payload.

The real thing, both ways over the fabric with tags: by multicast, and as the binomial tree that
Open MPI's tuned component makes; each without loss, and where every sender's port drops one frame
in a hundred. A long run less a short one: what starting and ending a job costs is in neither. The
program compares every byte that arrives.
"""

import re

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Job, Lab, down_dead, links, own_name
from ..lab.controller import controlled
from . import goals as verdicts
from .sdn import Experiment, Plan, Progress, Row, row

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
PAYLOAD = 1 << 20
SHORT, LONG = 2, 10  # Bcasts of a run
LIMIT_S = 200.0
OF_PAYLOAD = "bytes on the busiest link, of the payload"
LOST = "1 %"
MULTICAST, BINOMIAL = "multicast", "binomial"
METHODS = tuple(f"{m}{loss}" for m in (MULTICAST, BINOMIAL) for loss in ("", f" {LOST}"))
GOALS = {MULTICAST: 1.1, f"{MULTICAST} {LOST}": 1.3}


def _command(method: str, rounds: int, seed: int) -> list[str]:
    arguments = ["-np", str(RANKS)]
    if method.startswith(BINOMIAL):
        tuned = {"use_dynamic_rules": 1, "bcast_algorithm": 6, "bcast_algorithm_segmentsize": 0}
        arguments += ["--mca", "coll", "^hikyaku"]
        for name, value in tuned.items():
            arguments += ["--mca", f"coll_tuned_{name}", str(value)]
    if method.endswith(LOST):
        port = f"af_xdp:iface=hk{{local_rank}};faults=drop=0.01,seed={seed}"
        arguments += ["--mca", "btl_hikyaku_port", port]
    program = [str(built("tests/mpi/mpi_bcast")), "--mode", "megabyte"]
    return [*arguments, *program, "--rounds", str(rounds), "--timeout", "150"]


def _carried(lab: Lab, method: str, rounds: int, seed: int) -> list[int]:
    """Bytes that each direction of each link carried in a run."""

    def count() -> list[int]:
        rows = links.counters(lab.topology)
        return [r[way]["bytes"] for r in rows for way in ("a_to_b", "b_to_a")]

    before = count()
    command = _command(method, rounds, seed)
    done = lab.launch(Job(command, tag=True, timeout=LIMIT_S))
    if done.returncode != 0 or "PASS" not in done.stdout:
        raise HikyakuError(f"{method}: the Bcasts failed: {done.stderr.strip()[-500:]}")
    if method.startswith(MULTICAST) and f"COUNT bcasts {rounds * RANKS}\n" not in done.stdout:
        raise HikyakuError(f"{method}: not all were multicasts:\n{done.stdout}")
    repaired = re.search(r"^COUNT (again|repaired) [1-9]", done.stdout, re.M)
    if method == f"{MULTICAST} {LOST}" and rounds == LONG and not repaired:
        raise HikyakuError(f"{method}: nothing was lost:\n{done.stdout}")
    return [now - then for now, then in zip(count(), before, strict=True)]


def _bcast(plan: Plan, progress: Progress) -> list[Row]:
    values: dict[str, list[float]] = {method: [] for method in METHODS}
    down_dead("bench")
    with controlled(own_name("bench", "bcast"), SHAPE) as (lab, _):
        for repeat in range(plan.repeats):
            for method, found in values.items():
                text = f"bcast: {method}, repeat {repeat + 1} of {plan.repeats}"
                progress(text, repeat, plan.repeats)
                seed = plan.seed + repeat
                short, long = (_carried(lab, method, n, seed) for n in (SHORT, LONG))
                most = max(b - a for a, b in zip(short, long, strict=True))
                found.append(most / (LONG - SHORT) / PAYLOAD)
    return [row("bcast", m, RANKS, PAYLOAD, OF_PAYLOAD, v) for m, v in values.items()]


def _goals(rows: list[Row]) -> list[dict]:
    most = {r["method"]: r["max"] for r in rows}
    return [
        verdicts.judged({"goal": f"Bcast's busiest link, of the payload: {m}"}, most[m], "≤", goal)
        for m, goal in GOALS.items()
    ]


BCAST = Experiment(_bcast, _goals, f"MPI_Bcast of 1 MiB on {SHAPE}")
