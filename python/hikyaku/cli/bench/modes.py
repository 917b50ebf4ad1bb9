# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench modes`."""

from functools import partial
from pathlib import Path

import click

from ...errors import HikyakuError
from ..options import json_option, repeats_option
from .common import run_suite


@click.command("modes")
@click.option(
    "--modes", default="inline,hybrid,split,daemon", help="Polling modes (btl_hikyaku_mode)."
)
@click.option(
    "--metrics",
    default="latency,bandwidth,busy,pickup,flood,idle,attach",
    help="Metrics; see above.",
)
@repeats_option(3, "Runs of each mode; the table shows the median.")
@click.option(
    "--messages",
    default=20000,
    type=click.IntRange(1, 10_000_000),
    help="busy: messages to the rank that computes.",
)
@click.option(
    "--compute-ms",
    default=200,
    type=click.IntRange(0, 60000),
    help="busy: duration of the computation.",
)
@click.option(
    "--flood-ms",
    default=500,
    type=click.IntRange(1, 60000),
    help="flood: duration without the flood; with it, six times that.",
)
@click.option(
    "--idle-seconds",
    default=10,
    type=click.IntRange(1, 600),
    help="idle: how long the CPU is measured.",
)
@click.option("--huge", "huge_mb", default=512, help="Huge pages of each node, in MB.")
@click.option(
    "--mca",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="An MCA parameter for every run; repeatable.",
)
@json_option
def bench_modes(
    modes: str,
    metrics: str,
    mca: tuple[tuple[str, str], ...],
    json_file: Path | None,
    **settings: int,
) -> None:
    """Compare the polling modes in one run.

    Brings up a lab of two nodes with huge pages on the memif wire. Within each repeat each metric
    runs in every mode, one after the other, with one core per node. Shows medians, ranges, ratios
    to inline, and the goals.

    \b
    latency    8 B, and
    bandwidth  1 MiB, as in `hikyaku bench mpi`.
    busy       A rank computes while another one sends it messages of 256 B. Measures when the last
               MPI_Send returned, when the last message left (all but a window of them are then
               acknowledged), and the number of resends.
    pickup     A rank leaves MPI and computes; another one sends it eight messages at once.
               Received: the BTL's backlog counter of the rank grows. Acknowledged: the sender,
               whose window has eight packets, can send a ninth one.
    flood      Two ranks per node. One pair plays ping-pong, first alone, then while the other pair
               floods: its receiver sleeps 1 ms after every 16 messages. The flood is numbered and
               checked. All ranks yield, since they share cores. Not for inline.
    idle       CPU of hikyakud and its poller, from /proc, in % of a core: all ranks poll; all ranks
               sleep; a daemon without ranks. Not for inline.
    attach     The time from the start of the BTL until the poller can act for the rank, with a
               running daemon and with one that must be started. Not for inline.

    \b
    Examples:
      hikyaku bench modes
      hikyaku bench modes --metrics latency,busy --repeats 5 --json out/modes.json
      hikyaku bench modes --modes hybrid --metrics busy --mca btl_hikyaku_window 256
    """
    from ...bench.common.arguments import parse_names
    from ...bench.modes import report, run

    plan = run.Plan(
        metrics=parse_names(metrics, run.METRICS, "metric"),
        modes=parse_names(modes, run.MODES, "mode"),
        mca=dict(mca),
        **settings,
    )
    if not plan.steps():
        raise HikyakuError(
            f"{metrics} cannot be measured in mode {modes}",
            "add a mode with a daemon: --modes inline,hybrid",
        )
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        programs=["bench/mpi_bench", "bench/modes_bench", "bench/attach_bench"],
        judge=lambda found: report.goals(found["rows"]),
    )
