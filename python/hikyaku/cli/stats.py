# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats`: what the ranks of this node sent, received, lost and waited for."""

import json

import click

from ..called import as_typed
from ..stats.ask import nobody, places, take
from ..stats.tables import totals, totals_inline
from .options import json_flag, lab_option, wide_console

name_option = click.option("--name", help="Only this daemon.")
COLUMNS = """
\b
Columns:
  rank, job, pid  the rank in MPI_COMM_WORLD, the job's key, the process
  polls           the process that receives the rank's frames now: rank,
                  poller (of hikyakud), thread (of the rank), or nobody
  no poll         share of the poller's polls that found the rank outside of MPI
  tx, rx          packets sent and received, each counted once; B: bytes
  again, lost     packets sent again; packets declared lost
  dups            packets received again
  stall           sends that waited, since the receiver gave no credit
  stored          frames and messages that the progress proxy stored for the rank
  backlog         frames that wait for the rank
  dead            peers that no longer answer, and were given up
  frames, full    frames through the rank's queues; those that found no space
  pipe in, out    frames that wait for the rank, and for hikyakud
hikyaku(1) names the counter of each column.
"""
nodes_option = lab_option("The nodes of this lab.  [default: this node]", None, "lab")
node_option = click.option("--node", metavar="NODE", help="Only this node of the lab.")


@click.command(epilog=COLUMNS)
@nodes_option
@node_option
@name_option
@json_flag
@click.option("--prometheus", "as_prometheus", is_flag=True, help="Print Prometheus' text format.")
def stats(
    lab: str | None, node: str | None, name: str | None, as_json: bool, as_prometheus: bool
) -> None:
    """Show what ranks have sent, received, lost and waited for.

    Shows all daemons of this user on this node, and ranks of mode inline. The exit status is 1 if
    there is neither a daemon nor a rank.

    \b
    Examples:
      hikyaku stats
      hikyaku stats --lab default --node node0
      hikyaku stats --name default --json
      hikyaku stats --prometheus > /var/lib/node_exporter/hikyaku.prom
    """
    if as_json and as_prometheus:
        raise click.UsageError("--json and --prometheus exclude each other")
    lab = lab or ("default" if node else None)
    where = places(lab, node)
    sample = take(where, name)
    for text in sample.complaints:
        click.echo(as_typed(f"hikyaku: {text}"), err=True)
    if as_json:
        both = {"schema": 1, "daemons": sample.daemons, "ranks": sample.ranks}
        click.echo(json.dumps(both, indent=1))
    elif as_prometheus:
        from ..stats.prometheus import prometheus

        click.echo(prometheus(sample), nl=False)
    else:
        console = wide_console(150, highlight=False)
        for daemon in sample.daemons:
            console.print(totals(daemon))
        if sample.ranks:
            console.print(totals_inline(sample.ranks))
    if not sample.daemons and not sample.ranks:
        raise nobody("stats", where, lab)
