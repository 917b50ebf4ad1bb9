# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench router`: parses, measures, shows."""

import json
from pathlib import Path

import click
from rich.console import Console


@click.command("router")
@click.option(
    "--l3fwd",
    "source",
    type=click.Path(path_type=Path),
    default=Path("/usr/share/dpdk/examples/l3fwd"),
    show_default=True,
    metavar="DIR",
    help="Source of DPDK's L3 example (Debian: dpdk-doc).",
)
@click.option("--repeats", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option(
    "--batches",
    type=click.IntRange(10, 100_000),
    default=500,
    show_default=True,
    help="How many times 8192 frames are timed in each.",
)
@click.option("--json", "as_json", is_flag=True, help="All runs, as JSON.")
def bench_router(source: Path, repeats: int, batches: int, as_json: bool) -> None:
    """Measure the router, mode bounce, against DPDK's L3 example: 64-byte frames on memif.

    Both run in turns, pinned to one CPU, loaded from another by the same program. The rate is that
    of the upper tenth of batches, the median of the repeats. `refused` is the share of frames that
    the router did not take at once: near 0 the load is what was measured, not the router.

    Then a table of a million prefixes is loaded, looked up and updated on one CPU (fib_bench).
    """
    from ..bench import goals
    from ..bench.router import measure

    result = measure(source, repeats, batches)
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(f"{'64-byte frames, memif':24} {'million/s':>10} {'refused':>8}")
    for who in ("l3fwd", "bounce"):
        click.echo(f"{who:24} {result[who]:10.2f} {result['refused'][who]:8.2f}")
    click.echo(f"bounce is {result['share']:.0%} of l3fwd")
    Console().print(goals.table(result["goals"]))
