# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench sdn`: parses, measures with a progress bar, shows, saves."""

from pathlib import Path

import click
from rich.console import Console

from .common import check_outputs, json_option, plot_option, progress_bar, repeats_option, save


@click.command("sdn")
@click.option("--experiments", metavar="NAMES", help="What to measure; see above.  [all]")
@click.option(
    "--sizes",
    default="1..2M",
    show_default=True,
    help="tags: bytes, as in 8,2048,64K, or a range of powers of two.",
)
@repeats_option(5, "How often each thing runs; the median is shown.")
@click.option(
    "--sample-ms",
    default=5,
    show_default=True,
    type=click.IntRange(1, 10000),
    help="tags: how long each single timing lasts.",
)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Of what is drawn."
)
@json_option
@plot_option
def bench_sdn(
    experiments: str | None,
    sizes: str,
    repeats: int,
    sample_ms: int,
    seed: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """A network that knows the communication pattern: what it gains, and what it costs.

    \b
    tags   Latency and bandwidth of MPI over kernel TCP with and without tags, through three
           switches that restore the address: in one job, whose tags are switched on and off for
           each of many short timings, 40 of either a repeat (fewer where 2 s are not enough).
    tags_direct
           The same on one wire between two nodes, where the receiving node restores it; and how
           long the tagger's programs take for a packet.
    bcast  MPI_Bcast of 1 MiB to 8 nodes on leaf-spine:2x2x4, by multicast and by Open MPI's
           binomial tree, without loss and where each link loses 1 %: what the busiest link carries.
    spread Allreduce on two spines, 20 placements of 8 ranks: flows on the busiest link, against
           static hashing and the fewest that any routing can have. Counted on the controller's own
           tables.
    failover
           1000 frames a second, and a cable that is cut: how many are lost.
    entries
           Flow entries of a job, against its ranks.
    scale  Time to compute 100 switches and 1000 hosts.

    \b
    Examples:
      hikyaku bench sdn --experiments tags --json out/sdn.json --plot out/sdn.png
      hikyaku bench sdn --experiments bcast,spread,failover --repeats 3
      hikyaku bench sdn --experiments tags --sizes 8,64K --repeats 21
    """
    from ..bench import driver, sdn, sdn_report
    from ..bench.sdn_plot import draw

    known = tuple(sdn.experiments())
    names = driver.parse_names(experiments or ",".join(known), known, "experiment")
    plan = sdn.Plan(repeats, driver.parse_sizes(sizes), sample_ms, seed)
    check_outputs(json_file, plot_file)
    with progress_bar() as progress:
        document = sdn.run(names, plan, progress)
    sdn_report.show(document, Console())
    save(document, json_file, plot_file, draw)
