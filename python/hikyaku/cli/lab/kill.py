# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab kill`: deliberate faults."""

from typing import TYPE_CHECKING

import click

from ...called import as_typed
from .common import lab_option

if TYPE_CHECKING:
    from ...lab.kill import Killed


@click.group("kill")
def lab_kill() -> None:
    """Break a part of a lab, to test how the others react.

    Kills only processes in the lab's own namespaces.

    \b
    Examples:
      hikyaku lab kill rank 1                 SIGKILL to rank 1 of the running job
      hikyaku lab kill daemon node0           SIGKILL to hikyakud on node0
      hikyaku lab kill wire node1 --seconds 2     unplug node1 for two seconds
    """


def _report(killed: "Killed") -> None:
    click.echo(f"killed process {killed.pid} on {killed.node}: {killed.what}")


@lab_kill.command("rank")
@click.argument("number", type=click.IntRange(min=0))
@click.option("--run", metavar="ID", help="The run, if several are active.")
@lab_option
def lab_kill_rank(number: int, run: str | None, name: str) -> None:
    """SIGKILL rank NUMBER of the job that runs in the lab.

    Kills the process that Open MPI's daemon started, and its children, but not a hikyakud that the
    rank started. If the program spawned further jobs, the rank is one of the first job.

    \b
    Example, in two terminals:
      hikyaku lab mpirun -np 4 ./solver
      hikyaku lab kill rank 3
    """
    from ...lab import Lab, kill

    _report(kill.kill_rank(Lab.find(name).topology, number, run))


@lab_kill.command("daemon")
@click.argument("node")
@click.option("--name", "daemon", metavar="NAME", help="The daemon, if several run on the node.")
@lab_option
def lab_kill_daemon(node: str, daemon: str | None, name: str) -> None:
    """SIGKILL hikyakud on NODE.

    The lock in the node's run directory (HIKYAKU_RUNDIR) identifies the daemon. The daemon of a job
    is named job-KEY-NODE, that of an administrator 'default'.

    \b
    Examples:
      hikyaku lab kill daemon node0
      hikyaku lab kill daemon node0 --name default
    """
    from ...lab import Lab, kill

    found = Lab.find(name)
    _report(kill.kill_daemon(found.node(node), found.node_directory(node) / "run", daemon))


@lab_kill.command("wire")
@click.argument("node")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Bring the wire back after this time.  [it stays down]",
)
@click.option(
    "--link", metavar="LINK", help="Only this link, such as tcp0.  [default: all data links]"
)
@lab_option
def lab_kill_wire(node: str, seconds: float | None, link: str | None, name: str) -> None:
    """Unplug NODE: take its data links down.

    Frames to and from the node are lost without notice. Ctrl-C brings the wire back early. A memif
    wire is shared memory and has no link; --link tcp0 unplugs TCP on any wire.

    \b
    Examples:
      hikyaku lab kill wire node1 --seconds 2
      hikyaku lab kill wire node1
      hikyaku lab exec node1 ip link set hk0 up
    """
    from ...lab import Lab, kill, network

    found = Lab.find(name)
    place = found.node(node)
    links = kill.wire_links(found.topology, place, link)
    what = ", ".join(links)
    if seconds is None:
        kill.take_down(place, links)
        click.echo(f"{node}: {what} down; to bring it back:")
        for command in [c for link in links for c in network.commands_up(found.topology, link)]:
            click.echo(as_typed(f"  hikyaku lab exec --lab {name} {node} ip {command}"))
        return
    click.echo(f"{node}: {what} down for {seconds:g} s")
    kill.cut_wire(found.topology, place, links, seconds)
    click.echo(f"{node}: {what} up")
