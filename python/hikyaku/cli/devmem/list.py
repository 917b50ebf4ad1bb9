# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem list`: which devices can reach each other's memory, and by which path."""

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table

from ..options import json_flag, wide_console


def _size(n: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if n >> shift and n % (1 << shift) == 0:
            return f"{n >> shift}{unit}"
    return str(n)


@click.command("list")
@json_flag
@click.option(
    "--sysfs",
    type=click.Path(path_type=Path),
    default="/sys",
    help="The tree to read, such as a copy of another machine's /sys.",
)
def list_(as_json: bool, sysfs: Path) -> None:
    """List PCI devices, their memory, and the path between each two.

    A request between two devices stays below a switch, goes through the root complex, or is
    blocked. The table says which, and why. Only root can read ACS.

    \b
    Examples:
      hikyaku devmem list
      hikyaku devmem list --json
    """
    from ...devmem.paths import grouped, pairs
    from ...devmem.pci import read_tree

    tree = read_tree(sysfs)
    found = pairs(tree)
    if as_json:
        document = {
            "devices": [asdict(d) | {"kind": d.kind} for d in tree.values()],
            "pairs": [
                {"from": a.address, "to": b.address, "via": p.via, "why": p.why}
                for a, b, p in found
            ],
        }
        click.echo(json.dumps(document, indent=1))
        return
    console = wide_console(200)
    columns = ("address", "what", "driver", "IOMMU group", "above it", "memory")
    table = Table(*columns, title="devices")
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
    table = Table("from", "to", "via", "why", title="requests")
    for senders, targets, p in grouped(found):
        to = "each other" if targets == senders else "\n".join(targets)
        table.add_row("\n".join(senders), to, p.via, p.why)
    console.print(table)
