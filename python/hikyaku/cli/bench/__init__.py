# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench`: one module for each suite; common.py has the parts that they share."""

import click

from .compare import bench_compare
from .devmem import bench_devmem
from .halo import bench_halo
from .learn import bench_learn
from .modes import bench_modes
from .mpi import bench_mpi
from .protocols import bench_protocols
from .router import bench_router
from .rtc import bench_rtc
from .scale import bench_scale
from .sdn import bench_sdn

SUITES = [bench_mpi, bench_modes, bench_protocols, bench_rtc, bench_learn, bench_halo, bench_sdn]
SUITES += [bench_scale, bench_router, bench_devmem, bench_compare]


@click.group(commands=SUITES)
def bench() -> None:
    """Run a benchmark."""
