# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: parses, measures with a progress bar, shows, saves."""

from pathlib import Path

import click
from rich.console import Console

from ..checkout import built
from .common import check_outputs, json_option, plot_option, progress_bar, repeats_option, save


@click.command("halo")
@click.option(
    "--experiments",
    default="A,B,C,D",
    show_default=True,
    help="Which; see above.",
)
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(2, 8),
    help="Ranks of B and C, on two nodes.",
)
@repeats_option(3, "How often each transport runs; the median is shown.")
@click.option(
    "-n",
    "cube",
    default=100,
    show_default=True,
    type=click.IntRange(2, 200),
    help="B and C: points along an edge of the cube.",
)
@click.option(
    "--doubles",
    default="100,1000,3000,10000,30000,100000",
    show_default=True,
    help="A: how many are sent each way.",
)
@click.option(
    "--ports",
    default="1",
    show_default=True,
    help="Ports of a rank: a number, or several with commas, as 1,4. Goals are those of one.",
)
@json_option
@plot_option
def bench_halo(
    experiments: str,
    processes: int,
    repeats: int,
    cube: int,
    doubles: str,
    ports: str,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """A solver's neighbour exchange: MPI over TCP and over Hikyaku, the interposer, the library.

    Brings up a lab of two nodes on the memif wire. Over Hikyaku, Isend and Irecv, persistent
    requests and the halo library take turns within each run; runs of Isend and Irecv over TCP, and
    with the interposer preloaded, come in between.
    Shows medians, and which goals are met.

    \b
    A  two ranks send each other one piece of 100 to 100 000 doubles
    B  what a product with the 27-point matrix on n³ needs, blocks of rows
    C  the same, parts by METIS
    D  two ranks, messages of which the interposer can promote none: what it costs

    \b
    Examples:
      hikyaku bench halo
      hikyaku bench halo --experiments A --repeats 5 --json out/halo.json --plot out/halo.png
      hikyaku bench halo --experiments B,C --processes 4 -n 64
      hikyaku bench halo --experiments A --ports 1,4
    """
    from ..bench import driver, halo, halo_report

    plan = halo.Plan(
        experiments=driver.parse_names(experiments, halo.EXPERIMENTS, "experiment"),
        processes=processes,
        repeats=repeats,
        cube=cube,
        doubles=driver.parse_sizes(doubles, "number of doubles"),
        ports=driver.parse_sizes(ports),
    )
    check_outputs(json_file, plot_file)
    built("bench/halo_bench")
    with progress_bar() as progress:
        document = halo.run(plan, progress)
    document["goals"] = halo_report.judge(document["rows"], document["promoted"])
    halo_report.show(document, Console())
    save(document, json_file, plot_file, halo_report.draw)
