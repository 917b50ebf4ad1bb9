# SPDX-License-Identifier: BSD-3-Clause
"""bench p2p: the routers' plans in a guest (p2p/plans.py): does every byte arrive, and how?

The emulator's rates mean nothing, and are not shown.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table

from .. import guest as guests
from ..guest import Guest
from ..p2p import plans
from ..p2p.measure import HONESTY
from . import goals

GUEST = f"bench-{os.getpid()}"


def run(
    chosen: list[plans.Plan],
    packets: int,
    nic_model: str,
    progress: Callable[[str, int, int], None],
) -> dict:
    """Every plan of @chosen in one guest, which is gone afterwards."""
    machine = replace(plans.MACHINE, nic_model=nic_model)
    rows = []
    progress("booting a guest", 0, len(chosen))
    try:
        guest = Guest.up(machine, GUEST)
        for i, plan in enumerate(chosen):
            progress(f"{plan}: {packets} packets", i, len(chosen))
            row = plans.run(guest, plan, packets)
            del row["said"]
            rows.append(row)
    finally:
        guests.down(GUEST)
    return {
        "schema": 1,
        "note": HONESTY,
        "nic": nic_model,
        "packets": packets,
        "rows": rows,
        "goals": judge(rows),
    }


def judge(rows: list[dict]) -> list[dict]:
    """What must hold of all of them."""

    def most(goal: str, values: list[float], limit: float, relation: str = "≤") -> list[dict]:
        if not values:
            return []
        worst = min(values) if relation == "≥" else max(values)
        return [goals.judged({"goal": goal}, worst, relation, limit)]

    device = [row for row in rows if row["mode"] != "bounce"]
    bounce = [row for row in rows if row["mode"] == "bounce"]
    return [
        *most("frames that are not as they should be", [r["corrupt"] for r in rows], 0),
        *most("frames that did not come", [r["missing"] for r in rows], 0),
        *most("plans in which they came in another order", [not r["in_order"] for r in rows], 0),
        *most("p2p, pktpit: markers in main memory", [r["in_main_memory"] for r in device], 0),
        *most("bounce: the same scan finds", [r["in_main_memory"] for r in bounce], 1, "≥"),
        *most("header bytes that the CPU read of a packet", [r["header_bytes"] for r in rows], 64),
    ]


def show(document: dict, console: Console) -> None:
    table = Table(title=f"Routers on {document['nic']}", title_justify="left", box=box.SIMPLE_HEAD)
    columns = ("plan", "memory", "driver", "packets", "bytes", "came", "cut up", "ICMP")
    for name in (*columns, "corrupt", "missing", "markers in main memory"):
        table.add_column(name, justify="right" if name not in columns[:3] else "left")
    for row in document["rows"]:
        table.add_row(
            row["mode"],
            row["memory"],
            row["driver"],
            str(row["packets"]),
            f"{row['shortest']} to {row['longest']}",
            str(row["came"]),
            str(row["fragmented"]),
            str(row["icmp"]),
            str(row["corrupt"]),
            str(row["missing"]),
            str(row["in_main_memory"]),
        )
    table.caption = document["note"]
    console.print(table)
    for row in document["rows"]:
        for line in plans.wrong(row):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(goals.table(document["goals"]))
