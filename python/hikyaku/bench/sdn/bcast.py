# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, bcast: the load of the busiest link during MPI_Bcast of 1 MiB, relative to the
payload.

Rank 0 sends to 7 others on leaf-spine:2x2x4, with Open vSwitch and its controller. Frames have
tags. One method is multicast, the other the binomial tree of Open MPI's tuned component. Each runs
without loss, and with a loss of 1 % on every link and direction. The load of a long run minus that
of a short one excludes the start and the end of a job. The program compares every byte that
arrives.
"""

import re

from ...checkout import built
from ...errors import HikyakuError
from ...lab import Job, Lab, down_dead, links, own_name
from ...lab.controller import controlled
from ..common.goals import judged
from .run import Experiment, Plan, Progress, Row, row

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
PAYLOAD = 1 << 20
SHORT, LONG = 2, 10  # Bcasts of a run
LIMIT_S = 200.0
OF_PAYLOAD = "bytes on the busiest link, of the payload"
PART = 0.01  # that links lose
LOST = "1 %"
FRAMES_LOST = "frames that links lost in a long run"
MULTICAST, BINOMIAL = "multicast", "binomial"
METHODS = tuple(f"{m}{loss}" for m in (MULTICAST, BINOMIAL) for loss in ("", f" {LOST}"))
GOALS = {MULTICAST: 1.1, f"{MULTICAST} {LOST}": 1.3}


def _command(method: str, rounds: int) -> list[str]:
    arguments = ["-np", str(RANKS)]
    if method.startswith(BINOMIAL):
        tuned = {"use_dynamic_rules": 1, "bcast_algorithm": 6, "bcast_algorithm_segmentsize": 0}
        arguments += ["--mca", "coll", "^hikyaku"]
        for name, value in tuned.items():
            arguments += ["--mca", f"coll_tuned_{name}", str(value)]
    program = [str(built("tests/mpi/mpi_bcast")), "--mode", "megabyte"]
    return [*arguments, *program, "--rounds", str(rounds), "--timeout", "150"]


def _carried(lab: Lab, method: str, rounds: int) -> tuple[list[int], int]:
    """The bytes that each direction of each link carried in a run, and the frames that all links
    lost."""

    def count() -> tuple[list[int], int]:
        rows = links.counters(lab.topology)
        carried = [r[way]["bytes"] for r in rows for way in ("a_to_b", "b_to_a")]
        return carried, sum(map(links.lost, rows))

    before, lost_before = count()
    done = lab.launch(Job(_command(method, rounds), tag=True, timeout=LIMIT_S))
    if done.returncode != 0 or "PASS" not in done.stdout:
        raise HikyakuError(f"{method}: the Bcasts failed: {done.stderr.strip()[-500:]}")
    if method.startswith(MULTICAST) and f"COUNT bcasts {rounds * RANKS}\n" not in done.stdout:
        raise HikyakuError(f"{method}: not all were multicasts:\n{done.stdout}")
    now, lost = count()
    if method.endswith(LOST) and rounds == LONG:
        repaired = re.search(r"^COUNT (again|repaired) [1-9]", done.stdout, re.M)
        if lost == lost_before or (method.startswith(MULTICAST) and not repaired):
            raise HikyakuError(f"{method}: nothing was lost:\n{done.stdout}")
    return [n - b for n, b in zip(now, before, strict=True)], lost - lost_before


def _bcast(plan: Plan, progress: Progress) -> list[Row]:
    values: dict[str, list[float]] = {method: [] for method in METHODS}
    lost: dict[str, list[float]] = {method: [] for method in METHODS}
    down_dead("bench")
    with controlled(own_name("bench", "bcast"), SHAPE) as (lab, _):
        for repeat in range(plan.repeats):
            for method, found in values.items():
                text = f"bcast: {method}, repeat {repeat + 1} of {plan.repeats}"
                progress(text, repeat, plan.repeats)
                part = PART if method.endswith(LOST) else 0
                links.lose(lab.topology, [], part, plan.seed + repeat)
                (short, _), (long, frames) = (_carried(lab, method, n) for n in (SHORT, LONG))
                most = max(b - a for a, b in zip(short, long, strict=True))
                found.append(most / (LONG - SHORT) / PAYLOAD)
                lost[method].append(frames)
    units = {OF_PAYLOAD: values, FRAMES_LOST: lost}
    return [
        row("bcast", m, RANKS, PAYLOAD, unit, v)
        for unit, found in units.items()
        for m, v in found.items()
    ]


def _goals(rows: list[Row]) -> list[dict]:
    most = {r["method"]: r["max"] for r in rows if r["unit"] == OF_PAYLOAD}
    return [
        judged(f"Bcast's busiest link, of the payload: {m}, worst repeat", most[m], "≤", goal)
        for m, goal in GOALS.items()
    ]


BCAST = Experiment(_bcast, _goals, f"MPI_Bcast of 1 MiB on {SHAPE}")
