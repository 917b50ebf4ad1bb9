# SPDX-License-Identifier: BSD-3-Clause
"""P1: an Open MPI transport over DPDK, and a polling process."""

from collections.abc import Iterator

from .figure import (
    MEMIF,
    VETH,
    VIRTUAL,
    Comparison,
    Document,
    Figure,
    Measurement,
    Paper,
    drawn_by,
    rows_of,
)


def _mpi(wire: str) -> Measurement:
    words = ("bench", "mpi", "--metrics", "latency_us", "--transports", "tcp,hikyaku,raw")
    words = (*words, "--wire", wire)
    full = (*words, "--sizes", "1..1M", "--repeats", "7")
    return Measurement(
        f"mpi-{wire}", full, (*words, "--sizes", "8,2K,16K,128K,1M", "--repeats", "3")
    )


def _latency(document: Document) -> Iterator[Comparison]:
    of_tcp = {
        row["size"]: row["hikyaku"]["median"] / row["tcp"]["median"] for row in document["rows"]
    }
    yield Comparison("below TCP at 2 KB", 77, 100 * (1 - of_tcp[2048]), "%", "≥")
    for row in document["rows"]:
        if row["size"] == 2048 and "raw" in row:
            raw = row["raw"]["median"] / row["tcp"]["median"]
            yield Comparison("the same by raw frames, without MPI", None, 100 * (1 - raw), "%")
    best = min(of_tcp, key=of_tcp.__getitem__)
    yield Comparison(f"below TCP in the best case ({best} B)", 77, 100 * (1 - of_tcp[best]), "%")
    worst = max(of_tcp, key=of_tcp.__getitem__)
    yield Comparison(f"of TCP's, worst size ({worst} B)", 1, of_tcp[worst], "", "<")


LATENCY = (
    "Two nodes, 10 GbE (82599), osu_latency from 1 B to 1 MB: lower than TCP at every size. At "
    "best it is 77 % lower, at 2 KB."
)

_PROTOCOLS = ("bench", "protocols")
PROTOCOLS = Measurement(
    "protocols",
    (*_PROTOCOLS, "--repeats", "5"),
    (*_PROTOCOLS, "--repeats", "1", "--carriers", "tcp,split", "--sizes", "2K,8K,16K,32K,64K"),
)


def _protocols(document: Document) -> Iterator[Comparison]:
    from ..bench.protocols.report import carriers, crossover, curve, label
    from ..bench.protocols.run import EAGER, RENDEZVOUS, TCP

    for carrier in carriers(document):
        found = crossover(document, carrier)
        if found is not None and carrier != TCP:
            text = f"rendezvous is not slower from here on; {label(carrier)}"
            yield Comparison(text, 26, found / 1e3, "KB", note="theirs: between 13 and 26 KB")
        for protocol in (EAGER, RENDEZVOUS):
            ours, tcp = (curve(document, c, protocol) for c in (carrier, TCP))
            if carrier == TCP or not tcp:
                continue
            worst = max(ours[size] / tcp[size] for size in ours)
            text = f"{protocol}, of TCP's {protocol}, worst size; {label(carrier)}"
            yield Comparison(text, 1, worst, "", "<")


_MODES = ("bench", "modes", "--metrics", "busy,flood")
MODES = Measurement("modes", (*_MODES, "--repeats", "3"), (*_MODES, "--repeats", "1"))


def _modes(document: Document) -> Iterator[Comparison]:
    for row in rows_of(document, metric="flood_ratio"):
        what = f"ping-pong beside a flood, of that alone; mode {row['mode']}"
        yield Comparison(what, None, row["hikyaku"]["median"])
    for row in rows_of(document, metric="busy_early_ms"):
        what = f"the sender is done before a busy receiver is back; mode {row['mode']}"
        yield Comparison(what, None, row["hikyaku"]["median"], "ms")


TRIALS = Measurement(
    "trials",
    ("trials", "--repeats", "3"),
    ("trials", "--repeats", "1", "netpipe", "lammps"),
)


def _trials(document: Document) -> Iterator[Comparison]:
    from ..trials.run import differing

    for row in document["rows"]:
        if "seconds" not in row:
            continue
        times = row["seconds"]
        yield Comparison(
            f"time of {row['name']}, of that over TCP",
            None,
            times["hikyaku"]["median"] / times["tcp"]["median"],
        )
        text = f"results of {row['name']} that differ from TCP's, of {row['figures']}"
        yield Comparison(text, 0, differing(row), "figures", "≤")


PAPER = Paper(
    "P1",
    "MPI implementation using DPDK framework",
    "Shimada and Hayasaka, 2017",
    (
        Figure(
            "P1-latency-memif",
            "Latency by message size (Fig. 11), user-space wire",
            LATENCY,
            _mpi("memif"),
            MEMIF,
            _latency,
            drawn_by("mpi"),
            "The paper forces each protocol, eager and rendezvous, at every size. Here the library "
            "chooses, as it does for users.",
            kind="virtual",
            wire="memif",
            bound="Both ranks copy the message between its buffer and a frame, and raw frames are "
            "not copied.",
        ),
        Figure(
            "P1-latency-veth",
            "Latency by message size (Fig. 11), kernel wire by AF_XDP",
            LATENCY,
            _mpi("veth"),
            VETH,
            _latency,
            drawn_by("mpi"),
            "A frame of AF_XDP has at most the MTU, and TCP passes 64 KiB in one piece. So long "
            "messages are slower than TCP's.",
            kind="virtual",
            wire="veth",
            bound="The kernel moves each frame between the two sockets, and takes most of the "
            "time. Raw frames, without MPI, wait for it as well.",
        ),
        Figure(
            "P1-polling",
            "Polling by ranks, by a process, or by both",
            "If ranks alone poll, queues overflow while they compute. If a process polls for all, "
            "a flood to one rank starves the others. So a process receives what is eager, and "
            "ranks receive the rest. The paper has no figure for it.",
            MODES,
            VIRTUAL + "The wire is memif. Mode split is the paper's design.",
            _modes,
            kind="virtual",
            wire="memif",
        ),
        Figure(
            "P1-protocols",
            "Forced protocols: eager below 13 KB, rendezvous above 26 KB (Fig. 11)",
            "Over DPDK, eager has the lower latency below 13 KB, and rendezvous above 26 KB. Both "
            "are below TCP's, forced alike.",
            PROTOCOLS,
            MEMIF + " Mode split is the paper's design.",
            _protocols,
            drawn_by("protocols"),
            "Up to 64 KiB in place of 1 MB: Hikyaku sends at most 16 frames eagerly. Its "
            "rendezvous is a get of the receiver, and not the paper's two packets.",
            kind="virtual",
            wire="memif",
            bound="In modes split and daemon hikyakud and the rank share the one core of a node. "
            "So a message waits until the kernel has switched between the two.",
        ),
        Figure(
            "P1-applications",
            "Mini-applications (future work of the paper)",
            "Only osu_latency was measured.",
            TRIALS,
            MEMIF,
            _trials,
            None,
            "Programs that Debian packages, if they are installed. docs/trials.md has others that "
            "were run by hand.",
            kind="virtual",
            wire="memif",
        ),
    ),
)
