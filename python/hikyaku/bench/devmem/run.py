# SPDX-License-Identifier: BSD-3-Clause
"""bench devmem: runs the routers' plans (devmem/plans.py) in a guest and checks every byte. Then it
runs the cells of `devmem measure` there, with a NIC that sends, receives, and does both.

Judges no rates: those of an emulator mean nothing.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from ... import guest as guests
from ...devmem import plans
from ...devmem.measure import EMULATED_NOTE, Settings, cells, measure
from ...devmem.places import InGuest
from ...guest import Guest, Machine
from .report import judge

GUEST = f"bench-{os.getpid()}"


def settings(machine: Machine) -> Settings:
    """Every direction, memory and place of rings, without a load and with one. The rate is one that
    an emulated NIC on a busy machine can take."""
    return Settings(
        pops=[f"pop:ivshmem:{machine.device('ivshmem')}"],
        loads=["network"],
        nics=f"{machine.nic(0)},{machine.nic(1)}",
        directions=("transmit", "receive", "both"),
        rings=True,
        load_threads=(2,),
        load_mb=1,
        seconds=0.2,
        repeats=1,
        rate=3000,
    )


def run(
    chosen: list[plans.Plan],
    packets: int,
    nic_model: str,
    load: bool,
    progress: Callable[[str, int, int], None],
) -> dict:
    """Runs every plan of @chosen in one guest, which it removes afterwards. @load: runs the cells
    of settings() in it as well."""
    # one processor makes loads while the other measures
    machine = replace(plans.MACHINE, nic_model=nic_model, processors=2)
    rows, measured = [], []
    steps = len(chosen) + (len(cells(settings(machine))) if load else 0)
    progress("booting a guest", 0, steps)
    try:
        guest = Guest.up(machine, GUEST)
        for i, plan in enumerate(chosen):
            progress(f"{plan}: {packets} packets", i, steps)
            row = plans.run(guest, plan, packets)
            del row["said"]
            rows.append(row)
        if load:
            measured = _measured(guest, lambda text, n: progress(text, len(chosen) + n, steps))
    finally:
        guests.down(GUEST)
    return {
        "schema": 2,
        "note": EMULATED_NOTE,
        "nic": nic_model,
        "packets": packets,
        "rows": rows,
        "cells": measured,
        "goals": judge(rows, measured),
    }


def _measured(guest: Guest, progress: Callable[[str, int], None]) -> list[dict]:
    chosen, done = settings(guest.machine), iter(range(1, 1000))
    guest.run(f"bind uio_pci_generic {str(chosen.nics).replace(',', ' ')}")
    progress("the NICs as cells of 'devmem measure'", 0)
    with InGuest(guest) as place:
        return measure(place, chosen, lambda text: progress(text, next(done)))
