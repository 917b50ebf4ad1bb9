# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench host`: parses, measures with a progress bar, shows, saves."""

from pathlib import Path

import click
from rich.console import Console

from ..checkout import built
from ..errors import HikyakuError
from .common import check_outputs, json_option, progress_bar, repeats_option, save


@click.command("host")
@click.option(
    "--hosts",
    default="inline,hybrid",
    show_default=True,
    help="Host modes (btl_hikyaku_host): inline, hybrid, split, daemon.",
)
@click.option(
    "--metrics",
    default="latency,bandwidth,busy,pickup,flood,idle,attach",
    show_default=True,
    help="What to measure; see above.",
)
@repeats_option(3, "How often each mode runs; the median is shown.")
@click.option(
    "--messages",
    default=20000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="busy: how many are sent to the rank that computes.",
)
@click.option(
    "--compute-ms",
    default=200,
    show_default=True,
    type=click.IntRange(0, 60000),
    help="busy: how long it computes.",
)
@click.option(
    "--idle-seconds",
    default=10,
    show_default=True,
    type=click.IntRange(1, 600),
    help="idle: how long the CPU is looked at.",
)
@click.option(
    "--huge",
    "huge_mb",
    default=512,
    show_default=True,
    help="Megabytes of huge pages for each node.",
)
@click.option(
    "--mca",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of Open MPI for every run, as mpirun's; may be given again.",
)
@json_option
def bench_host(
    hosts: str,
    metrics: str,
    repeats: int,
    messages: int,
    compute_ms: int,
    idle_seconds: int,
    huge_mb: int,
    mca: tuple[tuple[str, str], ...],
    json_file: Path | None,
) -> None:
    """Who polls (the host modes), side by side, in one run.

    Brings up a lab of two nodes with huge pages on the memif wire; within each repeat each metric
    runs in every mode, one after the other, with one core a node. Shows medians, the range, and
    the ratio to inline; then which goals are met.

    \b
    latency    8 B, and
    bandwidth  1 MiB, as in `hikyaku bench mpi`.
    busy       A rank computes; another one sends it messages of 256 B meanwhile. When was the
               last MPI_Send back; when had the last message left (so that all but a window of
               them are acknowledged); how many packets were sent again.
    pickup     A rank says that it leaves MPI, and computes; eight messages are sent to it at once.
               Taken in: when the rank, which does not enter MPI, sees the BTL's counter of
               messages that were kept for it grow. Acknowledged: when the sender, whose window is
               of eight packets, sees a ninth one leave.
    flood      Two ranks a node: one pair plays ping-pong, first alone, then while one of the other
               pair floods its partner, which sleeps 1 ms after every 16 messages. The flood is
               numbered and checked. All ranks yield, since they share cores. Not for inline.
    idle       CPU of hikyakud and its poller together, from /proc, in per cent of a core: all
               ranks poll; all ranks sleep; a daemon without ranks. Not for inline.
    attach     What a rank does from the start of the BTL until the poller may serve it, with a
               daemon that runs and with one that has to be started. Not for inline.

    \b
    Examples:
      hikyaku bench host
      hikyaku bench host --metrics latency,busy --repeats 5 --json out/host.json
      hikyaku bench host --hosts hybrid --metrics busy --mca btl_hikyaku_window 256
    """
    from ..bench import driver, host, host_report

    plan = host.Plan(
        metrics=driver.parse_names(metrics, host.METRICS, "metric"),
        modes=driver.parse_names(hosts, host.MODES, "host mode"),
        repeats=repeats,
        messages=messages,
        compute_ms=compute_ms,
        idle_seconds=idle_seconds,
        huge_mb=huge_mb,
        mca=dict(mca),
    )
    if not plan.steps():
        raise HikyakuError(
            f"{metrics} cannot be measured in mode {hosts}",
            "add a mode with a daemon: --hosts inline,hybrid",
        )
    check_outputs(json_file)
    for program in ("mpi_bench", "host_bench", "attach_bench"):
        built(f"bench/{program}")
    with progress_bar() as progress:
        document = host.run(plan, progress)
    document["goals"] = host_report.goals(document["rows"])
    host_report.show(document, Console())
    save(document, json_file)
