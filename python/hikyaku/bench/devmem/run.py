# SPDX-License-Identifier: BSD-3-Clause
"""bench devmem: runs the routers' plans (devmem/plans.py) in a guest and checks every byte.

Reports no rates: those of an emulator mean nothing.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from ... import guest as guests
from ...devmem import plans
from ...devmem.measure import EMULATED_NOTE
from ...guest import Guest
from .report import judge

GUEST = f"bench-{os.getpid()}"


def run(
    chosen: list[plans.Plan],
    packets: int,
    nic_model: str,
    progress: Callable[[str, int, int], None],
) -> dict:
    """Runs every plan of @chosen in one guest, which it removes afterwards."""
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
        "note": EMULATED_NOTE,
        "nic": nic_model,
        "packets": packets,
        "rows": rows,
        "goals": judge(rows),
    }
