# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab …`: parses, calls the lab, prints."""

import json
import os
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .lab.topology import DEFAULT_MTU

lab_option = click.option(
    "--lab",
    "name",
    default="default",
    show_default=True,
    envvar="HIKYAKU_LAB",
    metavar="NAME",
    help="Which lab; several may be up beside each other.",
)


@click.group()
def lab() -> None:
    """A cluster on this machine: network namespaces as nodes.

    \b
    Example:
      hikyaku lab up --nodes 2 --wire memif
      hikyaku lab mpirun -np 2 ./program
      hikyaku lab exec node1 ip address
      hikyaku lab status
      hikyaku lab down
    """


@lab.command("up")
@click.option("--nodes", default=2, show_default=True, help="How many nodes.")
@click.option(
    "--wire",
    type=click.Choice(["memif", "veth"]),
    default="memif",
    show_default=True,
    help="memif: a user-space wire, shared memory in place of a NIC. "
    "veth: a kernel wire, used through AF_XDP.",
)
@click.option(
    "--ranks-per-node", default=1, show_default=True, help="Data ports of each node (veth)."
)
@click.option("--mtu", default=DEFAULT_MTU, show_default=True, help="MTU of the kernel's wires.")
@lab_option
def lab_up(nodes: int, wire: str, ranks_per_node: int, mtu: int, name: str) -> None:
    """Bring a lab up.

    Each node is a network namespace with its own host name and cores. TCP gets a wire of its own
    (tcp0) of the same kind and MTU in every lab, so that both can be measured without a trace of
    the other.

    \b
    Examples:
      hikyaku lab up --nodes 2 --wire memif
      hikyaku lab up --nodes 4 --wire veth --ranks-per-node 2
    """
    from .lab import Lab

    made = Lab.up(nodes, wire, ranks_per_node, mtu, name)
    names = ", ".join(n.name for n in made.topology.nodes)
    click.echo(f"lab '{name}' is up: {names}; wire {wire}")
    click.echo("try: hikyaku lab mpirun -np 2 hostname")


@lab.command("down")
@lab_option
@click.option("--all", "every", is_flag=True, help="Every lab of this checkout.")
def lab_down(name: str, every: bool) -> None:
    """Remove a lab, or whatever a crash left of it. Safe to repeat."""
    from .lab import down, down_all

    gone = down_all() if every else down(name)
    for line in gone:
        click.echo(f"removed {line}")
    if not gone:
        click.echo("no lab is up" if every else f"lab '{name}' is not up; nothing to remove")


@lab.command("status")
@lab_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def lab_status(name: str, as_json: bool) -> None:
    """Show the nodes, their links, processes, and what is stale."""
    from .lab import Lab

    status = Lab.find(name).status()
    if as_json:
        click.echo(json.dumps(status, indent=1))
        return
    console = Console()
    table = Table(title=f"lab '{name}': wire {status['wire']}, MTU {status['mtu']}")
    for column in ("node", "cores", "link", "state", "MAC", "XDP program"):
        table.add_column(column)
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
        console.print(f"process {proc['pid']} on {where}: {escape(proc['command'])}")
    for line in status["stale"]:
        console.print(f"stale: {line} (removed by the next 'lab mpirun', and by 'lab down')")


@lab.command("exec", context_settings={"ignore_unknown_options": True})
@lab_option
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def lab_exec(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND as a process of NODE.

    \b
    Examples:
      hikyaku lab exec node1 ip address
      hikyaku lab exec node0 ping -c 3 node1-tcp
      hikyaku lab exec node0 bash
    """
    from .lab import Lab

    argv = Lab.find(name).exec_argv(node, list(command))
    os.execvp(argv[0], argv)


# Its arguments are Open MPI's: click must not touch them (it would split `-np` into letters).
@lab.command(
    "mpirun",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def lab_mpirun(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Run an MPI program in the lab: over Hikyaku, or with --tcp over TCP.

    Everything else is Open MPI's: any option of mpirun, then the program and its arguments. What
    you set wins over what the lab sets (hosts, mapping, binding, BTLs). Consecutive ranks are on
    different nodes unless you say --map-by slot.

    \b
    Options of the lab itself, before the program:
      --tcp           over TCP, on the lab's TCP wire
      --lab NAME      in which lab  [default: $HIKYAKU_LAB or 'default']
      --help          this text; 'mpirun --help' has the others

    \b
    Examples:
      hikyaku lab mpirun -np 2 ./ring
      hikyaku lab mpirun --tcp -np 2 ./ring
      hikyaku lab mpirun -np 4 --map-by slot -x OMP_NUM_THREADS=1 ./solver input.txt
      hikyaku lab mpirun -np 2 --mca btl_base_verbose 100 ./ring
    """
    from .lab import Lab
    from .lab.openmpi import take_lab_options

    flags, rest = take_lab_options(list(arguments))
    if flags.help or not rest:
        click.echo(ctx.get_help())
        return
    name = flags.lab or os.environ.get("HIKYAKU_LAB") or "default"
    result = Lab.find(name).mpirun_arguments(rest, tcp=flags.tcp, capture=False)
    code = result.returncode
    sys.exit(code if code >= 0 else 128 - code)
