# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rtc`."""

from functools import partial
from pathlib import Path

import click

from ..options import json_option, plot_option, repeats_option
from .common import run_suite

MOST_RATE = 100.0  # million/s
MOST_LOAD = 100.0


@click.command("rtc")
@click.option("--experiments", default="hold,sum,echo", help="Experiments; see above.")
@click.option(
    "--backends",
    default="tcp,tcp:batch=1,udp,raw,af_xdp,dpdk",
    help="sum: backends that carry the messages; with +auth or +seal, such as udp+seal, protected.",
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
    "--adding",
    default="vector",
    help="sum, collapse: vector (AVX2), plain (a loop), or both.",
)
@click.option(
    "--receivers",
    default="socket,udp,raw,af_xdp,dpdk",
    help="drops, collapse: receivers of the load.",
)
@click.option(
    "--rates",
    default="0.05,0.1,0.2,0.5,1,2,4",
    help="drops: rates of the sender, million/s.",
)
@click.option(
    "--loads",
    default="0.5,0.8,1.2,2,4",
    help="collapse: rates of the sender, times the closed loop's.",
)
@click.option(
    "--load-ms",
    default=500,
    type=click.IntRange(10, 60000),
    help="drops, collapse: how long the sender sends.",
)
@click.option(
    "--hold-ns",
    default=0,
    type=click.IntRange(0, 100_000),
    help="drops: hold each message so long in place of a sum.",
)
@json_option
@plot_option
def bench_rtc(
    experiments: str,
    backends: str,
    adding: str,
    receivers: str,
    rates: str,
    loads: str,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Measure run to completion: handlers, and kernel bypass.

    Brings up labs of two nodes, which have one core each. Within each repeat, runs that are
    compared follow each other. Shows medians, ranges and the goals. Learning is `bench learn`.

    \b
    hold   Node 0 holds each message for a time, then sends it back. Throughput against that time,
           for frames of 64 and 128 bytes (dpdk on memif; the client is plain DPDK, window 128).
    sum    Node 0 adds up 32 numbers of 16 bits per message, 1, 10 or 100 times, and returns the
           sum, over every backend. dpdk uses memif, the others veth. tcp calls send() once per
           message, without delay; tcp:batch=1 once per burst. Also the handler's ns per message.
    echo   Node 0 sends 64-byte frames back at once; compared with a plain DPDK loop.

    \b
    Only if --experiments names them, with a sender that has a rate of its own and never waits:
    drops     What receivers lose at each rate, their CPU time a message, and the latency.
    collapse  sum at several times the rate of a closed loop: what is handled must not fall.
    Receivers: socket (a program that sleeps on a UDP socket), or an rtc node over udp, raw, af_xdp
    or dpdk. pipeline, only if named: over dpdk, one thread receives, and a second one computes.

    \b
    Examples:
      hikyaku bench rtc --plot out/rtc.png --json out/rtc.json
      hikyaku bench rtc --experiments sum --backends tcp,dpdk --window 128
      hikyaku bench rtc --experiments drops --rates 0.1,1 --repeats 1
    """
    from ...bench.common.arguments import parse_names, parse_numbers
    from ...bench.rtc import report, run
    from ...bench.rtc.plot import draw

    plan = run.Plan(
        experiments=parse_names(experiments, run.EXPERIMENTS, "experiment"),
        backends=parse_names(backends, run.BACKENDS, "backend"),
        adding=tuple(parse_names(adding, tuple(run.ADDING), "way of adding")),
        receivers=tuple(parse_names(receivers, tuple(run.RECEIVERS), "receiver")),
        rates=parse_numbers(rates, MOST_RATE, "rate"),
        loads=parse_numbers(loads, MOST_LOAD, "load"),
        **settings,
    )
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        plot_file,
        programs=[
            "bench/rtc_forward",
            "bench/rtc_load",
            "examples/sum",
        ],
        judge=lambda found: report.judge(found["rows"]),
        draw=draw,
    )
