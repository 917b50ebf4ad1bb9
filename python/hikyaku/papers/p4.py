# SPDX-License-Identifier: BSD-3-Clause
"""P4: packets that stay in device memory, and routers."""

from collections.abc import Iterator

from ..bench.router.report import NAMES
from ..devmem.measure import load_name, traffic
from .figure import EMULATED, Comparison, Document, Figure, Measurement, Paper

ROUTER = Measurement(
    "router",
    ("bench", "router", "--repeats", "5"),
    ("bench", "router", "--repeats", "1", "--batches", "100", "--prefixes", "100000"),
)
DEVMEM = Measurement(
    "devmem",
    ("bench", "devmem", "--packets", "5000"),
    ("bench", "devmem", "--packets", "300", "--memory", "ivshmem", "--memory", "main"),
)

OVERHEAD = Measurement(
    "pcie", ("devmem", "model", "--sizes", "64,1518"), ("devmem", "model", "--sizes", "64,1518")
)


def _router(document: Document) -> Iterator[Comparison]:
    yield Comparison("router that bounces packets, of l3fwd", None, document["share"])
    yield Comparison("l3fwd", None, document["l3fwd"], "million frames/s")
    yield Comparison("bounce", None, document["bounce"], "million frames/s")
    rates = {(row["variant"], row["pairs"]): row["rate"] for row in document["nics"]}
    for row in document["nics"]:
        variant, pairs = row["variant"], row["pairs"]
        name = f"emulated NICs, {NAMES[variant]}, {pairs}→{pairs}"
        if pairs == 1:
            of = row["rate"] / document["l3fwd"]
            yield Comparison(f"{name}, times l3fwd", 1, of, "", ">")
        yield Comparison(name, None, row["rate"], "million frames/s")
        if pairs == 1:
            yield Comparison(f"{name}, delay, median", None, row["p50_us"], "µs")
            if row["host_ns"] is not None:
                yield Comparison(f"{name}, CPU of the host", None, row["host_ns"], "ns a frame")
    of = rates["pktpit", 1] / rates["wr", 1]
    yield Comparison("Pktpit, times Wr, 1→1", 0.9, of, "", "≥", "The limit is ours.")
    for pairs, rate in document["l3fwd_alone"].items():
        what = f"l3fwd without wires, {pairs}→{pairs}"
        yield Comparison(what, None, rate, "million frames/s")


def _devmem(document: Document) -> Iterator[Comparison]:
    for row in document["rows"]:
        plan = f"{row['mode']}, packets in {row['memory']}, {row['driver']}"
        at = 0 if row["mode"] != "bounce" else None
        yield Comparison(
            f"packets whose payload was in main memory; {plan}",
            at,
            row["in_main_memory"],
            "packets",
            "≤" if at == 0 else "",
        )


# Two machines with a cable between NICs; the second only has the peer.
HARDWARE = (
    "# machine 2: the other end of the cable",
    "dpdk-devbind.py -b vfio-pci 0000:3b:00.0",
    "hikyaku devmem peer --nic 0000:3b:00.0",
    "",
    "# machine 1: a device with a large BAR below the NIC's switch; cores of the NIC's socket",
    "hikyaku devmem list",
    "dpdk-devbind.py -b vfio-pci 0000:3b:00.0 0000:5e:00.0",
    "hikyaku devmem measure --nics 0000:3b:00.0 --pop pop:bar:0000:5e:00.0,bar=2 --rings \\",
    "    --direction transmit --direction receive --direction both \\",
    "    --load write --load network --load-threads 1 --load-threads 4 --load-threads 8 \\",
    "    --load-cores 2-9 --load-mb 256 --seconds 10 --repeats 5 --size 1514 \\",
    "    --json fig5.json --plot fig5.png",
)


def _load(document: Document) -> Iterator[Comparison]:
    """No comparison has a goal: the paper's are rates, and those of an emulator mean nothing."""
    for cell in document["cells"]:
        text = f"{traffic(cell)}; CPU: {load_name(cell)}"
        yield Comparison(f"frames with wrong data; {text}", None, cell["wrong"], "frames")
        if cell["rings"]:
            yield Comparison(f"rings on the device; {text}", None, cell["ring_bytes"], "bytes")


def _overhead(document: Document) -> Iterator[Comparison]:
    for row in document["rows"]:
        text = f"headers, {row['size']}-byte frames at 40 Gbit/s"
        at = 12 if row["size"] == 64 else None
        yield Comparison(f"{text}; one link, DMA write", at, row["write_headers_gbps"], "Gbit/s")
        for path in ("bounce", "p2p_write", "p2p_read"):
            name = path.replace("_", " ")
            yield Comparison(f"{text}; both links, {name}", None, row[f"{path}_headers_gbps"],
                             "Gbit/s")  # fmt: skip


PAPER = Paper(
    "P4",
    "Network I/O by peer-to-peer DMA (libpop, P2PNIC, Pktpit)",
    "KAKENHI report",
    (
        Figure(
            "P4-paths",
            "Where the bytes of a packet go: bounce, P2PNIC and Pktpit",
            "P2PNIC and Pktpit keep packets out of main memory; bounce does not.",
            DEVMEM,
            EMULATED,
            _devmem,
            kind="emulated",
            wire="QEMU's NICs",
        ),
        Figure(
            "P4-l3fwd",
            "Routers against l3fwd (Fig. 6)",
            "All variants in which the NIC decides forward more than l3fwd, Pktpit too.",
            ROUTER,
            "Routers of the CPU have one core and the load the other. The wires are memif. The "
            "NICs are emulated: each is a process, its BAR is shared memory, and its wire side is "
            "part of it. In 2→2 two NICs share a core.",
            _router,
            None,
            "A core takes the part of a NIC's hardware, so rates are of processes. Without wires "
            "no frame of l3fwd leaves its core, and it can be faster than emulated NICs. "
            "docs/routers.md has the procedure for real NICs.",
            kind="emulated",
            wire="memif",
        ),
        Figure(
            "P4-load",
            "Receiving beside a load on memory (Fig. 5)",
            "CPU writes to main memory cut what a NIC can receive by up to 70 %, and not what goes "
            "peer to peer. Sending does not suffer.",
            DEVMEM,
            EMULATED + " A NIC of the guest sends, receives, and does both. The rows say that the "
            "cells run, that their frames are right, and where packets and descriptor rings are.",
            _load,
            None,
            "No figure here shows the effect: it needs a NIC that shares the bandwidth of memory "
            "with a CPU. docs/devmem.md describes the cells and the loads.",
            HARDWARE,
            kind="emulated",
            wire="QEMU's NICs",
        ),
        Figure(
            "P4-overhead",
            "PCIe bandwidth that headers take (Fig. 2)",
            "Through main memory a packet crosses PCIe twice: up to 12 Gbit/s of headers on a Gen3 "
            "x8 link.",
            OVERHEAD,
            "Computed by the model of pcie-bench. Nothing crosses a link.",
            _overhead,
            None,
            "As restated here, the paper's 12 Gbit/s have neither a size of frames nor a rate: "
            "ours are for 40 GbE.",
            kind="computed",
        ),
    ),
)
