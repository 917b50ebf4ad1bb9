# SPDX-License-Identifier: BSD-3-Clause
"""Paper P4's measurement: DMA to and from main memory and device memory, under load of the CPU.

The CPU is idle, reads, writes, or trains a model, in some threads. `hk_devmem measure` does one
cell. This module runs it for all cells, and alternates between memories, so that slow minutes
affect all of them. It also makes the table. On emulated devices the figures are the emulator's, and
each table and plot says so.
"""

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..bench.common.summary import summary
from ..errors import HikyakuError
from ..process import option_words
from .places import Place

TITLE = "DMA beside what the CPU does"
LOADS = ("nothing", "read", "write", "train", "network")
DIRECTIONS = ("loop", "transmit", "receive", "both")
EMULATED_NOTE = (
    "emulated devices: only addresses and data mean anything here; rates and times are the "
    "emulator's"
)
HYPERVISORS = ("QEMU", "Bochs", "VMware", "innotek", "Xen", "Microsoft")
RATES = ("gbit_per_s", "transmit_gbit_per_s", "receive_gbit_per_s")
LATENCIES = ("latency_us", "latency_p99_us")


def emulated(sysfs: Path = Path("/sys")) -> bool:
    """Are the devices of this machine emulated by a hypervisor, by the firmware's vendor?"""
    try:
        vendor = (sysfs / "class/dmi/id/sys_vendor").read_text()
    except OSError:
        return False
    return any(name in vendor for name in HYPERVISORS)


@dataclass(frozen=True)
class Cell:
    """@pop: none is main memory. @rings: descriptor rings are in the pop as well."""

    device: str  # nic or nvme
    direction: str
    pop: str
    rings: bool
    load: str
    load_threads: int


@dataclass(frozen=True)
class Settings:
    pops: list[str]
    loads: list[str]
    nics: str | None = None
    nvme: str | None = None
    directions: tuple[str, ...] = ("loop",)
    rings: bool = False
    load_threads: tuple[int, ...] = (1,)
    load_cores: str | None = None
    load_mb: int = 64
    seconds: float = 1.0
    repeats: int = 3
    size: int = 1024
    rate: int = 0  # frames/s, with a peer; 0: no limit


def cells(settings: Settings) -> list[Cell]:
    """Those with a peer come last, and the baseline comes first of each memory's: no threads."""
    directions = [("nic", d) for d in DIRECTIONS if d in settings.directions and settings.nics]
    devices = [("nvme", "loop")] * bool(settings.nvme) + directions
    if not devices:
        raise HikyakuError("no device to measure", "give --nics A,B or --nvme ADDRESS")
    loads = [(load, n) for load in settings.loads if load != "nothing"
             for n in sorted(set(settings.load_threads)) if n]  # fmt: skip
    memories = [(pop, False) for pop in ["none", *settings.pops]]
    memories += [(pop, True) for pop in settings.pops if settings.rings]
    found = itertools.product(devices, [("nothing", 0), *loads], memories)
    return [
        Cell(device, direction, pop, rings, load, threads)
        for (device, direction), (load, threads), (pop, rings) in found
        if device == "nic" or not rings
    ]


def _check(settings: Settings) -> tuple[str, str | None]:
    """The NIC that is measured with a peer, and the NIC of a peer that we start, if any."""
    nics = (settings.nics or "").split(",")
    if settings.rings and not (settings.pops and settings.nics):
        raise HikyakuError("--rings has no memory to place rings in", "give --nics and --pop")
    if len(nics) > 2 or (settings.nics and "loop" in settings.directions and len(nics) != 2):
        raise HikyakuError(
            f"--nics {settings.nics}: a loop needs two NICs",
            "give --nics A,B, or --direction transmit, receive or both for one",
        )
    return nics[0], nics[1] if len(nics) == 2 else None


def measure(
    place: Place, settings: Settings, tell: Callable[[str], None] = lambda _: None
) -> list[dict]:
    """The results by cell: median, smallest and largest of the repeats."""
    tested, other = _check(settings)
    keys = cells(settings)
    got: dict[Cell, list[dict]] = {key: [] for key in keys}
    for _ in range(settings.repeats):
        with ExitStack() as stack:
            peer = False
            for cell in keys:
                if cell.direction != "loop" and other and not peer:
                    stack.enter_context(place.peer(other))
                    peer = True
                got[cell].append(place.run(_words(cell, settings, tested)))
                tell(f"{traffic(asdict(cell))}, CPU: {load_name(asdict(cell))}")
    return [asdict(cell) | _result(runs) for cell, runs in got.items()]


def _words(cell: Cell, settings: Settings, tested: str) -> list[str]:
    if cell.device == "nvme":
        device = option_words(nvme=settings.nvme)
    elif cell.direction == "loop":
        device = option_words(nics=settings.nics)
    else:
        device = option_words(nics=tested, direction=cell.direction, rate=settings.rate)
    return device + option_words(
        pop=cell.pop,
        rings=cell.rings,
        load=cell.load,
        load_threads=cell.load_threads,
        load_cores=settings.load_cores,
        load_mb=settings.load_mb,
        seconds=settings.seconds,
        size=settings.size,
    )


def _result(runs: list[dict]) -> dict:
    def each(metric: str) -> dict | None:
        values = [run[metric] for run in runs if run[metric] is not None]
        return summary(values) if values else None

    threads = [
        {
            "core": one[0]["core"],
            **{
                metric: summary([thread[metric] for thread in one])
                for metric in ("read_mb_per_s", "written_mb_per_s")
            },
        }
        for one in zip(*(run["threads"] for run in runs), strict=True)
    ]
    return {
        **{metric: each(metric) for metric in (*RATES, *LATENCIES, "load_mb_per_s")},
        "threads": threads,
        "ring_bytes": runs[0]["ring_bytes"],
        "driver_bytes": runs[0]["driver_bytes"],
        "lost": sum(run["lost"] for run in runs),
        "wrong": sum(run["wrong"] for run in runs),
    }


def memory(pop: str) -> str:
    return "main memory" if pop == "none" else pop


def traffic(cell: dict) -> str:
    """The device, its direction and its memory."""
    where = memory(cell["pop"]) + (", rings too" if cell["rings"] else "")
    words = {"loop": "to", "transmit": "from", "receive": "to", "both": "from and to"}
    kind = "" if cell["direction"] == "loop" else f" {cell['direction']}"
    return f"{cell['device']}{kind} {words[cell['direction']]} {where}"


def load_name(cell: dict) -> str:
    n = cell["load_threads"]
    return cell["load"] if n < 2 else f"{cell['load']}, {n} threads"


def show(document: dict, console: Console) -> None:
    columns = ("traffic", "CPU", "MB/s of CPU", "Gbit/s", "of idle", "µs", "p99", "lost", "wrong")
    table = Table(*columns, title=TITLE)
    idle = {
        traffic(c): c["gbit_per_s"]["median"] for c in document["cells"] if not c["load_threads"]
    }
    for c in document["cells"]:
        rate, base = c["gbit_per_s"]["median"], idle[traffic(c)]
        latencies = [f"{c[m]['median']:.1f}" if c[m] else "" for m in LATENCIES]
        table.add_row(
            traffic(c),
            load_name(c),
            f"{c['load_mb_per_s']['median']:.0f}",
            f"{rate:.3f} ({c['gbit_per_s']['min']:.3f} to {c['gbit_per_s']['max']:.3f})",
            f"{100 * rate / base:.0f} %" if base else "",
            *latencies,
            str(c["lost"]),
            str(c["wrong"]),
        )
    table.caption = EMULATED_NOTE if document["emulated"] else None
    console.print(table)
