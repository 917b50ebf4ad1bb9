# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku doctor`: prints what doctor.py finds."""

import json
import sys

import click
from rich.console import Console
from rich.markup import escape

_COLOUR = {"ok": "green", "warn": "yellow", "missing": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option(
    "--port",
    metavar="SPEC",
    help="Say also how ranks of a node can share this port. Opens pci: and vdev: for a moment.",
)
def doctor(as_json: bool, port: str | None) -> None:
    """Look at this machine: what is fine, what is missing, the command that mends it.

    Network cards and how each can be used, DPDK and its drivers, Open MPI and the BTL, huge pages,
    memory for ports that ranks share, permissions, leftovers of labs and dead daemons. Changes
    nothing. The exit status is 1 if something needed is missing.

    With --port also how ranks of a node can share that port, how it tells their frames apart
    (rules of the NIC, queue index, software), and why not in a better way, in the driver's words.

    \b
    Examples:
      hikyaku doctor
      hikyaku doctor --json
      hikyaku doctor --port af_xdp:iface=eth1
    """
    from .doctor import MISSING, examine

    findings = examine(port)
    if as_json:
        click.echo(json.dumps({"schema": 1, "findings": [f.to_json() for f in findings]}, indent=1))
    else:
        console = Console()
        area = None
        for f in findings:
            if f.area != area:
                console.print(f"[bold]{f.area}[/]")
                area = f.area
            colour = _COLOUR[f.state]
            console.print(
                f"  [{colour}]{f.state:8}[/]{escape(f.text)}", highlight=False, soft_wrap=True
            )
            if f.fix:
                console.print(f"          fix: {escape(f.fix)}", highlight=False, soft_wrap=True)
    sys.exit(1 if any(f.state == MISSING for f in findings) else 0)
