# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`."""

from functools import partial
from pathlib import Path

import click

from ..options import ExistingFile, json_option, plot_option, repeats_option
from .common import run_suite


@click.command("halo")
@click.option("--experiments", default="A,B,C,D,E,F", help="Experiments; see above.")
@click.option(
    "--processes", default=2, type=click.IntRange(2, 8), help="Ranks of B, C and F, on two nodes."
)
@repeats_option(3, "Runs of each transport; the table shows the median.")
@click.option(
    "-n",
    "cube",
    type=click.IntRange(2, 200),
    help="B, C, F: points along an edge of the cube.  [default: 100; F: 40]",
)
@click.option(
    "--matrix",
    type=ExistingFile(),
    help="B and C: a Matrix Market file (.mtx) in place of the cube.",
)
@click.option(
    "--doubles", default="100,1000,3000,10000,30000,100000", help="A: doubles sent each way."
)
@click.option(
    "--ports",
    default="1",
    help="Ports of a rank: one or more numbers, such as 1,4. The goals are for one port.",
)
@json_option
@plot_option
def bench_halo(
    experiments: str,
    doubles: str,
    ports: str,
    cube: int | None,
    matrix: Path | None,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Measure the neighbour exchange of a solver.

    Compares MPI over TCP and Hikyaku, the promoter and the halo library. Brings up a lab of two
    nodes on the memif wire. A run over Hikyaku measures its variants in turn: five ways of MPI, and
    the halo library. These runs alternate with runs over TCP and runs with the promoter preloaded.
    Shows the medians, and whether they meet the goals.

    \b
    A  two ranks send each other one piece of 100 to 100 000 doubles
    B  the exchange for a product with the 27-point matrix on n³, blocks of rows
    C  the same, partitioned by METIS
    D  two ranks send messages that the promoter does not promote: its overhead
    E  the same as A between two ranks of one node, by shared memory
    F  whole solves by conjugate gradients, in C and in Fortran

    \b
    Examples:
      hikyaku bench halo
      hikyaku bench halo --experiments A --repeats 5 --json out/halo.json --plot out/halo.png
      hikyaku bench halo --experiments B,C --processes 4 -n 64
      hikyaku bench halo --experiments A --ports 1,4
      hikyaku bench halo --experiments B,C --matrix file.mtx
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.halo import report, run
    from ...bench.halo.plot import draw
    from ...bench.halo.solves import CUBE, LANGUAGES

    if cube and matrix:
        raise click.UsageError("-n is for the cube, and --matrix takes its place")
    chosen = parse_names(experiments, run.EXPERIMENTS, "experiment")
    if matrix and not {"B", "C"} & set(chosen):
        raise click.UsageError("--matrix is for experiments B and C: add one, or leave it out")
    plan = run.Plan(
        cube=cube or 100,
        solve_cube=cube or CUBE,
        matrix=matrix,
        experiments=chosen,
        doubles=parse_sizes(doubles, "number of doubles"),
        ports=parse_sizes(ports),
        **settings,
    )
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        plot_file,
        programs=["bench/halo_bench", *(f"examples/halo/{name}" for name in LANGUAGES.values())],
        judge=lambda found: report.judge(found["rows"], found["promoted"], found["solves"]),
        draw=draw,
    )
