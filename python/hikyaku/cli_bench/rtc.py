# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rtc`: parses, measures with a progress bar, shows, saves."""

from pathlib import Path

import click
from rich.console import Console

from ..checkout import built
from .common import check_outputs, json_option, plot_option, progress_bar, repeats_option, save


@click.command("rtc")
@click.option(
    "--experiments",
    default="hold,sum,learn,echo",
    show_default=True,
    help="What to measure; see above.",
)
@click.option(
    "--backends",
    default="tcp,tcp:batch=1,udp,raw,af_xdp,dpdk",
    show_default=True,
    help="sum: what carries the messages.",
)
@repeats_option(5, "How often each thing runs; the median is shown.")
@click.option(
    "--window",
    default=32,
    show_default=True,
    type=click.IntRange(1, 2048),
    help="sum: questions that the client keeps open.",
)
@click.option(
    "--sum-ms",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 60000),
    help="sum: how long the client asks.",
)
@click.option(
    "--batches",
    default=500,
    show_default=True,
    type=click.IntRange(1, 100000),
    help="hold, echo: how many times 4096 frames are timed.",
)
@click.option(
    "--learn-rows",
    default=100_000,
    show_default=True,
    type=click.IntRange(1000, 10_000_000),
    help="learn: rows of the data.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="learn: of rows and training.",
)
@json_option
@plot_option
def bench_rtc(
    experiments: str,
    backends: str,
    repeats: int,
    window: int,
    sum_ms: int,
    batches: int,
    learn_rows: int,
    seed: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Run to completion: what a handler may cost, and what each step away from the kernel gives.

    Brings up labs of two and four nodes. Two nodes have a core each; within each repeat everything
    that is compared runs one after the other. Shows medians and ranges, then which goals are met.

    \b
    hold   Node 0 keeps each message for a time, then sends it back: throughput against that time,
           for frames of 64 and 128 bytes (dpdk on memif; the client is plain DPDK, window 128).
    sum    It adds up 32 numbers of 16 bits a message, 1, 10 or 100 times, and returns the sum:
           every backend. dpdk on memif, the others on veth; tcp is one send() a message without
           delay, tcp:batch=1 one for a burst. Also what the handler takes, in ns a message.
    learn  Two nodes and four train a linear model on half or a quarter of the rows each, over TCP
           and over DPDK, and one on all rows alone: seconds until the loss is 1.02 times the least
           that is possible (closed form). Four nodes share the cores of a smaller machine.
    echo   64-byte frames that node 0 sends back at once, beside DPDK's own receive-swap-send loop.

    \b
    Examples:
      hikyaku bench rtc --plot out/rtc.png --json out/rtc.json
      hikyaku bench rtc --experiments sum --backends tcp,dpdk --window 128
    """
    from ..bench import driver, rtc, rtc_report
    from ..bench.rtc_plot import draw

    plan = rtc.Plan(
        experiments=driver.parse_names(experiments, rtc.EXPERIMENTS, "experiment"),
        backends=driver.parse_names(backends, rtc.BACKENDS, "backend"),
        repeats=repeats,
        window=window,
        sum_ms=sum_ms,
        batches=batches,
        learn_rows=learn_rows,
        seed=seed,
    )
    check_outputs(json_file, plot_file)
    for program in ("bench/rtc_forward", "examples/sum", "learn/hk_learn"):
        built(program)
    with progress_bar() as progress:
        document = rtc.run(plan, progress)
    document["goals"] = rtc_report.judge(document["rows"])
    rtc_report.show(document, Console())
    save(document, json_file, plot_file, draw)
