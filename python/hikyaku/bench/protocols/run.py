# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench protocols`: latency with a forced protocol of Open MPI, over TCP and Hikyaku.

Open MPI's ob1 sends a message eagerly, or asks first and sends it when the receive is there
(rendezvous). The limit between both is a parameter of each BTL. A limit above all sizes forces the
eager protocol, and one below them rendezvous. Within each repeat all curves follow each other.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ...checkout import built
from ...lab import Lab, down_dead, own_name
from ..common import machine, sample
from ..common.summary import summary, turned
from ..modes.run import MODES, run_in_mode

EAGER, RENDEZVOUS, OWN = "eager", "rendezvous", "own"
PROTOCOLS = (EAGER, RENDEZVOUS, OWN)
TCP = "tcp"
CARRIERS = (TCP, *MODES)  # TCP, or Hikyaku in one of its modes
WIRE = "memif"
LEAST = 256  # bytes: below the limit that forces rendezvous, messages stay eager
MOST = 64 << 10  # bytes: sixteen frames, the most that Hikyaku sends eagerly, hold more
FORCE_EAGER, FORCE_RENDEZVOUS = 1 << 20, 128  # bytes of the limit


@dataclass(frozen=True)
class Plan:
    carriers: list[str]
    sizes: list[int]
    repeats: int
    sample_ms: int = 30
    huge_mb: int = 512


def limits(btl: str, protocol: str) -> dict[str, str]:
    """Parameters of @btl that force @protocol."""
    if protocol == OWN:
        return {}
    eager = FORCE_EAGER if protocol == EAGER else FORCE_RENDEZVOUS
    names = ["eager_limit", "rndv_eager_limit"]
    if protocol == EAGER:
        names.append("max_send_size")  # at least the limit
    return {f"btl_{btl}_{name}": str(eager) for name in names}


def _latencies(lab: Lab, plan: Plan, carrier: str, protocol: str) -> dict[int, float]:
    settings = sample.Plan(["latency_us"], plan.sizes, plan.sample_ms)
    argv = [str(built("bench/mpi_bench")), *settings.arguments()]
    if carrier == TCP:
        mca = limits("tcp", protocol)
        done = lab.mpirun(2, argv, tcp=True, mca=mca, one_core=True, timeout=settings.limit)
        values = sample.parse(done, "TCP")
    else:
        values = run_in_mode(lab, carrier, 2, argv, limits("hikyaku", protocol), settings.limit)
    return {size: value for (metric, size), value in values.items() if metric == "latency_us"}


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document."""
    about = machine.describe()
    curves = [(carrier, protocol) for carrier in plan.carriers for protocol in PROTOCOLS]
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    total, done = plan.repeats * len(curves), 0
    down_dead("bench")
    with Lab.up(2, WIRE, huge_mb=plan.huge_mb, name=own_name("bench", "protocols")) as lab:
        for repeat in range(plan.repeats):
            for carrier, protocol in turned(curves, repeat):
                progress(
                    f"{carrier}, {protocol}, repeat {repeat + 1} of {plan.repeats}", done, total
                )
                done += 1
                for size, value in _latencies(lab, plan, carrier, protocol).items():
                    found[carrier, protocol, size].append(value)
    progress("done", total, total)
    about |= {"repeats": plan.repeats, "sample_ms": plan.sample_ms}
    rows = [
        {"carrier": carrier, "protocol": protocol, "size": size, **summary(values)}
        for (carrier, protocol, size), values in sorted(
            found.items(), key=lambda item: (curves.index(item[0][:2]), item[0][2])
        )
    ]
    return {"schema": 1, "machine": about, "rows": rows}
