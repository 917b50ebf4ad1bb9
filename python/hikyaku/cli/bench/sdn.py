# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench sdn`."""

from functools import partial
from pathlib import Path

import click

from ..options import json_option, plot_option, repeats_option, sample_option, seed_option
from .common import run_suite


@click.command("sdn")
@click.option("--experiments", metavar="NAMES", help="Experiments; see above.  [all]")
@click.option(
    "--sizes", default="1..2M", help="tags: bytes, such as 8,2048,64K, or a range of powers of two."
)
@repeats_option(5, "Runs of each case; the table shows the median.")
@sample_option(5, "tags: duration of each timing.")
@seed_option("Seed of random choices.")
@json_option
@plot_option
def bench_sdn(
    experiments: str | None,
    sizes: str,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: int,
) -> None:
    """Measure a network that knows the communication pattern.

    \b
    tags   Latency and bandwidth of MPI over kernel TCP with and without tags, through three
           switches that restore the address. One job alternates between both in many short
           timings: 40 of each per repeat, or as many as fit into 2 s.
    tags_one
           The same through one switch, with windows of 64 messages of any size.
    tags_direct
           The same over one wire between two nodes, where the receiving node restores the
           address; and the time of the tagger's programs per packet.
    bcast  MPI_Bcast of 1 MiB to 8 nodes on leaf-spine:2x2x4, by multicast and by Open MPI's
           binomial tree, without loss and with 1 % loss on each link: load of the busiest link.
    bcast_time
           The time of Bcasts of 256 KiB to 8 ranks, by multicast and by Open MPI's own. Links
           between switches have 20 Mbit/s.
    spread Allreduce on two spines, 20 placements of 8 ranks: flows on the busiest link, compared
           with static hashing and with the minimum of any routing. Counted on the controller's
           own tables.
    allreduce_time
           The time of Open MPI's Allreduce of 256 KiB on such links, with the controller's paths,
           with static hashing in its worst, middle and best case, and with one path.
    several_time
           The same with two jobs at once that call Allreduce, and with one program that calls
           Allreduce, Bcast and Alltoall in turn.
    failover
           1000 frames a second, while a link is cut: lost frames.
    entries
           Flow entries of a job, depending on its ranks.
    scale  Time to compute 100 switches and 1000 hosts.

    \b
    Examples:
      hikyaku bench sdn --experiments tags --json out/sdn.json --plot out/sdn.png
      hikyaku bench sdn --experiments bcast,spread,failover --repeats 3
      hikyaku bench sdn --experiments tags --sizes 8,64K --repeats 21
    """
    from ...bench.common.arguments import parse_names, parse_sizes
    from ...bench.sdn import report, run
    from ...bench.sdn.plot import draw

    known = tuple(run.experiments())
    names = parse_names(experiments or ",".join(known), known, "experiment")
    plan = run.Plan(sizes=parse_sizes(sizes), **settings)
    run_suite(partial(run.run, names, plan), report.show, json_file, plot_file, draw=draw)
