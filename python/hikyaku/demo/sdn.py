# SPDX-License-Identifier: BSD-3-Clause
"""Bcasts by multicast on real switches, whose controller makes another tree when a cable is cut.

One job does Bcasts of 1 MiB until it is told to end (tests/mpi/bcast.c), and compares every byte.
Meanwhile this process asks the controller for the tree, cuts the first cable of it between two
switches, and asks again. It goes on only after Bcasts have crossed the tree.
"""

import re
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .. import process
from ..checkout import built
from ..errors import HikyakuError
from ..lab import Job, Lab, RunResult, down_dead, links, own_name
from ..lab.controller import LabController, controlled
from ..lab.wiring import FURTHER, Wiring

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
PAYLOAD = 1 << 20  # bytes of a Bcast
LIMIT_S = 60.0


@dataclass(frozen=True)
class Shown:
    wiring: Wiring
    before: set[str]  # the links of the tree
    after: set[str]
    cut: str
    by_multicast: int  # Bcasts
    otherwise: int  # Bcasts that Open MPI's own component did because frames were lost


def tree(wiring: Wiring, way: dict) -> set[str]:
    """The links that a Bcast crosses, by the controller's answer @way."""
    ends = {}
    for link in wiring.all:
        ends[link.b, link.port_b] = link.name
        if link.port_a:
            ends[link.a, link.port_a] = link.name

    def name(end: dict) -> str:
        return ends[wiring.switches[end["switch"] - 1], end["port"] % FURTHER]

    crossed = [way["source"], *(link["a"] for link in way["links"]), *way["receivers"]]
    return {name(end) for end in crossed}


def between_switches(wiring: Wiring, names: set[str]) -> list[str]:
    return [link.name for link in wiring.links if link.name in names]


class _Bcasts:
    """The job that does Bcasts, while this process looks at it."""

    def __init__(self, lab: Lab, controller: LabController, job: Future[RunResult]):
        self.lab, self.client, self._job = lab, controller.client, job
        self._group = ""  # in calls of the controller

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits for @condition, which does not come if the job has ended."""
        process.wait_until(what, lambda: self._job.done() or condition(), LIMIT_S)
        if self._job.done():
            done = self._job.result()  # raises its error
            raise HikyakuError(f"the Bcasts have ended, with {done.returncode}: {done.said(1000)}")

    def _has_group(self) -> bool:
        """Has the job the group of all ranks, to which its Bcasts go?"""
        everyone = list(range(RANKS))
        for job in self.client.get("/v1/jobs"):
            for number, ranks in job["groups"].items():
                if ranks == everyone:
                    self._group = f"/v1/jobs/{job['job']}/path?function=bcast&group={number}"
                    return True
        return False

    def start(self) -> None:
        self._wait("the group of all ranks", self._has_group)

    def tree(self, other: set[str] | None = None) -> set[str]:
        """The tree to all nodes, when it is not @other."""
        found: set[str] = set()

        def whole() -> bool:
            nonlocal found
            way = self.client.get(f"{self._group}&source=0")
            found = tree(self.lab.topology.wiring, way)
            return len(way["receivers"]) == RANKS - 1 and found != other

        self._wait("the tree of a Bcast to all nodes", whole)
        return found

    def cross(self, names: set[str]) -> None:
        """Waits until two Bcasts have crossed all links @names, so that one is complete."""

        def carried() -> list[int]:
            rows = links.counters(self.lab.topology)
            return [r["a_to_b"]["bytes"] + r["b_to_a"]["bytes"] for r in rows if r["link"] in names]

        before = carried()
        self._wait(
            "Bcasts to cross the tree",
            lambda: all(n - b > 2 * PAYLOAD for n, b in zip(carried(), before, strict=True)),
        )


def _shown(bcasts: _Bcasts, controller: LabController) -> tuple[set[str], set[str], str]:
    """The tree, the tree after a cut, and the cable that was cut."""
    topology = bcasts.lab.topology
    bcasts.start()
    before = bcasts.tree()
    middle = between_switches(topology.wiring, before)
    bcasts.cross(set(middle))
    cut = links.set_link(topology, middle[0], up=False)
    controller.wait_links(len(topology.wiring.links) - 1)
    after = bcasts.tree(before)
    bcasts.cross(set(between_switches(topology.wiring, after)))
    return before, after, cut


def run() -> Shown:
    program = str(built("tests/mpi/mpi_bcast"))
    down_dead("demo")
    with (
        tempfile.TemporaryDirectory(prefix="hikyaku-demo-") as place,
        controlled(own_name("demo", "sdn"), SHAPE) as (lab, controller),
        ThreadPoolExecutor(1) as pool,
    ):
        over = Path(place) / "over"
        argv = ["-np", str(RANKS), program, "--mode", f"until:{over}"]
        argv += ["--timeout", str(round(LIMIT_S))]
        job = pool.submit(lab.launch, Job(argv, tag=True, timeout=LIMIT_S + 10))
        try:
            before, after, cut = _shown(_Bcasts(lab, controller, job), controller)
        finally:
            over.touch()
        done = job.result()
        if done.returncode != 0 or "PASS" not in done.stdout:
            raise HikyakuError(f"the Bcasts failed: {done.stderr.strip()[-1000:]}")
        counted = {n: int(v) for n, v in re.findall(r"^COUNT (\w+) (\d+)$", done.stdout, re.M)}
        by_multicast, otherwise = (counted.get(n, 0) // RANKS for n in ("bcasts", "lossy"))
        return Shown(lab.topology.wiring, before, after, cut, by_multicast, otherwise)


def sentence(it: Shown) -> str:
    """@it in one line."""
    new = ", ".join(between_switches(it.wiring, it.after - it.before))
    own = f" and {it.otherwise} by Open MPI's own tree" if it.otherwise else ""
    return (
        f"{it.by_multicast} Bcasts of 1 MiB to {RANKS - 1} nodes by multicast{own}, every byte "
        f"compared; {it.cut} was cut meanwhile, and the tree now crosses {new}"
    )
