# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab up`, `down` and `status`."""

import json

import click

from ...called import as_typed
from ...checkout import LAUNCHER
from ...lab.topology import DEFAULT_MTU, WIRES
from ..options import json_flag
from .common import lab_option


@click.command("up")
@click.option("--nodes", type=int, help="Number of nodes.  [default: 2, or that of the topology]")
@click.option(
    "--wire",
    type=click.Choice(WIRES),
    default="memif",
    help="memif: a user-space wire, shared memory in place of a NIC. "
    "veth: a kernel wire, used through AF_XDP. udp: the same, used through UDP sockets, without "
    "privileges. routed: as udp, but with two routers between the nodes, and two ways between "
    "these. ovs: veth links to OpenFlow switches.",
)
@click.option(
    "--topology",
    metavar="SHAPE",
    help="The switches of wire ovs: leaf-spine:SPINESxLEAVESxNODES, fat-tree:PORTS, or a file.",
)
@click.option("--ranks-per-node", default=1, help="Ranks of a node; on veth each has its own port.")
@click.option(
    "--ports",
    default=1,
    help="Ports of each rank, over which long messages are striped (not on ovs).",
)
@click.option("--mtu", default=DEFAULT_MTU, help="MTU of the kernel's wires.")
@click.option(
    "--huge", default=0, metavar="MB", help="Huge pages (2 MB each) for each node, in MB; 0: none."
)
@lab_option
def lab_up(
    nodes: int | None,
    wire: str,
    topology: str | None,
    ranks_per_node: int,
    ports: int,
    mtu: int,
    huge: int,
    name: str,
) -> None:
    """Bring a lab up.

    Each node is a network namespace with its own host name and cores. TCP has a separate wire
    (tcp0) of the same kind and MTU, so that TCP and Hikyaku do not disturb each other.

    Ranks that share a port through a daemon need huge pages. --huge reserves them in addition to
    those of the machine, and 'lab down' removes exactly these. On a node, HIKYAKU_HUGE_DIR is the
    directory of the pages, and HIKYAKU_RUNDIR that of the daemons.

    On wire ovs, all links of all nodes lead to switches of an Open vSwitch that belongs to the lab.
    They forward nothing until a controller runs: 'hikyaku sdn run --background --lab NAME'.
    leaf-spine:2x2x4 is two spines, two leaves, and four nodes on each leaf. A file is JSON:

    \b
      {"switches": ["a", "b"],
       "links": [{"ends": ["a", "b"], "mbit": 100}],
       "nodes": [{"switch": "a"}, {"switch": "b", "mbit": 100}]}

    mbit is optional: it limits the bandwidth of a link, in Mbit/s in each direction.

    \b
    Examples:
      hikyaku lab up --nodes 2 --wire memif
      hikyaku lab up --nodes 4 --wire veth --ranks-per-node 2
      hikyaku lab up --nodes 2 --ranks-per-node 4 --huge 512
      hikyaku lab up --wire veth --ports 4
      hikyaku lab up --wire ovs --topology leaf-spine:2x2x4
    """
    from ...lab import Lab

    if topology and nodes is not None:
        raise click.UsageError("--topology gives the number of nodes; leave out --nodes")
    made = Lab.up(
        2 if nodes is None else nodes, wire, ranks_per_node, mtu, name, huge, topology, ports
    )
    names = ", ".join(n.name for n in made.topology.nodes)
    click.echo(f"lab '{name}' is up: {names}; wire {wire}")
    for line in made.topology.sharing():
        click.echo(line)
    if topology:
        from ...lab.ready import start_command

        click.echo(as_typed(f"its switches need a controller: {start_command(name)}"))
    click.echo(as_typed(f"try: hikyaku lab mpirun --lab {name} -np 2 hostname"))


@click.command("down")
@lab_option
@click.option("--all", "every", is_flag=True, help="Remove every lab of this checkout.")
def lab_down(name: str, every: bool) -> None:
    """Remove a lab, or the leftovers of one that crashed. Safe to repeat."""
    from ...lab import down, down_all, not_up, other_labs

    gone = down_all() if every else down(name)
    for line in gone:
        click.echo(f"removed {line}")
    if not gone:
        click.echo("no lab is up" if every else f"{not_up(name)}; nothing to remove")
    if not every:
        for other in other_labs(name):
            end = f"{other.command} lab down --lab {name}"
            click.echo(f"another installation has a lab '{name}'; to end that one: {end}")


@click.command("status")
@lab_option
@json_flag
def lab_status(name: str, as_json: bool) -> None:
    """Show the nodes, their links and processes, and stale leftovers."""
    from ...lab import Lab

    status = Lab.find(name, shown=True).status()
    if as_json:
        click.echo(json.dumps(status, indent=1))
    else:
        _show(name, status)


def _show(name: str, status: dict) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(emoji=False)
    huge = f", {status['huge_mb']} MB of huge pages a node" if status["huge_mb"] else ""
    columns = ("node", "cores", "link", "state", "MAC", "XDP program")
    if status["launcher"] != str(LAUNCHER):
        click.echo(f"lab '{name}' belongs to {status['launcher']}")
    title = f"lab '{name}': wire {status['wire']}, MTU {status['mtu']}{huge}"
    table = Table(*columns, title=title)
    for node in status["nodes"]:
        cores = ",".join(map(str, node["cpus"]))
        first = True
        for link in node["links"]:
            table.add_row(
                node["name"] if first else "",
                cores if first else "",
                link["name"],
                "up" if link["up"] else "DOWN",
                link["mac"],
                str(link["xdp_program"] or ""),
            )
            first = False
    console.print(table)
    for proc in status["processes"]:
        where = proc["node"] or "outside"
        text = f"process {proc['pid']} on {where}: {escape(proc['command'])}"
        console.print(text, no_wrap=True, overflow="ellipsis")
    for line in status["stale"]:
        console.print(f"stale: {line} (removed by the next 'lab mpirun', and by 'lab down')")
