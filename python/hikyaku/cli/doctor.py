# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku doctor`: prints the findings of the package doctor."""

import json
import sys
from dataclasses import replace

import click
from rich.console import Console
from rich.markup import escape

from ..called import as_typed
from .options import json_flag

_COLOUR = {"ok": "green", "warn": "yellow", "missing": "red"}


@click.command()
@json_flag
@click.option(
    "--port",
    metavar="SPEC",
    help="Check how ranks of a node can share this port. Opens pci: and vdev: ports briefly.",
)
def doctor(as_json: bool, port: str | None) -> None:
    """Check what works here, what is missing, and how to get it.

    Checks network cards, DPDK with its drivers, Open MPI and the BTL, huge pages, memory for shared
    ports, and permissions. Finds leftovers of labs and dead daemons. Changes nothing. The exit
    status is 1 if something required is missing.

    --port also checks how ranks of a node can share that port. It prints how the port tells their
    frames apart (rules of the NIC, queue index, software), and why no better way is available.

    \b
    Examples:
      hikyaku doctor
      hikyaku doctor --json
      hikyaku doctor --port af_xdp:iface=eth1
    """
    from ..doctor import MISSING, examine

    findings = [
        replace(f, text=as_typed(f.text), fix=f.fix and as_typed(f.fix)) for f in examine(port)
    ]
    if as_json:
        click.echo(json.dumps({"schema": 1, "findings": [f.to_json() for f in findings]}, indent=1))
    else:
        console = Console(emoji=False)
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
