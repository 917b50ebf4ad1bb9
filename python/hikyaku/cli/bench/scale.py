# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench scale`."""

from functools import partial
from pathlib import Path

import click

from ...sim.run import RATES
from ..options import json_option, plot_option, seed_option
from .common import run_suite


@click.command("scale")
@click.option("--processes", default="6,12,48,96,192", help="Numbers of ranks, one a node.")
@click.option(
    "--counted", default="6,12", help="Numbers of real ranks that count messages; 'none': no ranks."
)
@click.option("--ports", default="1,4", help="Ports of a rank, for puts.")
@click.option(
    "-n",
    "cube",
    default=100,
    type=click.IntRange(2, 200),
    help="Points along an edge of the cube.",
)
@click.option("--rate", type=click.Choice(RATES), default="100G", help="Of each link, per second.")
@click.option(
    "--frame", type=click.IntRange(576, 9200), default=9000, help="Bytes of the largest frame."
)
@click.option("--exchanges", type=click.IntRange(1, 10_000), default=20, help="Of each simulation.")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=9, help="Samples of two real ranks."
)
@seed_option("Of the simulations.")
@json_option
@plot_option
def bench_scale(
    processes: str,
    counted: str,
    ports: str,
    rate: str,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Simulate the neighbour exchange of many ranks.

    Computes the messages of an exchange: experiments B and C of `hikyaku bench halo`. Real ranks,
    of which several share a core, exchange them once and count. Simulates the times of MPI and of
    the halo library, with the engine of this checkout. Measures two real ranks beside the
    simulation of the same messages.

    \b
    Examples:
      hikyaku bench scale --json out/scale.json --plot out/scale.png
      hikyaku bench scale --processes 48 --counted 48 --ports 1
    """
    from ...bench.common.arguments import parse_sizes
    from ...bench.scale import report, run
    from ...bench.scale.plot import draw
    from ...errors import HikyakuError

    plan = run.Plan(
        processes=parse_sizes(processes, "number of ranks"),
        counted=[] if counted == "none" else parse_sizes(counted, "number of ranks"),
        ports=parse_sizes(ports, "number of ports"),
        rate=int(rate.removesuffix("G")),
        **settings,
    )
    if min(plan.processes) < 2 or max(plan.processes) > 1024:
        raise HikyakuError("--processes: 2 to 1024 ranks can be simulated", "--processes 6,192")
    if plan.counted and (min(plan.counted) < 2 or max(plan.counted) > 48):
        raise HikyakuError("--counted: 2 to 48 real ranks can count", "--counted 6,12")
    if min(plan.ports) < 1 or max(plan.ports) > 8:
        raise HikyakuError("--ports: a rank has 1 to 8 ports", "--ports 1,4")
    run_suite(
        partial(run.run, plan), report.show, json_file, plot_file, programs=run.PROGRAMS, draw=draw
    )
