# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench learn`."""

from functools import partial
from pathlib import Path

import click

from ...errors import HikyakuError
from ..options import json_option, plot_option, repeats_option, seed_option
from .common import run_suite


@click.command("learn")
@click.option("--models", default="line,plane,logistic,svm", help="Models; see above.")
@click.option(
    "--backends",
    default="tcp,udp,raw,af_xdp,dpdk",
    help="Backends; also tcp:batch=1.",
)
@click.option("--nodes", default="1,2,4", help="Numbers of nodes, as in 1,2,8 or 1..16.")
@click.option(
    "--rows",
    default=100_000,
    type=click.IntRange(1000, 10_000_000),
    help="Rows of the data.",
)
@click.option(
    "--gossip-every",
    default=4,
    type=click.IntRange(1, 100_000),
    help="Batches that a node trains between two messages.",
)
@repeats_option(3, "Runs of each case; the table shows the median.")
@seed_option("Seed of the rows; each repeat trains with the next one.")
@json_option
@plot_option
def bench_learn(
    models: str,
    backends: str,
    nodes: str,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Measure nodes that train a model by gossip.

    Each node trains on its share of the same rows, and sends its parameters to others. Measures the
    time until the loss of all nodes is near the least one, which is computed apart. One node alone
    has all rows. Shows medians, ratios to one node and to tcp, and the goals. A case that misses
    its target in 120 s has no figures. The others go on, and the command then ends with status 1.

    \b
    line      Regression of y = a·x + b, until 1.001 times the least loss.
    plane     The same with 16 features, until 1.02 times.
    logistic  Two classes that overlap, logistic regression, 16 features, until 1.02 times.
    svm       The same rows; linear SVM with the squared hinge.

    dpdk uses memif, the others veth. Nodes have one core each; if there are more nodes than cores,
    they share the cores, and yield after each round.

    \b
    Examples:
      hikyaku bench learn --plot out/learn.png --json out/learn.json
      hikyaku bench learn --models line --backends tcp,raw,dpdk --nodes 1..16
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.learn import report, run
    from ...bench.learn.plot import draw
    from ...bench.learn.problems import PROBLEMS

    what = "number of nodes"
    counts = parse_sizes(nodes, what)
    for count in counts:
        if not 1 <= count <= run.MOST_NODES:
            raise HikyakuError(f"'{count}' is not a {what}", f"use 1 to {run.MOST_NODES}")
    plan = run.Plan(
        models=parse_names(models, tuple(PROBLEMS), "model"),
        backends=parse_names(backends, run.BACKENDS, "backend"),
        nodes=counts,
        **settings,
    )
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        plot_file,
        programs=["systems/learn/hk_learn"],
        judge=lambda found: report.judge(found["rows"]),
        draw=draw,
        lacks=run.missed_error,
    )
