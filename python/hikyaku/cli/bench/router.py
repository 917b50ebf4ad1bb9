# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench router`."""

from pathlib import Path

import click
from rich.console import Console

from ..options import json_option, repeats_option
from .common import check_outputs, progress_bar, save


@click.command("router")
@click.option(
    "--l3fwd",
    "source",
    type=click.Path(path_type=Path),
    default=Path("/usr/share/dpdk/examples/l3fwd"),
    metavar="DIR",
    help="Source of DPDK's L3 example (Debian: dpdk-doc).",
)
@repeats_option(5)
@click.option(
    "--batches",
    type=click.IntRange(10, 100_000),
    default=500,
    help="Timed batches of 8192 frames per run.",
)
@click.option(
    "--prefixes",
    type=click.IntRange(1000, 1_000_000),
    default=1_000_000,
    help="Prefixes of the table of Pktpit's host.",
)
@json_option
def bench_router(
    source: Path, repeats: int, batches: int, prefixes: int, json_file: Path | None
) -> None:
    """Compare routers, emulated NICs and DPDK's L3 example.

    The CPU's router has mode bounce, and 64-byte frames come by memif. It and the example run in
    turn, pinned to one CPU; the same program loads them from another CPU. The rate is that of the
    upper tenth of batches, and the median of the repeats. `refused` is the share of frames that the
    router did not take at once; near 0, the load generator is the bottleneck.

    Emulated NICs are processes that move frames to each other by shared memory (variants Wr, Rd, Bn
    and Pktpit). They have no wires. So the example is measured without wires as well.

    Then loads, looks up and updates a table of a million prefixes on one CPU (fib_bench).
    """
    from ...bench.common.goals import withhold
    from ...bench.router import report
    from ...bench.router.run import measure

    check_outputs(json_file)
    with progress_bar() as progress:
        result = measure(source, repeats, batches, prefixes, progress)
    withhold(result)
    report.show(result, Console(emoji=False))
    save(result, json_file)
