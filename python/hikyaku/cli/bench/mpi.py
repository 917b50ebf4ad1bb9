# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench mpi`."""

from functools import partial
from pathlib import Path

import click

from ...lab.topology import DEFAULT_MTU
from ..options import json_option, plot_option, repeats_option, sample_option
from .common import run_suite


@click.command("mpi")
@click.option("--wire", default="memif", metavar="WIRE[,WIRE]", help="Of memif, veth, udp, routed.")
@click.option(
    "--sizes", default="1..4M", help="Bytes, such as 8,2048,64K, or a range of powers of two."
)
@repeats_option(5, "Runs of each transport; the table shows the median.")
@click.option(
    "--metrics",
    default="latency_us,bandwidth_MBps,bibandwidth_MBps,messages_per_s",
    help="Metrics; the man page defines each.",
)
@click.option(
    "--transports",
    default="tcp,hikyaku,raw,shm",
    help="raw: DPDK ping-pong without MPI; shm: Open MPI's shared memory, both ranks on one node; "
    "off, auth, seal: Hikyaku with this protection of frames; tls: OpenSSL over TCP; mpich, impi, "
    "openmpi5, openmpi-ofi: that MPI by libfabric, and with -tcp behind its name over TCP.",
)
@sample_option(30, "Duration of each timing.")
@click.option("--mtu", default=DEFAULT_MTU, help="MTU of the kernel's wires, TCP's and Hikyaku's.")
@json_option
@plot_option
def bench_mpi(
    wire: str,
    sizes: str,
    metrics: str,
    transports: str,
    repeats: int,
    sample_ms: int,
    mtu: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Measure latency and bandwidth of MPI over TCP and Hikyaku.

    Brings up a lab of two nodes for each wire. Each repeat runs the same program over each
    transport, one after the other, with the same pinning. The table shows medians and ranges; a
    machine without other load gives narrow ranges.

    \b
    Examples:
      hikyaku bench mpi
      hikyaku bench mpi --sizes 8,2048 --metrics latency_us --repeats 9
      hikyaku bench mpi --wire memif,veth --json out/bench.json --plot out/bench.png
      hikyaku bench mpi --transports tcp,off,auth,seal,tls --sizes 8,64K,1M --repeats 9
      hikyaku bench mpi --transports tcp,hikyaku,mpich,mpich-tcp --sizes 8,1K,64K,1M
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.mpi import report, run
    from ...bench.mpi.plot import draw

    plan = run.Plan(parse_names(metrics, run.METRICS, "metric"), parse_sizes(sizes), sample_ms)
    wires = parse_names(wire, run.WIRES, "wire")
    chosen = parse_names(transports, run.TRANSPORTS, "transport")
    run_suite(
        partial(run.run, wires, plan, repeats, chosen, mtu),
        report.show,
        json_file,
        plot_file,
        programs=["bench/mpi_bench"],
        draw=draw,
    )
