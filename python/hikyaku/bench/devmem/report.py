# SPDX-License-Identifier: BSD-3-Clause
"""The table and goals of `bench devmem`."""

from rich.console import Console

from ...devmem import measure, plans
from ..common import goals
from ..common.goals import judged, worst
from ..common.tables import left_titled


def judge(rows: list[dict], cells: list[dict]) -> list[dict]:
    """The goals over all plans and cells."""
    device = [r["in_main_memory"] for r in rows if r["mode"] != "bounce"]
    bounce = [r["in_main_memory"] for r in rows if r["mode"] == "bounce"]
    unordered = sum(not r["in_order"] for r in rows)
    read = [r["header_bytes"] for r in rows]
    return [
        *worst("wrong frames", [r["corrupt"] for r in rows], "≤", 0, "plan", exact=True),
        *worst("missing frames", [r["missing"] for r in rows], "≤", 0, "plan", exact=True),
        judged("plans with frames in another order", unordered, "≤", 0, exact=True),
        *worst("p2p, pktpit: markers in main memory", device, "≤", 0, "plan", exact=True),
        *worst("bounce: markers found by the scan", bounce, "≥", 1, "plan", exact=True),
        *worst("header bytes that the CPU read per packet", read, "≤", 64, "plan", exact=True),
        *worst("frames with wrong data", [c["wrong"] for c in cells], "≤", 0, "cell", exact=True),
    ]


def show(document: dict, console: Console) -> None:
    table = left_titled(f"Routers on {document['nic']}")
    for name in ("plan", "memory", "driver"):
        table.add_column(name)
    columns = {
        "packets": "packets",
        "bytes": "bytes",
        "arrived": "came",
        "fragmented": "fragmented",
        "ICMP": "icmp",
        "corrupt": "corrupt",
        "missing": "missing",
        "markers in main memory": "in_main_memory",
    }
    for name in columns:
        table.add_column(name, justify="right")
    for row in document["rows"]:
        shown = {**row, "bytes": f"{row['shortest']} to {row['longest']}"}
        names = ("mode", "memory", "driver", *columns.values())
        table.add_row(*(str(shown[name]) for name in names))
    table.caption = document["note"]
    console.print(table)
    for row in document["rows"]:
        for line in plans.wrong(row):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if document["cells"]:
        measure.show({"cells": document["cells"], "emulated": True}, console)
    console.print(goals.table(document["goals"]))
