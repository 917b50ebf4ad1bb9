# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku p2p list`: which devices could talk to each other, and by which way."""

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table


def _size(n: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if n >> shift and n % (1 << shift) == 0:
            return f"{n >> shift}{unit}"
    return str(n)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option(
    "--sysfs",
    type=click.Path(path_type=Path),
    default="/sys",
    show_default=True,
    help="Another tree, as copied from a machine or a guest.",
)
def list_(as_json: bool, sysfs: Path) -> None:
    """PCI devices, their memory, and the way between each two.

    A request between two devices stays below a switch, or goes through the root complex, or is
    blocked; the table says which, and why. Only a reader who is root sees ACS.

    \b
    Examples:
      hikyaku p2p list
      hikyaku p2p list --json
    """
    from .p2p.paths import pairs
    from .p2p.pci import read_tree

    tree = read_tree(sysfs)
    ways = pairs(tree)
    if as_json:
        found = {
            "devices": [asdict(d) | {"kind": d.kind} for d in tree.values()],
            "pairs": [
                {"from": a.address, "to": b.address, "via": w.via, "why": w.why} for a, b, w in ways
            ],
        }
        click.echo(json.dumps(found, indent=1))
        return
    # a table in a file or a pipe is not cut at 80 characters
    console = Console(width=None if click.get_text_stream("stdout").isatty() else 200)
    table = Table(title="devices")
    for column in ("address", "what", "driver", "IOMMU group", "above it", "memory"):
        table.add_column(column)
    for d in tree.values():
        if d.is_bridge:
            continue
        memory = [f"BAR {b.number}: {_size(b.size)}" for b in d.bars]
        if d.cmb:
            memory.append(f"CMB: {d.cmb}")
        group = f"{d.iommu_group} ({d.iommu_type})" if d.iommu_group else "none"
        above = " > ".join((d.host_bridge, *d.bridges))
        table.add_row(
            d.address,
            f"{d.kind} {d.vendor:04x}:{d.device:04x}",
            d.driver or "none",
            group,
            above,
            "\n".join(memory) or "none",
        )
    console.print(table)
    table = Table(title="requests")
    for column in ("from", "to", "via", "why"):
        table.add_column(column)
    for a, b, w in ways:
        table.add_row(a.address, b.address, w.via, w.why)
    console.print(table)
