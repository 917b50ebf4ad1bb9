# SPDX-License-Identifier: BSD-3-Clause
"""Experiment F: whole solves by conjugate gradients, in C and in Fortran.

Each program (examples/halo/cg.c, cg_threads.f90) solves by Isend and Irecv and by the halo library
in turn, and prints the least time of each. Runs over Hikyaku alternate with runs over TCP, of which
only the messages of MPI count.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.table import Table

from ...checkout import built
from ...errors import HikyakuError
from ...lab import Lab, RunResult
from ...process import option_words
from ..common import goals
from ..common.summary import summary
from ..common.tables import left_titled, number

NAME = "F"
LANGUAGES = {"C": "halo_cg_threads", "Fortran": "halo_cg_threads_fortran"}
PARTITIONS = ("rows", "metis")
TCP, MPI, HALO = EXCHANGES = ("mpi-tcp", "mpi-btl", "halo")
CUBE = 40  # points along an edge, unless the user names another number: 0.1 s a solve
SOLVES = 3  # of each kind in a run, of which the least time counts
LIMIT_S = 240

_SAID = re.compile(
    r"^PASS cg: .*, (?P<steps>\d+) steps, residual +(?P<residual>\S+); solutions are equal; "
    r"(?P<mpi>\S+) ms by MPI, (?P<halo>\S+) ms by halo$",
    re.M,
)


class Run(NamedTuple):
    """One run of a program."""

    partition: str
    language: str
    tcp: bool

    def __str__(self) -> str:
        return f"{self.language}, {self.partition}, over {'TCP' if self.tcp else 'Hikyaku'}"


class Said(NamedTuple):
    """The last line of a program; times are in ms."""

    steps: int
    residual: float
    by_mpi: float
    by_halo: float


def runs(repeat: int) -> list[Run]:
    """Those of a repeat. The order turns from one to the next, so that none is always first."""
    found = [Run(p, language, t) for p in PARTITIONS for language in LANGUAGES for t in (0, 1)]
    return found[:: -1 if repeat % 2 else 1]


def parse(result: RunResult, run: Run) -> Said:
    found = _SAID.search(result.stdout)
    if result.returncode != 0 or not found:
        raise HikyakuError(
            f"a solve in {run} failed (status {result.returncode}):\n{result.said(3000)}"
        )
    return Said(int(found["steps"]), *(float(found[k]) for k in ("residual", "mpi", "halo")))


def measure(
    lab: Lab, processes: int, cube: int, repeats: int, progress: Callable[[str], None]
) -> list[dict]:
    """A row for each partition, language and exchange."""
    times: dict[tuple[Run, str], list[float]] = defaultdict(list)
    last: dict[Run, Said] = {}
    # with more ranks than cores, a rank that waits must yield
    mca = {"mpi_yield_when_idle": "1"} if processes > len(lab.topology.nodes) else None
    for repeat in range(repeats):
        for run in runs(repeat):
            progress(f"{NAME} in {run}, repeat {repeat + 1} of {repeats}")
            argv = [str(built(f"examples/halo/{LANGUAGES[run.language]}")), "-n", str(cube)]
            argv += option_words(partition=run.partition, solves=SOLVES)
            env = {"OMP_NUM_THREADS": "1"}
            done = lab.mpirun(processes, argv, tcp=run.tcp, mca=mca, env=env, one_core=True,
                              timeout=LIMIT_S)  # fmt: skip
            said = last[run] = parse(done, run)
            times[run, TCP if run.tcp else MPI].append(said.by_mpi)
            if not run.tcp:
                times[run, HALO].append(said.by_halo)
    return [
        {
            "partition": run.partition,
            "language": run.language,
            "exchange": exchange,
            "processes": processes,
            "cube": cube,
            "steps": last[run].steps,
            "residual": last[run].residual,
            **summary(values),
            "unit": "ms",
        }
        for (run, exchange), values in sorted(
            times.items(),
            key=lambda item: (
                PARTITIONS.index(item[0][0].partition),
                list(LANGUAGES).index(item[0][0].language),
                EXCHANGES.index(item[0][1]),
            ),
        )
    ]


def cases(rows: list[dict]) -> dict[tuple[str, str], dict[str, dict]]:
    """@rows by partition and language, and then by exchange."""
    found: dict[tuple[str, str], dict[str, dict]] = {}
    for row in rows:
        found.setdefault((row["partition"], row["language"]), {})[row["exchange"]] = row
    return found


def ratio(by: dict[str, dict], other: str) -> float:
    """The time by halo, of that by @other."""
    return by[HALO]["median"] / by[other]["median"]


def judge(rows: list[dict]) -> list[dict]:
    for_all = cases(rows).values()
    found = []
    for text, other in (("of Isend and Irecv over the BTL", MPI), ("of TCP", TCP)):
        ratios = [ratio(by, other) for by in for_all]
        found += goals.worst(f"{NAME}: a whole solve, {text}", ratios, "≤", 1, "case")
    return found


def title(rows: list[dict]) -> str:
    return f"whole solves, 27-point matrix on {rows[0]['cube']}³ points"


def table(rows: list[dict]) -> Iterator[Table]:
    if not rows:
        return
    made = left_titled(f"{NAME}: {title(rows)}, {rows[0]['processes']} ranks; ms a solve")
    for name in ("partition", "language", "steps"):
        made.add_column(name, no_wrap=True)
    for name in ("TCP", "Isend,\nIrecv", "halo", "of TCP", "of Isend,\nIrecv"):
        made.add_column(name, justify="right", no_wrap=True)
    for (partition, language), by in cases(rows).items():
        medians = [number(by[exchange]["median"]) for exchange in EXCHANGES]
        shares = [f"{100 * ratio(by, other):.0f}%" for other in (TCP, MPI)]
        made.add_row(partition, language, str(by[HALO]["steps"]), *medians, *shares)
    yield made
