# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench compare`."""

from pathlib import Path

import click
from rich.console import Console

from ..options import json_option, sample_option
from .common import check_outputs, save


@click.command("compare")
@click.argument("old")
@click.argument("new")
@click.option("--rounds", default=20, type=click.IntRange(1, 99))
@click.option("--sizes", default="8,64K,1M", help="Bytes of the messages.")
@click.option(
    "--metrics", default="latency_us,bandwidth_MBps,messages_per_s", help="As of bench mpi."
)
@click.option("--wire", default="memif", type=click.Choice(["memif", "veth", "udp"]))
@sample_option(30)
@json_option
def bench_compare(old: str, new: str, json_file: Path | None, **settings: object) -> None:
    """Is commit NEW slower than commit OLD?

    Builds both commits beside the build of this checkout, and runs `bench mpi` of each in turn. The
    table shows medians and ranges over the rounds, and what the better quarter of them reached.

    \b
    Example:
      hikyaku bench compare HEAD~10 HEAD --rounds 40 --sizes 8
    """
    from ...bench.compare.report import show
    from ...bench.compare.run import Plan, compare

    check_outputs(json_file)
    document = compare(Plan((old, new), **settings))
    show(document, Console(emoji=False))
    save(document, json_file)
