# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: a solver's neighbour exchange, by MPI and by the halo library.

bench/halo_bench.c describes the experiments and how a sample is taken. A run over the BTL measures
its methods in turn. Runs alternate: over TCP, over the BTL, with the promoter preloaded, with
each number of ports, and with 1 % of the frames lost. Experiment E is A between two ranks of one
node, which neither TCP nor the BTL connects. F has programs of its own (solves.py). The layer that
drops frames (port/faults.h)
costs time itself, so runs through it without loss alternate, too. Samples of a minority latency
phase are retaken (phases.py).
"""

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ...checkout import built
from ...lab import Lab, RunResult, down_dead, own_name
from ...lab.openmpi import promoter_settings, with_faults
from ...process import option_words
from ..common import machine
from ..common.phases import Phases
from ..common.sample import empty_file, line_file, printed, same_node
from ..common.summary import summary
from . import solves

EXPERIMENTS = ("A", "B", "C", "D", "E", solves.NAME)
PACKED = "halo-packed"  # the library with data that the program has packed: B and C
WAYS = ("neighbor-btl", "fence-btl", "lock-btl")  # further ways of MPI (bench/halo_ways.h)
BETWEEN = ("mpi-tcp", "mpi-btl", "persistent-btl", *WAYS, "promoter", PACKED, "halo")
# Experiment E: by Open MPI's shared memory, and by the halo library's
WITHIN = ("mpi-shm", "persistent-shm", "neighbor-shm", "fence-shm", "lock-shm", "halo-shm")
METHODS = (*BETWEEN, *WITHIN)
SETUP = "halo-setup"
LOSSY = "halo-loss"  # the library, with loss
LOSSLESS = "halo-lossless"  # the library, through the same layer without loss
COPIES = "copies"  # only the wire's copies: the minimum for two ranks (bench/halo_copies.h)
WIRE = "memif"
OTHERS = (SETUP, LOSSLESS, LOSSY, COPIES)

# By configuration of a run: the method that each of the program's names stands for.
NAMES = {
    "TCP": {"mpi": "mpi-tcp"},
    "Hikyaku": {
        "mpi": "mpi-btl",
        "persistent": "persistent-btl",
        "neighbor": "neighbor-btl",
        "fence": "fence-btl",
        "lock": "lock-btl",
        "halo": "halo",
        "halo-setup": SETUP,
        COPIES: COPIES,
    },
    # measured in turn: a machine's speed changes more from minute to minute than this overhead
    "the promoter": {"mpi": "promoter", "packed": PACKED},
    "shared memory": {method.removesuffix("-shm"): method for method in WITHIN},
    "Hikyaku, 1 % of the frames lost": {"halo": LOSSY},
    "Hikyaku, 0 % of the frames lost": {"halo": LOSSLESS},
}


@dataclass(frozen=True)
class Setup:
    """The configuration of a run: one of NAMES, and the ports of a rank (TCP: 1)."""

    name: str
    ports: int = 1

    @classmethod
    def of(cls, method: str, ports: int) -> Self:
        """The run that measures @method."""
        return cls(next(name for name, by in NAMES.items() if method in by.values()), ports)

    def __str__(self) -> str:
        return self.name + (f", {self.ports} ports" if self.ports > 1 else "")


TCP = Setup("TCP")
HIKYAKU = Setup("Hikyaku")
SHARED = Setup("shared memory")
LOSS = {
    Setup("Hikyaku, 1 % of the frames lost"): "drop=0.01",
    Setup("Hikyaku, 0 % of the frames lost"): "drop=0",
}


@dataclass(frozen=True)
class Plan:
    """The experiments, and how long each measurement lasts."""

    experiments: list[str]
    processes: int
    repeats: int
    cube: int
    doubles: list[int]
    solve_cube: int = solves.CUBE  # F
    ports: list[int] = field(default_factory=lambda: [1])  # of a rank
    sample_ms: int = 15
    rounds: int = 5
    matrix: Path | None = None  # B and C: a Matrix Market file in place of the cube

    def steps(self) -> list[tuple[str, Setup, int]]:
        """(experiment, setup, repeat) in the order of the runs."""
        ours = [Setup(name, p) for p in self.ports for name in ("Hikyaku", "the promoter")]
        lossy = [setup for setup in LOSS if setup.ports in self.ports]
        return [
            (experiment, setup, repeat)
            for repeat in range(self.repeats)
            for experiment in self.experiments
            if experiment != solves.NAME
            for setup in ([*ours, *lossy, TCP, SHARED][:: -1 if repeat % 2 else 1])
            if (experiment == "E") == (setup == SHARED)
            # in D nothing is compared with these
            if experiment != "D" or setup not in (TCP, *LOSS)
        ]

    def ranks(self, experiment: str) -> int:
        return 2 if experiment in ("A", "D", "E") else self.processes


def parse(samples: Phases, result: RunResult, experiment: str, setup: Setup) -> None:
    """Adds the samples that a run printed, under the names of the methods."""
    names = NAMES[setup.name]
    for row in printed(result, f"experiment {experiment} over {setup}"):
        if row["method"] in names:
            cell = (experiment, row["bytes"], names[row["method"]], setup.ports)
            samples.add(cell, names[row["method"]], row["value"], row.get("line_ns"))


# The share of promoted bytes is judged over the first 100 periods of a channel, without the first
# 3. It so does not depend on the length of the run.
_FIRST = 3
_JUDGED = 100

_CHANNEL = re.compile(
    r"^hikyaku_halo: rank \d+ to rank \d+ of communicator \d+, tag \d+: (\d+) of (\d+) messages "
    r"by puts, \S+ % of (\d+) bytes; promoted (\d+) times, demoted \d+, period (\d+); (.*)$",
    re.M,
)


def promoted_share(report: str) -> float | None:
    """The share of steady bytes that went by puts, from the channels of HK_HALO_REPORT.

    Counts channels between nodes, from their third period to their hundredth. None: no channel
    lasted that long.
    """
    steady = by_put = 0.0
    for puts, sent, size, promoted, period, why in _CHANNEL.findall(report):
        if why in ("a rank of this node", "the rank itself"):
            continue
        length = int(period) if int(promoted) else 1
        judged = min(int(sent), _JUDGED * length) - _FIRST * length
        if judged > 0:
            each = int(size) / int(sent)
            late = max(0, int(sent) - int(puts) - _FIRST * length)
            steady += each * judged
            by_put += each * max(0, judged - late)
    return by_put / steady if steady else None


def _run(lab: Lab, plan: Plan, experiment: str, setup: Setup) -> RunResult:
    argv = [str(built("bench/halo_bench")), "-n", str(plan.cube)]
    argv += option_words(
        experiment="A" if experiment == "E" else experiment,
        doubles=",".join(map(str, plan.doubles)),
        rounds=plan.rounds,
        sample_ms=plan.sample_ms,
        methods=",".join(NAMES[setup.name]) if setup.name != "Hikyaku" else None,
    )
    if plan.matrix:
        argv += ["--matrix", str(plan.matrix.resolve())]
    ranks = plan.ranks(experiment)
    if ranks == 2:
        argv += line_file(lab)
    if experiment == "E":
        return same_node(lab, argv, timeout=240)
    if experiment in "ABC" and ranks == 2 and setup == HIKYAKU:
        argv += ["--copies", str(empty_file(lab, "copies"))]
    if setup.name == "the promoter":
        settings = promoter_settings() | {"HK_HALO_REPORT": "1"}
        argv = ["env", *(f"{key}={value}" for key, value in settings.items()), *argv]
    if setup in LOSS:
        argv = with_faults(LOSS[setup], 1, argv)
    # with more ranks than cores, a rank that waits must yield
    mca = {"mpi_yield_when_idle": "1"} if ranks > len(lab.topology.nodes) else None
    return lab.mpirun(ranks, argv, tcp=setup == TCP, mca=mca, one_core=True, timeout=240)


def rows(samples: Phases, processes: Callable[[str], int]) -> list[dict]:
    """One row for each method, from the samples of the usual phase."""
    kept = {cell: by[cell[2]] for cell, by in samples.all_kept().items()}
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
            kept.items(),
            key=lambda s: (s[0][0], s[0][3], s[0][1], (*METHODS, *OTHERS).index(s[0][2])),
        )
    ]


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document without its goals."""
    about = machine.describe()
    samples = Phases()
    shares: dict[str, list[float]] = defaultdict(list)
    steps = plan.steps()
    solved: list[dict] = []
    total = len(steps)
    if solves.NAME in plan.experiments:
        total += sum(len(solves.runs(repeat)) for repeat in range(plan.repeats))
    done = 0
    down_dead("bench")
    per_node = -(-plan.processes // 2)
    with ExitStack() as stack:
        labs = {}
        for ports in plan.ports:
            name = own_name("bench", f"halo-{ports}")
            lab = Lab.up(2, WIRE, per_node, name=name, ports=ports)
            labs[ports] = stack.enter_context(lab)

        def once(run: tuple[str, Setup], text: str) -> None:
            experiment, setup = run
            progress(f"{experiment} over {setup}, {text}", done, total)
            lab = labs[plan.ports[0] if setup == TCP else setup.ports]
            result = _run(lab, plan, experiment, setup)
            parse(samples, result, experiment, setup)
            if experiment in "BC" and (share := promoted_share(result.stderr)) is not None:
                shares[experiment].append(share)

        for experiment, setup, repeat in steps:
            once((experiment, setup), f"repeat {repeat + 1} of {plan.repeats}")
            done += 1
        samples.draw_more(
            list(dict.fromkeys((experiment, setup) for experiment, setup, _ in steps)),
            lambda cell, method: (cell[0], Setup.of(method, cell[3])),
            plan.repeats * plan.rounds,
            plan.repeats,
            once,
        )

        def solving(text: str) -> None:
            nonlocal done
            progress(text, done, total)
            done += 1

        if solves.NAME in plan.experiments:
            lab, cube = labs[plan.ports[0]], plan.solve_cube
            solved = solves.measure(lab, plan.processes, cube, plan.repeats, solving)
    progress("done", total, total)
    about |= {"repeats": plan.repeats, "rounds": plan.rounds, "cube": plan.cube}
    about["matrix"] = plan.matrix.name if plan.matrix else None
    about["cores_apart"] = samples.describe()
    return {
        "schema": 1,
        "machine": about,
        "rows": rows(samples, plan.ranks),
        "promoted": {experiment: min(values) for experiment, values in shares.items()},
        "solves": solved,
    }
