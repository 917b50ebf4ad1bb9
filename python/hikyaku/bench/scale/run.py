# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench scale`: a solver's neighbour exchange with more ranks than this machine carries.

The messages of an exchange follow from the matrix and its partition, so they are computed for any
number of ranks (bench/halo_messages.c). For the numbers in `counted`, real ranks exchange as well,
and what the halo library counts must be the same. Times are simulated: the same messages between
ranks, one a node, at one network switch (docs/sim.md). Two ranks are also measured, beside the
simulation of the same messages. Both have links of 1 Gb/s: faster links of the lab are limited by
the copies of the CPU, which the simulation does not have.
"""

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ...checkout import built
from ...errors import HikyakuError
from ...lab import Lab, RunResult, down_dead, network, own_name
from ...process import option_words
from ...sim.messages import Messages, check
from ...sim.run import PROGRAM, simulate
from ..common import machine
from ..common.sample import printed
from ..common.summary import summary

PARTITIONS = {"B": "rows", "C": "metis"}
MPI, HALO = "mpi", "halo"
EAGER = 16 << 10  # bytes of Open MPI's longest eager message over the BTL
OVER_BTL = 12  # ranks: with more, memif would need too many wires, and TCP connects the nodes
REAL_GBIT = 1  # the links of two real ranks
REAL_FRAME = 1500
REAL_BURST = 4096  # bytes that such a link sends at once after a pause
LIMIT_S = 600  # of a run: many ranks take turns on few cores
PROGRAMS = ("bench/halo_messages", "bench/halo_bench", "examples/spmv/spmv", PROGRAM)

_REPORT = re.compile(
    r"^hk_halo: rank (\d+) with rank (\d+): (\d+) bytes out, (\d+) in, (\d+) exchanges", re.M
)


@dataclass(frozen=True)
class Plan:
    processes: list[int]
    counted: list[int]
    ports: list[int]  # of a rank, for puts
    cube: int
    rate: int  # Gb/s of each link
    frame: int
    exchanges: int
    rounds: int
    seed: int

    def steps(self) -> list[tuple[str, str, int]]:
        """The verb of each step, its experiment and its number of ranks."""
        return [
            (what, experiment, count)
            for experiment in PARTITIONS
            for what, counts in (
                ("simulate", self.processes),
                ("count", self.counted),
                ("measure", [2]),
            )
            for count in counts
        ]


def messages(cube: int, experiment: str, processes: int) -> Messages:
    argv = [str(built("bench/halo_messages")), str(cube), str(processes), PARTITIONS[experiment]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HikyakuError.said(done.stderr.removeprefix("halo_messages: "))
    return check(json.loads(done.stdout), "the output of halo_messages")


def counted(report: str) -> Messages | None:
    """The messages that the ranks of a run have counted, from HK_HALO_REPORT. None: two ranks
    disagree, or a rank has not exchanged."""
    sent, received = {}, {}
    for one, other, out, into, exchanges in _REPORT.findall(report):
        if exchanges == "0":
            return None
        sent[int(one), int(other)] = int(out)
        received[int(other), int(one)] = int(into)
    if not sent or sent != received:
        return None
    ranks = 1 + max(max(pair) for pair in sent)
    return Messages(ranks, [(*pair, size) for pair, size in sorted(sent.items()) if size])


def _count(plan: Plan, experiment: str, processes: int, expected: Messages) -> bool:
    """Whether real ranks count the same messages."""
    argv = [str(built("examples/spmv/spmv"))]
    argv += ["-n", str(plan.cube), "--products", "1", "--partition", PARTITIONS[experiment]]
    with Lab.up(2, "memif", -(-processes // 2), name=own_name("bench", "scale")) as lab:
        done = lab.mpirun(
            processes,
            argv,
            tcp=processes > OVER_BTL,
            mca={"mpi_yield_when_idle": "1"},
            env={"HK_HALO_REPORT": "1"},
            timeout=LIMIT_S,
        )
    if done.returncode:
        raise HikyakuError(
            f"spmv with {processes} ranks failed (status {done.returncode}):\n{done.stderr[-3000:]}"
        )
    found = counted(done.stdout + done.stderr)
    return found is not None and sorted(found.messages) == sorted(expected.messages)


def _exchange(lab: Lab, plan: Plan, experiment: str) -> RunResult:
    words = option_words(experiment=experiment, rounds=plan.rounds, methods=f"{MPI},{HALO}")
    argv = [str(built("bench/halo_bench")), "-n", str(plan.cube), *words]
    mca = {"btl_hikyaku_port": "udp:addr=tcp0", "btl_hikyaku_link_mbps": str(1000 * REAL_GBIT)}
    return lab.mpirun(2, argv, one_core=True, mca=mca, timeout=LIMIT_S)


def _measure(plan: Plan, experiment: str) -> dict[str, dict[str, float]]:
    """µs of an exchange of two real ranks, by method."""
    with Lab.up(2, "udp", mtu=REAL_FRAME, name=own_name("bench", "scale")) as lab:
        for node in lab.topology.nodes:
            network.limit_rate(node.netns, "tcp0", 1000 * REAL_GBIT, REAL_BURST)
        rows = printed(_exchange(lab, plan, experiment), f"experiment {experiment}")
    return {
        method: summary([row["value"] for row in rows if row["method"] == method])
        for method in (MPI, HALO)
    }


def _simulated(plan: Plan, of: Messages, eager: int | None, ports: int) -> dict:
    """One simulation. @eager: MPI's messages in place of puts."""
    options = {"rate": plan.rate, "frame": plan.frame, "count": plan.exchanges, "seed": plan.seed}
    done = simulate("exchange", messages=of, eager=eager, ports=ports, **options)
    if not done["ended"]:
        raise HikyakuError("the simulated exchanges did not end", "choose fewer ranks")
    return {
        "method": MPI if eager else HALO,
        "ports": ports,
        "exchange_us": done["exchange_us"],
        "p50_us": done["p50_us"],
        "p99_us": done["p99_us"],
        "resends": done["resends"],
    }


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Computes, counts, simulates and measures; returns the document."""
    about = machine.describe()
    down_dead("bench")
    lists: dict[tuple[str, int], Messages] = {}
    counts, times, measured = [], [], []
    same: dict[tuple[str, int], bool] = {}
    steps = plan.steps()
    with ExitStack() as stack:
        stack.callback(progress, "done", len(steps), len(steps))
        for done, (what, experiment, processes) in enumerate(steps):
            progress(f"{what} {experiment} with {processes} ranks", done, len(steps))
            key = (experiment, processes)
            if key not in lists:
                lists[key] = messages(plan.cube, experiment, processes)
            of = lists[key]
            base = {"experiment": experiment, "processes": processes}
            variants = [(EAGER, 1), *((None, ports) for ports in plan.ports)]
            if what == "simulate":
                times += [base | _simulated(plan, of, *variant) for variant in variants]
            elif what == "count":
                same[key] = _count(plan, experiment, processes, of)
            else:
                slow = replace(plan, rate=REAL_GBIT, frame=REAL_FRAME)
                simulated = [_simulated(slow, of, eager, 1) for eager in (EAGER, None)]
                for method, values in _measure(plan, experiment).items():
                    model = next(s for s in simulated if s["method"] == method)
                    row = base | {"method": method, "exchange_us": model["exchange_us"]}
                    measured.append(row | {"measured_us": values})
    for (experiment, processes), of in lists.items():
        counts.append(
            {
                "experiment": experiment,
                "processes": processes,
                "messages": len(of.messages),
                "neighbours": max(of.neighbours()),
                "bytes": max(of.sent()),
                "bytes_all": sum(of.sent()),
                "counted": same.get((experiment, processes)),
            }
        )
    about |= {"rounds": plan.rounds, "cube": plan.cube}
    network = {"rate_gbit": plan.rate, "frame": plan.frame, "eager": EAGER, "seed": plan.seed}
    return {
        "schema": 1,
        "machine": about,
        "network": network,
        "counts": counts,
        "times": times,
        "measured": measured,
    }


def time_of(document: dict, **fields: object) -> float | None:
    """The simulated time of an exchange, µs, of the one row with these values."""
    found = [t for t in document["times"] if all(t[name] == v for name, v in fields.items())]
    return found[0]["exchange_us"] if found else None
