# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: a solver's neighbour exchange, by MPI and by the halo library.

bench/halo_bench.c says what the experiments are and how a sample is taken. A run over the BTL
measures its methods in turn; runs over TCP, over the BTL, over the BTL with the interposer
preloaded, with each number of ports, and with 1 % of the frames lost, alternate. What loses frames
(port/faults.h) takes time of its own, which is no cost of loss: so the same with none lost
alternates as well. Runs during which cores were nearer or farther apart than else are repeated
(phases.py).
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Lab, RunResult, down_dead, own_name
from ..lab.openmpi import interposer_settings, with_faults
from . import machine
from .driver import summary
from .phases import Phases
from .sample import empty_file, line_file

EXPERIMENTS = ("A", "B", "C", "D")
PACKED = "halo-packed"  # the library, with what the program has packed: B and C
METHODS = ("mpi-tcp", "mpi-btl", "persistent-btl", "interposer", PACKED, "halo")
SETUP = "halo-setup"
LOSSY = "halo-loss"  # the library
LOSSLESS = "halo-lossless"  # … by the same detour, where nothing is lost
COPIES = "copies"  # what the wire copies, alone: the floor for two ranks (bench/halo_copies.h)
WIRE = "memif"
OTHERS = (SETUP, LOSSLESS, LOSSY, COPIES)

# The program's name of what it measures, by how it runs.
NAMES = {
    "TCP": {"mpi": "mpi-tcp"},
    "Hikyaku": {
        "mpi": "mpi-btl",
        "persistent": "persistent-btl",
        "halo": "halo",
        "halo-setup": SETUP,
        COPIES: COPIES,
    },
    # in turn: minutes of a machine differ by more than the interposer costs
    "the interposer": {"mpi": "interposer", "packed": PACKED},
    "Hikyaku, 1 % of the frames lost": {"halo": LOSSY},
    "Hikyaku, 0 % of the frames lost": {"halo": LOSSLESS},
}


@dataclass(frozen=True)
class Way:
    """How a run of the program goes: one of NAMES, and with how many ports a rank (TCP: 1)."""

    name: str
    ports: int = 1

    @classmethod
    def of(cls, method: str, ports: int) -> Self:
        """The run that measures @method."""
        return cls(next(name for name, by in NAMES.items() if method in by.values()), ports)

    def __str__(self) -> str:
        return self.name + (f", {self.ports} ports" if self.ports > 1 else "")


TCP = Way("TCP")
HIKYAKU = Way("Hikyaku")
LOSS = {
    Way("Hikyaku, 1 % of the frames lost"): "drop=0.01",
    Way("Hikyaku, 0 % of the frames lost"): "drop=0",
}


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

    def steps(self) -> list[tuple[str, Way, int]]:
        """(experiment, way, repeat) in the order of the runs."""
        ours = [Way(name, p) for p in self.ports for name in ("Hikyaku", "the interposer")]
        lossy = [way for way in LOSS if way.ports in self.ports]
        return [
            (experiment, way, repeat)
            for repeat in range(self.repeats)
            for experiment in self.experiments
            for way in ([*ours, *lossy, TCP][:: -1 if repeat % 2 else 1])
            if experiment != "D" or way not in (TCP, *LOSS)  # nobody compares with it
        ]

    def ranks(self, experiment: str) -> int:
        return 2 if experiment in ("A", "D") else self.processes


def parse(samples: Phases, result: RunResult, experiment: str, way: Way) -> None:
    """Adds what the run printed, under the names of the methods."""
    if result.returncode != 0:
        raise HikyakuError(
            f"experiment {experiment} over {way} failed (status {result.returncode}):\n"
            f"{(result.stderr or result.stdout).strip()[-3000:]}"
        )
    names = NAMES[way.name]
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["method"] in names:
                cell = (row["experiment"], row["bytes"], names[row["method"]], way.ports)
                samples.add(cell, names[row["method"]], row["value"], row.get("line_ns"))


# Of so many periods of a channel, those after the third are judged: however long a run lasts, and
# however little of it then is before a late promotion.
_FIRST = 3
_JUDGED = 100

_CHANNEL = re.compile(
    r"^hikyaku_halo: rank \d+ to rank \d+ of communicator \d+, tag \d+: (\d+) of (\d+) messages "
    r"by puts, \S+ % of (\d+) bytes; promoted (\d+) times, demoted \d+, period (\d+); (.*)$",
    re.M,
)


def promoted_share(report: str) -> float | None:
    """Of HK_HALO_REPORT's channels between nodes: the share of the bytes from their third period
    on, in their first hundred, that went by puts. None: no channel went on so long."""
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


def _run(lab: Lab, plan: Plan, experiment: str, way: Way) -> RunResult:
    argv = [str(built("bench/halo_bench")), "--experiment", experiment, "-n", str(plan.cube)]
    argv += ["--doubles", ",".join(map(str, plan.doubles)), "--rounds", str(plan.rounds)]
    argv += ["--sample-ms", str(plan.sample_ms)]
    if way.name != "Hikyaku":
        argv += ["--methods", ",".join(NAMES[way.name])]
    ranks = plan.ranks(experiment)
    if ranks == 2:
        argv += line_file(lab)
    if experiment in "ABC" and ranks == 2 and way == HIKYAKU:
        argv += ["--copies", str(empty_file(lab, "copies"))]
    if way.name == "the interposer":
        settings = interposer_settings() | {"HK_HALO_REPORT": "1"}
        argv = ["env", *(f"{key}={value}" for key, value in settings.items()), *argv]
    if way in LOSS:
        argv = with_faults(LOSS[way], 1, argv)
    # with more ranks than cores whoever waits lets others work
    mca = {"mpi_yield_when_idle": "1"} if ranks > len(lab.topology.nodes) else None
    return lab.mpirun(ranks, argv, tcp=way == TCP, mca=mca, one_core=True, timeout=240)


def rows(samples: Phases, processes: Callable[[str], int]) -> list[dict]:
    """One for each method, of the samples that may be compared."""
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
    """Measures and returns the document, without the goals."""
    about = machine.describe()
    samples = Phases()
    shares: dict[str, list[float]] = defaultdict(list)
    steps = plan.steps()
    done = 0
    down_dead("bench")
    per_node = -(-plan.processes // 2)
    with ExitStack() as stack:
        labs = {}
        for ports in plan.ports:
            name = own_name("bench", f"halo-{ports}")
            lab = Lab.up(2, WIRE, per_node, name=name, ports=ports)
            labs[ports] = stack.enter_context(lab)

        def once(run: tuple[str, Way], said: str) -> None:
            experiment, way = run
            progress(f"{experiment} over {way}, {said}", done, len(steps))
            lab = labs[plan.ports[0] if way == TCP else way.ports]
            result = _run(lab, plan, experiment, way)
            parse(samples, result, experiment, way)
            if experiment in "BC" and (share := promoted_share(result.stderr)) is not None:
                shares[experiment].append(share)

        for experiment, way, repeat in steps:
            once((experiment, way), f"repeat {repeat + 1} of {plan.repeats}")
            done += 1
        samples.draw_more(
            list(dict.fromkeys((experiment, way) for experiment, way, _ in steps)),
            lambda cell, method: (cell[0], Way.of(method, cell[3])),
            plan.repeats * plan.rounds,
            plan.repeats,
            once,
        )
    progress("done", len(steps), len(steps))
    about |= {"repeats": plan.repeats, "rounds": plan.rounds, "cube": plan.cube}
    about["cores_apart"] = samples.describe()
    return {
        "schema": 1,
        "machine": about,
        "rows": rows(samples, plan.ranks),
        "promoted": {experiment: min(values) for experiment, values in shares.items()},
    }
