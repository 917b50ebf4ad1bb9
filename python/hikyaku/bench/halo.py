# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: a solver's neighbour exchange, by MPI and by the halo library.

bench/halo_bench.c says what the experiments are and how a sample is taken. A run over the BTL
measures its three methods in turn; runs over TCP and over the BTL, with each number of ports,
alternate.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Lab, RunResult, down_dead, own_name
from . import machine
from .driver import summary

EXPERIMENTS = ("A", "B", "C")
METHODS = ("mpi-tcp", "mpi-btl", "persistent-btl", "halo")
SETUP = "halo-setup"
WIRE = "memif"

# the program's name of what it measures, over either transport
_OVER_TCP = {"mpi": "mpi-tcp"}
_OVER_BTL = {
    "mpi": "mpi-btl",
    "persistent": "persistent-btl",
    "halo": "halo",
    "halo-setup": SETUP,
}

Samples = dict[tuple[str, int, str, int], list[float]]  # by experiment, bytes, method, ports
TCP = 0  # in place of a number of ports


@dataclass(frozen=True)
class Plan:
    """What is measured, and how long each single thing lasts."""

    experiments: list[str]
    processes: int
    repeats: int
    cube: int
    doubles: list[int]
    ports: list[int] = field(default_factory=lambda: [1])  # of a rank
    sample_ms: int = 15
    rounds: int = 5

    def steps(self) -> list[tuple[str, int, int]]:
        """(experiment, ports or TCP, repeat) in the order of the runs."""
        over = [*self.ports, TCP]
        return [
            (experiment, ports, repeat)
            for repeat in range(self.repeats)
            for experiment in self.experiments
            for ports in (reversed(over) if repeat % 2 else over)
        ]


def parse(result: RunResult, what: str, names: dict[str, str], ports: int = 1) -> Samples:
    """What the run printed, under the names of the methods."""
    if result.returncode != 0:
        raise HikyakuError(
            f"{what} failed (status {result.returncode}):\n"
            f"{(result.stderr or result.stdout).strip()[-3000:]}"
        )
    found: Samples = defaultdict(list)
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["method"] in names:
                key = (row["experiment"], row["bytes"], names[row["method"]], ports)
                found[key].append(row["value"])
    return found


def _run(lab: Lab, plan: Plan, experiment: str, ports: int) -> Samples:
    tcp = ports == TCP
    argv = [str(built("bench/halo_bench")), "--experiment", experiment, "-n", str(plan.cube)]
    argv += ["--doubles", ",".join(map(str, plan.doubles)), "--rounds", str(plan.rounds)]
    argv += ["--sample-ms", str(plan.sample_ms)]
    if tcp:
        argv += ["--methods", "mpi"]
    ranks = 2 if experiment == "A" else plan.processes
    # with more ranks than cores whoever waits lets others work
    mca = {"mpi_yield_when_idle": "1"} if ranks > len(lab.topology.nodes) else None
    result = lab.mpirun(ranks, argv, tcp=tcp, mca=mca, one_core=True, timeout=240)
    what = f"experiment {experiment} over {over(ports)}"
    return parse(result, what, _OVER_TCP if tcp else _OVER_BTL, ports or 1)


def over(ports: int) -> str:
    if ports == TCP:
        return "TCP"
    return "Hikyaku" + (f", {ports} ports" if ports > 1 else "")


def rows(samples: Samples, processes: Callable[[str], int]) -> list[dict]:
    return [
        {
            "experiment": experiment,
            "processes": processes(experiment),
            "bytes": size,
            "method": method,
            "ports": ports,
            **summary(values),
            "unit": "us",
        }
        for (experiment, size, method, ports), values in sorted(
            samples.items(),
            key=lambda s: (s[0][0], s[0][3], s[0][1], (*METHODS, SETUP).index(s[0][2])),
        )
    ]


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures and returns the document, without the goals."""
    about = machine.describe()
    samples: Samples = defaultdict(list)
    steps = plan.steps()
    down_dead("bench")
    per_node = -(-plan.processes // 2)
    with ExitStack() as stack:
        labs = {}
        for ports in plan.ports:
            name = own_name("bench", f"halo-{ports}")
            lab = Lab.up(2, WIRE, per_node, name=name, ports=ports)
            labs[ports] = stack.enter_context(lab)
        labs[TCP] = labs[plan.ports[0]]
        for done, (experiment, ports, repeat) in enumerate(steps):
            text = f"{experiment} over {over(ports)}, repeat {repeat + 1} of {plan.repeats}"
            progress(text, done, len(steps))
            for key, values in _run(labs[ports], plan, experiment, ports).items():
                samples[key] += values
    progress("done", len(steps), len(steps))
    about |= {"repeats": plan.repeats, "rounds": plan.rounds, "cube": plan.cube}
    return {
        "schema": 1,
        "machine": about,
        "rows": rows(samples, lambda e: 2 if e == "A" else plan.processes),
    }
