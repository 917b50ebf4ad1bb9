# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rtc`."""

from functools import partial
from pathlib import Path

import click

from ..options import json_option, plot_option, repeats_option, seed_option
from .common import run_suite


@click.command("rtc")
@click.option("--experiments", default="hold,sum,learn,echo", help="Experiments; see above.")
@click.option(
    "--backends",
    default="tcp,tcp:batch=1,udp,raw,af_xdp,dpdk",
    help="sum: backends that carry the messages.",
)
@repeats_option(5, "Runs of each case; the table shows the median.")
@click.option(
    "--window",
    default=32,
    type=click.IntRange(1, 2048),
    help="sum: requests that the client keeps open.",
)
@click.option(
    "--sum-ms",
    default=1000,
    type=click.IntRange(1, 60000),
    help="sum: how long the client sends requests.",
)
@click.option(
    "--batches",
    default=500,
    type=click.IntRange(1, 100000),
    help="hold, echo: timed batches of 4096 frames.",
)
@click.option(
    "--learn-rows",
    default=100_000,
    type=click.IntRange(1000, 10_000_000),
    help="learn: rows of the data.",
)
@seed_option("learn: seed of the rows and of the training.")
@json_option
@plot_option
def bench_rtc(
    experiments: str,
    backends: str,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Measure run to completion: handlers, and kernel bypass.

    Brings up labs of two and four nodes. Two nodes have one core each. Within each repeat, runs
    that are compared follow each other. Shows medians, ranges and the goals.

    \b
    hold   Node 0 holds each message for a time, then sends it back. Throughput against that time,
           for frames of 64 and 128 bytes (dpdk on memif; the client is plain DPDK, window 128).
    sum    Node 0 adds up 32 numbers of 16 bits per message, 1, 10 or 100 times, and returns the
           sum, over every backend. dpdk uses memif, the others veth. tcp calls send() once per
           message, without delay; tcp:batch=1 once per burst. Also the handler's ns per message.
    learn  Two or four nodes train a linear model on half or a quarter of the rows each, over TCP
           and over DPDK; one node trains on all rows. Seconds until the loss is 1.02 times the
           minimum (closed form). On a small machine four nodes share its cores.
    echo   Node 0 sends 64-byte frames back at once; compared with a plain DPDK loop.

    \b
    Examples:
      hikyaku bench rtc --plot out/rtc.png --json out/rtc.json
      hikyaku bench rtc --experiments sum --backends tcp,dpdk --window 128
    """
    from ...bench.common.arguments import parse_names
    from ...bench.rtc import report, run
    from ...bench.rtc.plot import draw

    plan = run.Plan(
        experiments=parse_names(experiments, run.EXPERIMENTS, "experiment"),
        backends=parse_names(backends, run.BACKENDS, "backend"),
        **settings,
    )
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        plot_file,
        programs=["bench/rtc_forward", "examples/sum", "systems/learn/hk_learn"],
        judge=lambda found: report.judge(found["rows"]),
        draw=draw,
    )
