# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rma`."""

from functools import partial
from pathlib import Path

import click

from ..options import json_option, repeats_option, sample_option
from .common import run_suite


@click.command("rma")
@click.option(
    "--ways",
    default="hikyaku,rdma,tcp",
    help="hikyaku, rdma and pt2pt: components of Open MPI over Hikyaku; tcp: pt2pt over TCP; shm: "
    "ranks of one node; mpich, mpich-tcp: MPICH by libfabric, over Hikyaku or TCP.",
)
@click.option(
    "--wire",
    type=click.Choice(["memif", "veth", "udp", "routed"]),
    default="memif",
    help="The wire between the nodes.",
)
@click.option(
    "--sizes", default="8,64K", help="Bytes, such as 2048,64K, or a range of powers of two."
)
@click.option(
    "--window",
    type=click.IntRange(1, 1024),
    default=1,
    help="Operations before each flush; their time is the mean.",
)
@repeats_option(5, "Runs of each way; the table shows the median.")
@sample_option(60, "Duration of each timing.")
@json_option
def bench_rma(
    ways: str,
    wire: str,
    sizes: str,
    window: int,
    repeats: int,
    sample_ms: int,
    json_file: Path | None,
) -> None:
    """Measure MPI's one-sided operations, by Open MPI and MPICH.

    Brings up a lab of two nodes. Rank 0 puts, gets, accumulates, fetches and adds, compares and
    swaps in a window of rank 1, which waits in MPI. It completes each operation before the next, or
    as many as --window says.

    \b
    Examples:
      hikyaku bench rma
      hikyaku bench rma --ways hikyaku,pt2pt,tcp --sizes 8..64K
      hikyaku bench rma --ways hikyaku,shm,mpich,mpich-tcp
      hikyaku bench rma --sizes 64K --window 16
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.rma import report, run
    from ...bench.rma.ways import TEXTS

    names = parse_names(ways, tuple(TEXTS), "way")
    plan = run.Plan(names, wire, parse_sizes(sizes), repeats, window, sample_ms)
    run_suite(partial(run.run, plan), report.show, json_file, programs=["bench/rma_bench"])
