# SPDX-License-Identifier: BSD-3-Clause
"""P4: packets that stay in device memory, and routers."""

from collections.abc import Iterator

from .figure import EMULATED, Comparison, Document, Figure, Measurement, Paper

ROUTER = Measurement(
    "router",
    ("bench", "router", "--repeats", "5"),
    ("bench", "router", "--repeats", "1", "--batches", "100"),
)
DEVMEM = Measurement(
    "devmem",
    ("bench", "devmem", "--packets", "5000"),
    ("bench", "devmem", "--packets", "300", "--memory", "ivshmem", "--memory", "main"),
)


def _router(document: Document) -> Iterator[Comparison]:
    yield Comparison("router that bounces packets, of l3fwd", None, document["share"])
    yield Comparison("l3fwd", None, document["l3fwd"], "million frames/s")
    yield Comparison("bounce", None, document["bounce"], "million frames/s")


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
        ),
        Figure(
            "P4-l3fwd",
            "Routers against l3fwd (Fig. 6)",
            "All variants in which the NIC decides forward more than l3fwd, Pktpit too.",
            ROUTER,
            "One core for the router and one for the load. The wires are memif.",
            _router,
            None,
            "The router here is a loop of the CPU that bounces packets through main memory. A NIC "
            "that decides by itself is not emulated yet.",
        ),
        Figure(
            "P4-load",
            "Receiving beside a load on memory (Fig. 5)",
            "CPU writes to main memory cut what a NIC can receive by up to 70 %, and not what goes "
            "peer to peer. Sending does not suffer.",
            open="It needs a NIC that shares the bandwidth of memory with a CPU. docs/devmem.md "
            "has the tool and the procedure.",
        ),
        Figure(
            "P4-overhead",
            "PCIe bandwidth that headers take (Fig. 2)",
            "Up to 12 Gbit/s on a Gen3 x8 link.",
            open="The model of PCIe overhead does not exist yet.",
        ),
    ),
)
