# SPDX-License-Identifier: BSD-3-Clause
"""Paper P4's measurement: DMA into main memory and into device memory, under load of the CPU.

The CPU is idle, reads, writes, or trains a model. `hk_devmem measure` does one cell. This module
runs it for all cells, and alternates between memories, so that slow minutes affect all of them. It
also makes the table. On emulated devices the figures are the emulator's, and each table and plot
says so.
"""

import json
import select
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..bench.common.summary import summary
from ..checkout import built
from ..errors import HikyakuError
from ..guest import Guest
from ..process import option_words

TITLE = "DMA into memory, beside what the CPU does"
LOADS = ("nothing", "read", "write", "train")
EMULATED_NOTE = (
    "emulated devices: only addresses and data mean anything here; rates and times are the "
    "emulator's"
)
HYPERVISORS = ("QEMU", "Bochs", "VMware", "innotek", "Xen", "Microsoft")

Run = Callable[[list[str]], dict]


def emulated(sysfs: Path = Path("/sys")) -> bool:
    """Are the devices of this machine emulated by a hypervisor, by the firmware's vendor?"""
    try:
        vendor = (sysfs / "class/dmi/id/sys_vendor").read_text()
    except OSError:
        return False
    return any(name in vendor for name in HYPERVISORS)


def _report(status: int, said: str) -> dict:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if status or not lines:
        raise HikyakuError.said((said.strip().splitlines() or ["it said nothing"])[-1])
    return json.loads(lines[-1])


def here(argv: list[str]) -> dict:
    """Measures one cell on this machine."""
    done = subprocess.run(
        [str(built("systems/devmem/tool/hk_devmem")), "measure", *argv],
        capture_output=True,
        text=True,
        timeout=4000,
        check=False,
    )
    return _report(done.returncode, done.stdout + done.stderr)


@contextmanager
def in_guest(guest: Guest) -> Iterator[Run]:
    """Measures cells in @guest, whose first two NICs are connected meanwhile."""

    def run(argv: list[str]) -> dict:
        return _report(*guest.exec(f"hk_devmem measure {shlex.join(argv)}", timeout=600))

    stop = threading.Event()
    with guest.wire(0) as a, guest.wire(1) as b:

        def patch() -> None:
            while not stop.is_set():
                select.select([a, b], [], [], 0.05)
                for left, right in ((a, b), (b, a)):
                    while (frame := left.receive()) is not None and not stop.is_set():
                        # a frame that a stopped NIC does not take is lost, as on a cable
                        if not right.try_send(frame):
                            select.select([], [], [], 0.001)
                            right.try_send(frame)

        thread = threading.Thread(target=patch, daemon=True)
        thread.start()
        try:
            yield run
        finally:
            stop.set()
            thread.join(timeout=5)


def measure(
    run: Run,
    pops: list[str],
    loads: list[str],
    *,
    nics: str | None,
    nvme: str | None,
    seconds: int,
    repeats: int,
    size: int,
    tell: Callable[[str], None] = lambda _: None,
) -> list[dict]:
    """A cell for each device, memory and load: median, smallest and largest of @repeats."""
    options = {"nic": option_words(nics=nics), "nvme": option_words(nvme=nvme)}
    devices = [device for device, words in options.items() if words]
    if not devices:
        raise HikyakuError("no device to measure", "give --nics A,B or --nvme ADDRESS")
    keys = [(d, pop, load) for d in devices for load in loads for pop in ["none", *pops]]
    got: dict[tuple[str, str, str], list[dict]] = {key: [] for key in keys}
    for _ in range(repeats):
        for device, pop, load in keys:
            words = option_words(pop=pop, load=load, seconds=seconds, size=size)
            got[device, pop, load].append(run([*options[device], *words]))
            tell(f"{device} to {memory(pop)}, CPU: {load}")
    return [
        {
            "device": device,
            "pop": pop,
            "load": load,
            **{
                metric: summary([c[metric] for c in cells])
                for metric in ("gbit_per_s", "latency_us", "latency_p99_us", "load_mb_per_s")
            },
            "lost": sum(c["lost"] for c in cells),
            "wrong": sum(c["wrong"] for c in cells),
        }
        for (device, pop, load), cells in got.items()
    ]


def memory(pop: str) -> str:
    return "main memory" if pop == "none" else pop


def show(document: dict, console: Console) -> None:
    columns = ("device", "memory", "CPU", "Gbit/s", "of idle", "µs", "p99", "lost", "wrong")
    table = Table(*columns, title=TITLE)
    idle = {
        (c["device"], c["pop"]): c["gbit_per_s"]["median"]
        for c in document["cells"]
        if c["load"] == "nothing"
    }
    for c in document["cells"]:
        rate = c["gbit_per_s"]["median"]
        base = idle.get((c["device"], c["pop"]))
        table.add_row(
            c["device"],
            memory(c["pop"]),
            c["load"],
            f"{rate:.3f} ({c['gbit_per_s']['min']:.3f} to {c['gbit_per_s']['max']:.3f})",
            f"{100 * rate / base:.0f} %" if base else "",
            f"{c['latency_us']['median']:.1f}",
            f"{c['latency_p99_us']['median']:.1f}",
            str(c["lost"]),
            str(c["wrong"]),
        )
    table.caption = EMULATED_NOTE if document["emulated"] else None
    console.print(table)
