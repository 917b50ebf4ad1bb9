# SPDX-License-Identifier: BSD-3-Clause
"""Paper P4's measurement: DMA into main memory and into a device's, while the CPU does nothing,
reads, writes, or trains a model. `hk_p2p measure` does one cell; this runs it for all, alternating
so that a slow minute of the machine meets every memory, and makes the table and the picture.

On emulated devices the figures are the emulator's. Every table and picture then says so.
"""

import json
import select
import shlex
import statistics
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..checkout import built
from ..errors import HikyakuError
from ..guest import Guest

LOADS = ("nothing", "read", "write", "train")
HONESTY = (
    "emulated devices: only addressing and integrity mean anything here; rates and times are the "
    "emulator's"
)
HYPERVISORS = ("QEMU", "Bochs", "VMware", "innotek", "Xen", "Microsoft")

Run = Callable[[list[str]], dict]


def emulated(sysfs: Path = Path("/sys")) -> bool:
    """Are the devices of this machine a hypervisor's, as far as the firmware tells?"""
    try:
        vendor = (sysfs / "class/dmi/id/sys_vendor").read_text()
    except OSError:
        return False
    return any(name in vendor for name in HYPERVISORS)


def _report(status: int, said: str) -> dict:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if status or not lines:
        raise HikyakuError.said(
            said.strip().splitlines()[-1] if said.strip() else "it said nothing"
        )
    return json.loads(lines[-1])


def here(argv: list[str]) -> dict:
    """One cell on this machine."""
    done = subprocess.run(
        [str(built("p2p/tool/hk_p2p")), "measure", *argv],
        capture_output=True,
        text=True,
        timeout=4000,
        check=False,
    )
    return _report(done.returncode, done.stdout + done.stderr)


@contextmanager
def in_guest(guest: Guest) -> Iterator[Run]:
    """One cell in @guest, whose first two NICs are patched together meanwhile."""

    def run(argv: list[str]) -> dict:
        return _report(*guest.exec(f"hk_p2p measure {shlex.join(argv)}", timeout=600))

    stop = threading.Event()
    with guest.wire(0) as a, guest.wire(1) as b:

        def patch() -> None:
            while not stop.is_set():
                select.select([a, b], [], [], 0.05)
                for left, right in ((a, b), (b, a)):
                    while (frame := left.receive()) is not None and not stop.is_set():
                        # one that a stopped NIC does not take is lost, as on a cable
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
    """A cell for each device, memory and load, with median, smallest and largest of @repeats."""
    devices = [("nic", ["--nics", nics])] if nics else []
    devices += [("nvme", ["--nvme", nvme])] if nvme else []
    if not devices:
        raise HikyakuError("no device to measure", "give --nics A,B or --nvme ADDRESS")
    keys = [(d, pop, load) for d, _ in devices for load in loads for pop in ["none", *pops]]
    got: dict[tuple[str, str, str], list[dict]] = {key: [] for key in keys}
    for _ in range(repeats):
        for device, pop, load in keys:
            tell(f"{device} to {memory(pop)}, CPU: {load}")
            argv = ["--pop", pop, *dict(devices)[device], "--load", load]
            argv += ["--seconds", str(seconds), "--size", str(size)]
            got[device, pop, load].append(run(argv))
    return [
        {
            "device": device,
            "pop": pop,
            "load": load,
            **{
                metric: _spread([c[metric] for c in cells])
                for metric in ("gbit_per_s", "latency_us", "latency_p99_us", "load_mb_per_s")
            },
            "lost": sum(c["lost"] for c in cells),
            "wrong": sum(c["wrong"] for c in cells),
        }
        for (device, pop, load), cells in got.items()
    ]


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def memory(pop: str) -> str:
    return "main memory" if pop == "none" else pop


def show(document: dict, console: Console) -> None:
    table = Table(title="DMA into memory, beside what the CPU does")
    for column in ("device", "memory", "CPU", "Gbit/s", "of idle", "µs", "p99", "lost", "wrong"):
        table.add_column(column)
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
    table.caption = HONESTY if document["emulated"] else None
    console.print(table)


def plot(document: dict, path: Path) -> None:
    """Throughput by load, a line for each device and memory."""
    from ..bench.plot import figure_file

    title = "DMA into memory, beside what the CPU does"
    if document["emulated"]:
        title += "\n" + HONESTY
    with figure_file(path, 2, title) as panels:
        for axes, metric, unit in zip(
            panels, ("gbit_per_s", "latency_us"), ("Gbit/s", "µs"), strict=True
        ):
            loads = document["loads"]
            for device, pop in dict.fromkeys((c["device"], c["pop"]) for c in document["cells"]):
                cells = {
                    c["load"]: c[metric]["median"]
                    for c in document["cells"]
                    if (c["device"], c["pop"]) == (device, pop)
                }
                axes.plot(
                    loads, [cells[load] for load in loads], "o-", label=f"{device} to {memory(pop)}"
                )
            axes.set_xlabel("what the CPU does")
            axes.set_ylabel(unit)
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=7)
