# SPDX-License-Identifier: BSD-3-Clause
"""The transports that `bench mpi` compares: one run of each."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ... import mpi
from ...checkout import ROOT, built
from ...errors import HikyakuError
from ...lab import Job, Lab
from ...process import option_words
from ..common.sample import LINE, Plan, Values, line_file, parse, same_node

# Bytes of a Hikyaku frame around an MPI payload: Ethernet and base header (HK_WIRE_DATA_OVERHEAD in
# wire/wire.h), and the match header of Open MPI's ob1.
FRAME_OVERHEAD = 62 + 14
MIN_FRAME = 60


def _program(lab: Lab, plan: Plan) -> list[str]:
    return [str(built("bench/mpi_bench")), *plan.arguments(), *line_file(lab)]


def tcp(lab: Lab, plan: Plan) -> Values:
    argv = _program(lab, plan)
    return parse(lab.mpirun(2, argv, tcp=True, one_core=True, timeout=plan.limit), "TCP")


def _protected(lab: Lab, plan: Plan, protection: str) -> Values:
    argv, mca = _program(lab, plan), {"btl_hikyaku_protection": protection}
    result = lab.mpirun(2, argv, one_core=True, mca=mca, timeout=plan.limit)
    return parse(result, f"Hikyaku with protection {protection}")


def hikyaku(lab: Lab, plan: Plan) -> Values:
    return parse(lab.mpirun(2, _program(lab, plan), one_core=True, timeout=plan.limit), "Hikyaku")


def off(lab: Lab, plan: Plan) -> Values:
    """Frames without protection, which is the default on memif alone."""
    return _protected(lab, plan, "off")


def auth(lab: Lab, plan: Plan) -> Values:
    """Every frame has a tag."""
    return _protected(lab, plan, "auth")


def seal(lab: Lab, plan: Plan) -> Values:
    """Every frame has a tag, and is encrypted."""
    return _protected(lab, plan, "seal")


def shm(lab: Lab, plan: Plan) -> Values:
    """Open MPI's shared memory: both ranks on the first node, on the cores of both nodes."""
    result = same_node(lab, _program(lab, plan), plan.limit)
    return parse(result, "shared memory")


def _raw_run(lab: Lab, frames: list[int], iterations: int) -> dict:
    program = str(built("bench/raw_pingpong"))

    def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
        if lab.topology.wire == "memif":
            socket = f"memif:socket={run_dir}/raw.sock,id=0,role="
            specs = {"pong": socket + "server", "ping": socket + "client"}
        else:
            specs = dict.fromkeys(("pong", "ping"), "af_xdp:iface=hk0")
        sizes = option_words(sizes=",".join(map(str, frames)), iters=iterations, json=True)
        sizes += line_file(lab)
        return [
            (node.name, [program, *option_words(spec=specs[role], role=role), *sizes])
            for node, role in zip(lab.topology.nodes, ("ping", "pong"), strict=False)
        ]

    ping, pong = lab.run_each(commands, timeout=60)
    for result in (ping, pong):
        if result.returncode != 0:
            raise HikyakuError(
                f"raw_pingpong failed (status {result.returncode}): {result.stderr.strip()}"
            )
    return json.loads(ping.stdout)


def raw(lab: Lab, plan: Plan) -> Values:
    """The lower bound of latency: a DPDK ping-pong of the frame that carries a message.

    Measures only sizes that fit one frame.
    """
    if "latency_us" not in plan.metrics:
        return {}
    largest = _raw_run(lab, [MIN_FRAME], 1)["frame_max"]
    frame = {s: max(MIN_FRAME, s + FRAME_OVERHEAD) for s in plan.sizes}
    fitting = sorted({f for f in frame.values() if f <= largest})
    if not fitting:
        return {}
    run = _raw_run(lab, fitting, 20000)
    median = {row["size"]: row["latency_us"]["median"] for row in run["rows"]}
    values: Values = {("latency_us", s): median[f] for s, f in frame.items() if f in median}
    if run["line_ns"] > 0:
        values |= {(LINE + "latency_us", s): run["line_ns"] for _, s in list(values)}
    return values


def tls(lab: Lab, plan: Plan) -> Values:
    """Encrypted messages without Hikyaku: OpenSSL over TCP, without MPI, by the wire of tcp."""
    if "latency_us" not in plan.metrics:
        return {}
    program = str(built("bench/tls_pingpong"))
    sizes = option_words(sizes=",".join(map(str, plan.sizes)), iters=2000)
    ping, pong = lab.topology.nodes[:2]
    roles = [
        (ping.name, [program, *option_words(role="ping", address=pong.tcp_ip), *sizes]),
        (pong.name, [program, *option_words(role="pong")]),
    ]
    results = lab.run_each(lambda _: roles, timeout=plan.limit)
    for result in results:
        if result.returncode != 0:
            raise HikyakuError(
                f"tls_pingpong failed (status {result.returncode}): {result.stderr.strip()}"
            )
    rows = json.loads(results[0].stdout)["rows"]
    return {("latency_us", row["size"]): row["latency_us"]["median"] for row in rows}


def _by_ofi(name: str, by_tcp: bool, lab: Lab, plan: Plan) -> Values:
    """MPI @name by libfabric: our provider, or its own for TCP."""
    program = mpi.compiled(name, [ROOT / "bench/mpi_bench.c"])
    words = ["-np", "2", program, *plan.arguments(), *line_file(lab)]
    job = Job(words, mpi=name, tcp=by_tcp, one_core=True, timeout=plan.limit)
    return parse(lab.launch(job), f"{name} over {'TCP' if by_tcp else 'Hikyaku'}")


RUNS: dict[str, Callable[[Lab, Plan], Values]] = {
    run.__name__: run for run in (tcp, hikyaku, raw, shm, off, auth, seal, tls)
}
PROTECTED = ("off", "auth", "seal", "tls")
BY_TCP = "-tcp"  # behind the name of an MPI
for _name in mpi.BY_OFI:
    RUNS[_name] = partial(_by_ofi, _name, False)
    RUNS[_name + BY_TCP] = partial(_by_ofi, _name, True)
TRANSPORTS = tuple(RUNS)
ON_DEMAND = TRANSPORTS[4:]  # only if they are asked for
