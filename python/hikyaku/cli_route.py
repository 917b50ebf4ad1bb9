# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku p2p route` and `p2p ask`: runs a router (p2p/router/), and talks to one."""

import json
import os
import socket
from pathlib import Path

import click

from .checkout import built
from .errors import HikyakuError


@click.command()
@click.option(
    "--mode",
    type=click.Choice(["bounce", "p2p", "pktpit"]),
    default="bounce",
    show_default=True,
    help="Where packets lie, and what the CPU reads of them; see above.",
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
    "pools",
    multiple=True,
    metavar="POP",
    help="p2p, pktpit: the memory that packets land in, pop:…; repeatable, for ports in turn.",
)
@click.option(
    "--frame",
    type=click.IntRange(1518, 9216),
    default=2048,
    show_default=True,
    metavar="BYTES",
    help="Of the largest frame that a pool's buffers hold.",
)
@click.option(
    "--tap",
    metavar="PREFIX",
    help="Interfaces PREFIX0, … by which the kernel does ARP and neighbour discovery.",
)
@click.option("--control", type=click.Path(path_type=Path), metavar="SOCKET", help="For `p2p ask`.")
@click.option(
    "--memory",
    type=click.IntRange(256, 65536),
    default=2048,
    show_default=True,
    metavar="MB",
    help="For routes and packets.",
)
@click.option(
    "--buffers",
    type=click.IntRange(512, 1 << 20),
    default=8192,
    show_default=True,
    help="Packets of each port.",
)
@click.option(
    "--icmp-rate",
    type=click.IntRange(0, 1_000_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="ICMP messages a second, at most.",
)
@click.option(
    "--wait",
    type=click.IntRange(1, 3_600_000),
    default=10000,
    show_default=True,
    metavar="MS",
    help="For the links to come up.",
)
@click.option("--spin", is_flag=True, help="Never nap, also when no packet comes.")
@click.option("--check", is_flag=True, help="Only read the file, and say what is in it.")
def route(
    mode: str,
    routes: Path,
    ports: tuple[str, ...],
    pools: tuple[str, ...],
    frame: int,
    tap: str | None,
    control: Path | None,
    memory: int,
    buffers: int,
    icmp_rate: int,
    wait: int,
    spin: bool,
    check: bool,
) -> None:
    """Forward IPv4 and IPv6 between ports, on one core, run to completion.

    \b
    Modes; all forward the same bytes:
      bounce   packets lie in main memory
      p2p      packets lie in device memory; header fields are read there
      pktpit   packets lie in device memory; at most 64 bytes of each are read, once

    Ends by Ctrl-C, and prints what it has counted. SIGHUP reads FILE again: packets go on
    meanwhile, and if it has an error the routes from before stay.

    \b
    Example:
      hikyaku p2p route --routes routes.txt --control /run/router.sock \\
          --port pci:0000:3b:00.0 --port pci:0000:3b:00.1
    """
    program = str(built("p2p/router/hk_router"))
    argv = [program, "--routes", str(routes)]
    if check:
        argv += ["--check", "--ports", str(len(ports))]
    else:
        argv += ["--mode", mode, "--memory", str(memory), "--buffers", str(buffers)]
        argv += ["--icmp-rate", str(icmp_rate), "--wait", str(wait)] + ["--spin"] * spin
        argv += [word for spec in ports for word in ("--port", spec)]
        argv += [word for spec in pools for word in ("--pool", spec)] + ["--frame", str(frame)]
        argv += ["--tap", tap] if tap else []
        argv += ["--control", str(control)] if control else []
    os.execv(program, argv)


@click.command()
@click.option(
    "--control",
    type=click.Path(path_type=Path),
    required=True,
    metavar="SOCKET",
    help="Of the router.",
)
@click.option("--json", "as_json", is_flag=True, help="As the router says it.")
@click.argument("command", nargs=-1, required=True)
def ask(control: Path, as_json: bool, command: tuple[str, ...]) -> None:
    """Ask a running router for its counters, or tell it to change routes.

    \b
    Commands:
      stats                                what it has counted
      reload                               read the route file again
      route PREFIX via ADDRESS [port N]    set a route, until the next reload
      route PREFIX blackhole|unreachable
      unroute PREFIX                       take one out

    \b
    Example:
      hikyaku p2p ask --control /run/router.sock stats
    """
    said = _ask(control, " ".join(command))
    if said.startswith("error: "):
        raise HikyakuError.said(said.removeprefix("error: "))
    if as_json or command[0] != "stats":
        click.echo(said, nl=False)
    else:
        _show(json.loads(said))


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
                "give the --control of one that runs",
            ) from None
    return b"".join(parts).decode()


def _show(stats: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{stats['mode']}: {stats['routes4']} IPv4 and {stats['routes6']} IPv6 prefixes"
    )
    table.add_column("")
    for port in stats["ports"]:
        table.add_column(f"port {port['port']}", justify="right")
    plain = [name for name, value in stats["ports"][0].items() if isinstance(value, int)][1:]
    for name in plain:
        table.add_row(name, *(f"{port[name]:,}" for port in stats["ports"]))
    for name in dict.fromkeys(v for port in stats["ports"] for v in port["verdicts"]):
        table.add_row(name, *(f"{port['verdicts'].get(name, 0):,}" for port in stats["ports"]))
    Console().print(table)
