# SPDX-License-Identifier: BSD-3-Clause
"""A heat equation on four nodes, with exchanges by MPI and by halo (examples/halo/heat.c)."""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Lab, down_dead, own_name
from ..process import option_words

NODES = 4
POINTS, STEPS, MOMENTS = 128, 8000, 26
LIMIT_S = 50.0


@dataclass(frozen=True)
class Heat:
    fields: np.ndarray  # [moments][points][points], temperatures from 0 to 1
    steps: list[int]  # by moment
    boxes: tuple[int, int]  # of ranks
    by_mpi: float  # seconds
    by_halo: float


def parse(text: str) -> tuple[tuple[int, int], float, float]:
    """The boxes of ranks, and the seconds by MPI and by halo, of what heat printed."""
    found = re.search(
        r"^PASS heat: \d+ ranks \((\d+) x (\d+)\).*: by MPI (\S+) s, by halo (\S+) s; 0 points",
        text,
        re.M,
    )
    if not found:
        raise HikyakuError(f"heat did not print its result: {text.strip()[-500:] or '(nothing)'}")
    return (int(found[1]), int(found[2])), float(found[3]), float(found[4])


def run(points: int = POINTS, steps: int = STEPS) -> Heat:
    argv = [str(built("examples/halo/heat")), "-n", str(points)]
    down_dead("demo")
    with tempfile.TemporaryDirectory(prefix="hikyaku-demo-") as place:
        file = Path(place) / "field"
        argv += option_words(steps=steps, moments=MOMENTS, output=file)
        with Lab.up(nodes=NODES, name=own_name("demo", "halo")) as lab:
            done = lab.mpirun(NODES, argv, timeout=LIMIT_S)
        if done.returncode != 0:
            raise HikyakuError(f"heat ended with {done.returncode}: {done.said(1000)}")
        boxes, by_mpi, by_halo = parse(done.stdout)
        fields = np.fromfile(file).reshape(MOMENTS, points, points)
    at = [steps * moment // (MOMENTS - 1) for moment in range(MOMENTS)]
    return Heat(fields, at, boxes, by_mpi, by_halo)


def sentence(it: Heat) -> str:
    """@it in one line."""
    points = it.fields.shape[1]
    cores = len(os.sched_getaffinity(0))
    shared = f"; the nodes share {cores} cores, so times vary much" if cores < NODES else ""
    return (
        f"{it.steps[-1]} steps on {points} x {points} points, {NODES} nodes: {it.by_mpi:.3f} s by "
        f"MPI, {it.by_halo:.3f} s by halo, same bits{shared}"
    )
