# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench`: one module for each suite; common.py has the parts that they share."""

import click

from ..late import LateCommands

SUITES = ("mpi", "modes", "protocols", "rma", "rtc", "learn", "halo", "sdn")
SUITES += ("scale", "router", "devmem", "compare")


@click.group(commands=LateCommands(__package__, {name: name for name in SUITES}, "bench_"))
def bench() -> None:
    """Run a benchmark."""
