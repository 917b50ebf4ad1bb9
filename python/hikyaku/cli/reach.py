# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku reach`: tests whether two nodes reach each other."""

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..called import as_typed
from ..errors import HikyakuError
from .options import json_flag

if TYPE_CHECKING:
    from ..reach import Launch


@click.command()
@click.option("--port", "-p", required=True, metavar="SPEC", help="The port, on both nodes.")
@click.option("--mpirun", "command", default="mpirun", help="How to call mpirun, with its options.")
@click.option("--lab", "lab", metavar="NAME", help="Test the first two nodes of this lab.")
@click.option(
    "--timeout",
    default=10.0,
    type=click.FloatRange(0.1, 600),
    help="Seconds after which a node that receives nothing gives up.",
)
@json_flag
@click.argument("hosts", nargs=-1, metavar="[HOST_A HOST_B]")
def reach(
    port: str, command: str, lab: str | None, timeout: float, as_json: bool, hosts: tuple[str, ...]
) -> None:
    """Test whether two nodes reach each other by a port.

    Reports the largest frame that passes, loss and latency in both directions, and whether both
    nodes have the same release. For UDP sockets it runs an MPI program, and reports its latency.
    mpirun starts the two sides, so it must reach both nodes; that may be by the port's own
    interface, except with pci:. They need the privileges to open the port (docs/cluster.md, 3),
    and no other process may use it. The exit status is 1 if something is wrong.

    \b
    Examples:
      hikyaku reach --port udp:addr=eth0 node1 node2
      hikyaku reach --port af_xdp:iface=eth1 node1 node2
      hikyaku reach -p pci:0000:3b:02.0 --mpirun 'mpirun --mca oob_tcp_if_include eth0' a b
      hikyaku reach --lab default --port af_xdp:iface=hk0
    """
    from .. import reach as nodes

    if lab is not None:
        if hosts:
            raise click.UsageError("--lab names the nodes; leave out the HOSTs")
        launch = _in_lab(lab)
    elif len(hosts) != 2 or hosts[0] == hosts[1]:
        first = hosts[0] if hosts else "node1"
        raise HikyakuError(
            "reach tests two nodes, which have the names that mpirun uses",
            f"name both, such as: hikyaku reach --port {port} {first} node2",
        )
    else:
        launch = _known_to_a_lab(hosts, nodes.by_mpirun(command, (hosts[0], hosts[1])))
    answer = nodes.reach(port, launch, timeout)
    if as_json:
        document = {"schema": 1, "ok": answer.ok, "findings": [asdict(x) for x in answer.lines]}
        click.echo(json.dumps(document, indent=1))
    else:
        for line in answer.lines:
            click.echo(f"{'ok  ' if line.ok else 'FAIL'}  {line.text}")
            if line.fix:
                click.echo(as_typed(f"      fix: {line.fix}"))
    sys.exit(0 if answer.ok else 1)


def _lab_of(hosts: tuple[str, ...]) -> str | None:
    """The lab that is up and has nodes of these names."""
    from ..lab import Lab, all_names

    for name in all_names():
        with suppress(HikyakuError):  # it is not up, or we are not root
            if set(hosts) <= {node.name for node in Lab.find(name).topology.nodes}:
                return name
    return None


def _known_to_a_lab(hosts: tuple[str, ...], launch: "Launch") -> "Launch":
    """@launch, whose failure names the lab that has @hosts: outside of it nobody knows them."""

    def tried(arguments: list[str], limit: float) -> tuple[int, str, str]:
        status, out, err = launch(arguments, limit)
        if "Could not resolve hostname" in err and (lab := _lab_of(hosts)):
            raise HikyakuError(
                f"mpirun does not find {' and '.join(hosts)}, which are nodes of lab '{lab}'",
                f"give --lab {lab} in place of the nodes",
            )
        return status, out, err

    return tried


def _in_lab(name: str) -> "Launch":
    from ..lab import Job, Lab

    where = Lab.find(name)
    hosts = ",".join(f"{node.name}:1" for node in where.topology.nodes[:2])

    def launch(arguments: list[str], limit: float) -> tuple[int, str, str]:
        done = where.launch(Job(["--host", hosts, *arguments], tcp=True, timeout=limit))
        return done.returncode, done.stdout, done.stderr

    return launch
