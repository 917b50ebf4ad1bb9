# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench`: a file for each benchmark, and common.py for what they share."""

import click

from .halo import bench_halo
from .host import bench_host
from .mpi import bench_mpi, demo
from .p2p import bench_p2p
from .router import bench_router
from .rtc import bench_rtc
from .sdn import bench_sdn

__all__ = ["bench", "demo"]


@click.group()
def bench() -> None:
    """Measure."""


for command in (bench_mpi, bench_host, bench_rtc, bench_halo, bench_sdn, bench_router, bench_p2p):
    bench.add_command(command)
