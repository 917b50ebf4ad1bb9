# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem route` runs a router (systems/devmem/router/); `hikyaku devmem ask` talks to
it."""

import json
import os
import socket
from pathlib import Path

import click

from ...checkout import built
from ...errors import HikyakuError
from ...process import option_words


@click.command()
@click.option(
    "--mode",
    type=click.Choice(["bounce", "p2p", "pktpit"]),
    default="bounce",
    help="Where packets are stored, and which bytes the CPU reads; see above.",
)
@click.option(
    "--routes",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Addresses, neighbours and routes: docs/routers.md.",
)
@click.option(
    "--port",
    "ports",
    multiple=True,
    required=True,
    metavar="SPEC",
    help="A port, as in docs/ports.md; repeatable: the first is port 0 of the file.",
)
@click.option(
    "--pool",
    multiple=True,
    metavar="POP",
    help="p2p, pktpit: memory for packets, pop:…; repeatable, for ports in turn.",
)
@click.option(
    "--frame",
    type=click.IntRange(1518, 9216),
    default=2048,
    metavar="BYTES",
    help="Largest frame that a pool's buffers hold.",
)
@click.option(
    "--tap",
    metavar="PREFIX",
    help="Interfaces PREFIX0, … through which the kernel does ARP and neighbour discovery.",
)
@click.option("--control", type=click.Path(path_type=Path), metavar="SOCKET", help="For `ask`.")
@click.option(
    "--memory",
    type=click.IntRange(256, 65536),
    default=2048,
    metavar="MB",
    help="Memory for routes and packets.",
)
@click.option(
    "--buffers",
    type=click.IntRange(512, 1 << 20),
    default=8192,
    help="Packet buffers of each port.",
)
@click.option(
    "--icmp-rate",
    type=click.IntRange(0, 1_000_000),
    default=1000,
    metavar="N",
    help="Limit of ICMP messages a second.",
)
@click.option(
    "--wait",
    type=click.IntRange(1, 3_600_000),
    default=10000,
    metavar="MS",
    help="How long to wait for the links to come up.",
)
@click.option("--spin", is_flag=True, help="Poll without sleeping, even when no packet arrives.")
@click.option("--check", is_flag=True, help="Only check the route file and print a summary.")
def route(routes: Path, ports: tuple[str, ...], check: bool, **given: object) -> None:
    """Forward IPv4 and IPv6 between ports, on one core.

    \b
    Modes; all forward the same bytes:
      bounce   packets are in main memory
      p2p      packets are in device memory; the CPU reads header fields there
      pktpit   packets are in device memory; the CPU reads at most 64 bytes of each, once

    Ctrl-C ends it; it then prints its counters. SIGHUP makes it read FILE again without stopping.
    If the new file has an error, the old routes stay.

    \b
    Example:
      hikyaku devmem route --routes routes.txt --control /run/router.sock \\
          --port pci:0000:3b:00.0 --port pci:0000:3b:00.1
    """
    program = str(built("systems/devmem/router/hk_router"))
    chosen = {"check": True, "ports": len(ports)} if check else {"port": ports, **given}
    os.execv(program, [program, *option_words(routes=routes, **chosen)])


@click.command()
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    required=True,
    metavar="SOCKET",
    help="Control socket of the router.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the router's JSON.")
@click.argument("command", nargs=-1, required=True)
def ask(control: Path, as_json: bool, command: tuple[str, ...]) -> None:
    """Ask a running router for its counters, or change its routes.

    \b
    Commands:
      stats                                print its counters
      reload                               read the route file again
      route PREFIX via ADDRESS [port N]    set a route, until the next reload
      route PREFIX blackhole|unreachable
      unroute PREFIX                       remove a route

    \b
    Example:
      hikyaku devmem ask --control /run/router.sock stats
    """
    answer = _ask(control, " ".join(command))
    if answer.startswith("error: "):
        raise HikyakuError.said(answer.removeprefix("error: "))
    if as_json or command[0] != "stats":
        click.echo(answer, nl=False)
    else:
        _show(json.loads(answer))


def _ask(control: Path, line: str) -> str:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)  # a reload of a full table takes seconds
        try:
            s.connect(str(control))
            s.sendall(line.encode() + b"\n")
            parts = []
            while part := s.recv(65536):
                parts.append(part)
        except OSError as error:
            raise HikyakuError(
                f"no router answers at {control}: {error.strerror or error}",
                "give the --control socket of a running router",
            ) from None
    return b"".join(parts).decode()


def _show(stats: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{stats['mode']}: {stats['routes4']} IPv4 and {stats['routes6']} IPv6 routes, and "
        f"{stats['implied_routes']} implied by ports"
    )
    table.add_column("")
    for port in stats["ports"]:
        table.add_column(f"port {port['port']}", justify="right")
    plain = [name for name, value in stats["ports"][0].items() if isinstance(value, int)][1:]
    for name in plain:
        table.add_row(name, *(f"{port[name]:,}" for port in stats["ports"]))
    for name in dict.fromkeys(v for port in stats["ports"] for v in port["results"]):
        table.add_row(name, *(f"{port['results'].get(name, 0):,}" for port in stats["ports"]))
    Console(emoji=False).print(table)
