# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab …`: parses, calls the lab, prints."""

import json
import os
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .cli_guest import lab_p2p
from .errors import HikyakuError
from .lab.topology import DEFAULT_MTU

if TYPE_CHECKING:
    from .lab import Lab
    from .lab.kill import Killed

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
@click.option("--nodes", type=int, help="How many nodes.  [default: 2, or as the topology says]")
@click.option(
    "--wire",
    type=click.Choice(["memif", "veth", "ovs"]),
    default="memif",
    show_default=True,
    help="memif: a user-space wire, shared memory in place of a NIC. "
    "veth: a kernel wire, used through AF_XDP. ovs: the same to OpenFlow switches.",
)
@click.option(
    "--topology",
    metavar="SHAPE",
    help="The switches of wire ovs: leaf-spine:SPINESxLEAVESxNODES, fat-tree:PORTS, or a file.",
)
@click.option(
    "--ranks-per-node",
    default=1,
    show_default=True,
    help="Ranks that a node takes; on veth each has a port of its own.",
)
@click.option(
    "--ports",
    default=1,
    show_default=True,
    help="Ports that each rank has to each other, for long messages to share (not on ovs).",
)
@click.option("--mtu", default=DEFAULT_MTU, show_default=True, help="MTU of the kernel's wires.")
@click.option(
    "--huge",
    default=0,
    show_default=True,
    metavar="MB",
    help="Huge pages (of 2 MB) for each node, in MB; 0: none.",
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

    Each node is a network namespace with its own host name and cores. TCP gets a wire of its own
    (tcp0) of the same kind and MTU in every lab, so that both can be measured without a trace of
    the other.

    Ranks that share a port, by a daemon on each node, need huge pages. --huge adds them to what the
    machine has reserved, and 'lab down' takes exactly these away again. Programs on a node find
    them by HIKYAKU_HUGE_DIR, and its daemons by HIKYAKU_RUNDIR.

    On wire ovs, all links of all nodes lead to the switches of an Open vSwitch that is the lab's
    own. They forward nothing until a controller tells them to: 'hikyaku sdn run --lab NAME'.
    leaf-spine:2x2x4 is two spines, two leaves, and four nodes on each leaf. A file is JSON:

    \b
      {"switches": ["a", "b"],
       "links": [{"ends": ["a", "b"], "mbit": 100}],
       "nodes": [{"switch": "a"}, {"switch": "b", "mbit": 100}]}

    where mbit limits a link in both directions, and may be left out.

    \b
    Examples:
      hikyaku lab up --nodes 2 --wire memif
      hikyaku lab up --nodes 4 --wire veth --ranks-per-node 2
      hikyaku lab up --nodes 2 --ranks-per-node 4 --huge 512
      hikyaku lab up --wire veth --ports 4
      hikyaku lab up --wire ovs --topology leaf-spine:2x2x4
    """
    from .lab import Lab

    if topology and nodes is not None:
        raise click.UsageError("--topology says how many nodes there are; leave --nodes away")
    made = Lab.up(
        2 if nodes is None else nodes, wire, ranks_per_node, mtu, name, huge, topology, ports
    )
    names = ", ".join(n.name for n in made.topology.nodes)
    click.echo(f"lab '{name}' is up: {names}; wire {wire}")
    if topology:
        click.echo(f"its switches wait for a controller: hikyaku sdn run --lab {name}")
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
    huge = f", {status['huge_mb']} MB of huge pages a node" if status["huge_mb"] else ""
    table = Table(title=f"lab '{name}': wire {status['wire']}, MTU {status['mtu']}{huge}")
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
      --tag           each frame's destination address tells the MPI function and the ranks it
                      is part of (docs/tag.md). With --tcp the kernel writes it, and nodes give
                      tagged frames their address back, as the last switch would
                      (docs/tagger.md); without, the ranks write it, on wire ovs with its
                      controller alone, and Bcast is a multicast (docs/bcast.md)
      --attach WAY    with --tcp --tag: tcx, or clsact, as on kernels before 6.6
      --host MODE     who polls: inline, the rank itself; hybrid, the rank, and while it
                      computes a polling process of its node; daemon, that alone; split,
                      that for messages and the rank for bulk (all three need
                      'lab up --huge'); auto
      --pool POP      receive buffers in this memory, as pop:huge:size=64M (docs/p2p.md);
                      not over TCP, and in mode inline alone
      --lab NAME      in which lab  [default: $HIKYAKU_LAB or 'default']
      --help          this text; 'mpirun --help' has the others

    \b
    Examples:
      hikyaku lab mpirun -np 2 ./ring
      hikyaku lab mpirun --tcp -np 2 ./ring
      hikyaku lab mpirun --host hybrid -np 2 ./ring
      hikyaku lab mpirun -np 4 --map-by slot -x OMP_NUM_THREADS=1 ./solver input.txt
      hikyaku lab mpirun -np 2 --mca btl_base_verbose 100 ./ring
      HIKYAKU_RTC_BACKEND=raw hikyaku lab mpirun -np 2 build/examples/sum
    """
    from .lab import Job, Lab
    from .lab.openmpi import pool_settings, take_lab_options

    flags, rest = take_lab_options(list(arguments))
    if flags.help or not rest:
        click.echo(ctx.get_help())
        return
    name = flags.lab or os.environ.get("HIKYAKU_LAB") or "default"
    result = Lab.find(name).launch(
        Job(
            rest,
            tcp=flags.tcp,
            host=flags.host,
            tag=flags.tag,
            attach=flags.attach,
            env=pool_settings(flags),
            capture=False,
        )
    )
    code = result.returncode
    sys.exit(code if code >= 0 else 128 - code)


lab.add_command(lab_p2p)


# ---- the links between switches ------------------------------------------------------------------


def _switched(name: str) -> "Lab":
    from .lab import Lab

    found = Lab.find(name)
    if found.topology.wiring is None:
        raise HikyakuError(
            f"lab '{name}' has no switches",
            "hikyaku lab up --wire ovs --topology leaf-spine:2x2x4; or see 'lab kill wire'",
        )
    return found


@lab.command("links")
@lab_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def lab_links(name: str, as_json: bool) -> None:
    """Show the links of the switches (wire ovs), and what each has carried.

    A link is called by its two ends. Counters are those of its ports since the lab came up.
    """
    from .lab import links

    rows = links.counters(_switched(name).topology)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table(title=f"links of lab '{name}'")
    what = ("frames", "bytes", *(["lost"] if any(links.lost(row) for row in rows) else []))
    for column in ("link", "state", *(f"{w} {way}" for way in ("there", "back") for w in what)):
        table.add_column(
            column, no_wrap=column == "link", justify="right" if " " in column else "left"
        )
    for row in rows:
        counts = [str(row[way][w]) for way in ("a_to_b", "b_to_a") for w in what]
        table.add_row(row["link"], "up" if row["up"] else "CUT", *counts)
    Console().print(table)


@lab.command("cut")
@click.argument("link")
@lab_option
def lab_cut(link: str, name: str) -> None:
    """Cut the cable of LINK (wire ovs).

    Both ends see at once that it is down. 'hikyaku lab links' names the links; 'hikyaku lab mend'
    brings it back. A node's link takes all its interfaces along.

    \b
    Example:
      hikyaku lab cut leaf0-spine1
    """
    from .lab import links

    cut = links.set_link(_switched(name).topology, link, up=False)
    click.echo(f"link {cut.name} is cut; to mend it: hikyaku lab mend --lab {name} {cut.name}")


@lab.command("mend")
@click.argument("link")
@lab_option
def lab_mend(link: str, name: str) -> None:
    """Mend the cable of LINK that 'lab cut' has cut."""
    from .lab import links

    mended = links.set_link(_switched(name).topology, link, up=True)
    click.echo(f"link {mended.name} is up")


@lab.command("lose")
@click.argument("percent", type=click.FloatRange(0, 100))
@click.argument("link", nargs=-1)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Of what is drawn."
)
@lab_option
def lab_lose(percent: float, link: tuple[str, ...], seed: int, name: str) -> None:
    """Have each LINK (wire ovs) lose PERCENT of its frames, at random; 0: none any more.

    Without a LINK, all of them do. Each direction loses by itself, and the n-th frame of a seed is
    lost in every run. 'hikyaku lab links' counts them.

    \b
    Examples:
      hikyaku lab lose 1
      hikyaku lab lose 0.1 leaf0-spine1 node0-leaf0
      hikyaku lab lose 0
    """
    from .lab import loss

    topology = _switched(name).topology
    chosen = [topology.wiring.link(each) for each in link] or topology.wiring.all
    loss.lose(topology, chosen, percent / 100, seed)
    click.echo(f"{len(chosen)} links lose {percent:g} % of their frames")


# ---- faults on purpose ---------------------------------------------------------------------------


@lab.group("kill")
def lab_kill() -> None:
    """Break something in a lab, to see what the others make of it.

    Only what lives in the lab's own namespaces is ever killed.

    \b
    Examples:
      hikyaku lab kill rank 1                 SIGKILL to rank 1 of the running job
      hikyaku lab kill daemon node0           SIGKILL to hikyakud on node0
      hikyaku lab kill wire node1 --seconds 2     unplug node1 for two seconds
    """


def _tell(killed: "Killed") -> None:
    click.echo(f"killed process {killed.pid} on {killed.node}: {killed.what}")


@lab_kill.command("rank")
@click.argument("number", type=click.IntRange(min=0))
@click.option("--run", metavar="ID", help="Of which run, if several are under way.")
@lab_option
def lab_kill_rank(number: int, run: str | None, name: str) -> None:
    """SIGKILL rank NUMBER of the job that runs in the lab.

    The rank is the process that Open MPI's daemon started, with what it started itself; a daemon
    that a rank has started is not part of it. Of programs that spawn others, it is a rank of
    the first one.

    \b
    Example, in two terminals:
      hikyaku lab mpirun -np 4 ./solver
      hikyaku lab kill rank 3
    """
    from .lab import Lab, kill

    _tell(kill.kill_rank(Lab.find(name).topology, number, run))


@lab_kill.command("daemon")
@click.argument("node")
@click.option("--name", "daemon", metavar="NAME", help="Which, if several run on the node.")
@lab_option
def lab_kill_daemon(node: str, daemon: str | None, name: str) -> None:
    """SIGKILL hikyakud on NODE.

    It is found by the lock that it holds in the node's run directory (HIKYAKU_RUNDIR). A job's
    daemon is called job-KEY-NODE there, an administrator's 'default'.

    \b
    Examples:
      hikyaku lab kill daemon node0
      hikyaku lab kill daemon node0 --name default
    """
    from .lab import Lab, kill

    found = Lab.find(name)
    _tell(kill.kill_daemon(found.node(node), found.node_directory(node) / "run", daemon))


@lab_kill.command("wire")
@click.argument("node")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="For how long; waits, then brings the wire back. Without it, the wire stays down.",
)
@click.option("--link", metavar="LINK", help="This link alone, as tcp0.  [default: all hk* links]")
@lab_option
def lab_kill_wire(node: str, seconds: float | None, link: str | None, name: str) -> None:
    """Unplug NODE: take its data links down (veth).

    Frames to and from the node are lost meanwhile, and nobody is told. Ctrl-C brings the wire back
    early. A memif wire is memory that two processes share and has no link; --link tcp0 unplugs
    TCP in labs of both kinds.

    \b
    Examples:
      hikyaku lab kill wire node1 --seconds 2
      hikyaku lab kill wire node1
      hikyaku lab exec node1 ip link set hk0 up
    """
    from .lab import Lab, kill

    found = Lab.find(name)
    place = found.node(node)
    links = kill.wire_links(found.topology, place, link)
    what = ", ".join(links)
    if seconds is None:
        kill.set_links(place, links, up=False)
        click.echo(f"{node}: {what} down; to bring it back:")
        for each in links:
            click.echo(f"  hikyaku lab exec --lab {name} {node} ip link set {each} up")
        return
    click.echo(f"{node}: {what} down for {seconds:g} s")
    kill.cut_wire(place, links, seconds)
    click.echo(f"{node}: {what} up")
