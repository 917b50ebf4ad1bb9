# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench protocols`."""

from functools import partial
from pathlib import Path

import click

from ..options import json_option, plot_option, repeats_option, sample_option
from .common import run_suite


@click.command("protocols")
@click.option(
    "--carriers",
    default="tcp,inline,hybrid,split,daemon",
    help="tcp, and polling modes of Hikyaku (btl_hikyaku_mode).",
)
@click.option(
    "--sizes", default="256..64K", help="Bytes, such as 2048,64K, or a range of powers of two."
)
@repeats_option(3, "Runs of each curve; the table shows the median.")
@sample_option(30, "Duration of each timing.")
@json_option
@plot_option
def bench_protocols(
    carriers: str,
    sizes: str,
    repeats: int,
    sample_ms: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Measure latency with a forced protocol: eager or rendezvous.

    Open MPI sends a message at once (eager), or asks first and sends it when the receive is there
    (rendezvous). Brings up a lab of two nodes with huge pages on the memif wire. Measures both over
    TCP and over Hikyaku in each mode, beside the protocol that Open MPI chooses. Sizes are from 256
    bytes, since shorter messages are always eager, to 64 KiB, since 16 frames hold little more.

    \b
    Examples:
      hikyaku bench protocols --plot out/protocols.png
      hikyaku bench protocols --carriers tcp,split --sizes 2K,16K,64K
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.protocols import report, run
    from ...bench.protocols.plot import draw
    from ...errors import HikyakuError

    chosen = parse_sizes(sizes)
    if min(chosen) < run.LEAST or max(chosen) > run.MOST:
        raise HikyakuError(
            f"--sizes: a protocol can be forced from {run.LEAST} to {run.MOST} bytes",
            "--sizes 256..64K",
        )
    names = parse_names(carriers, run.CARRIERS, "carrier")
    plan = run.Plan(names, chosen, repeats, sample_ms)
    run_suite(
        partial(run.run, plan),
        report.show,
        json_file,
        plot_file,
        programs=["bench/mpi_bench"],
        draw=draw,
    )
