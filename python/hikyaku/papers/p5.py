# SPDX-License-Identifier: BSD-3-Clause
"""P5: run to completion on raw Ethernet, and gossip learning."""

from collections.abc import Iterator

from .figure import (
    MEMIF,
    Comparison,
    Document,
    Figure,
    Measurement,
    Paper,
    drawn_by,
    median,
    rows_of,
)


def _rtc(experiment: str, full: tuple[str, ...], quick: tuple[str, ...]) -> Measurement:
    words = ("bench", "rtc", "--experiments", experiment)
    return Measurement(f"rtc-{experiment}", (*words, *full), (*words, *quick))


FLAT = 0.9  # of the rate without a hold


def _hold(document: Document) -> Iterator[Comparison]:
    for frame, burst_ns in ((64, 1600), (128, 3200)):
        rates = {row["x"]: row["median"] for row in rows_of(document, experiment=f"hold_{frame}B")}
        flat = max(ns for ns, rate in rates.items() if rate >= FLAT * rates[0])
        yield Comparison(
            f"hold up to which throughput is flat; {frame} B",
            burst_ns / 32,
            flat,
            "ns a packet",
            note=f"theirs: {burst_ns} ns for a burst of 32, at 10 Gbit/s. The wire here has no "
            "rate, so every hold costs.",
        )
        yield Comparison(f"without a hold; {frame} B", None, rates[0], "million/s")


def _sum(document: Document) -> Iterator[Comparison]:
    for times, theirs in ((1, 30), (10, 4), (100, 0.4)):
        for tcp in ("tcp", "tcp:batch=1"):
            over = {"experiment": "sum", "nodes": 2, "x": times}
            ours, other = (median(document, backend=b, **over) for b in ("dpdk", tcp))
            if ours is None or other is None:
                continue
            plain = tcp == "tcp"
            how = "a send() a message" if plain else "a send() a burst"
            yield Comparison(
                f"DPDK, times TCP with {how}; repetitions: {times}",
                theirs if plain else None,
                ours / other,
                "",
                "≥" if plain else "",
            )


def _learn(document: Document) -> Iterator[Comparison]:
    def seconds(backend: str, nodes: int) -> float | None:
        return median(document, experiment="learn", backend=backend, nodes=nodes)

    one, two, tcp = seconds("none", 1), seconds("dpdk", 2), seconds("tcp", 2)
    if one and two:
        yield Comparison("time of one node, times that of two by DPDK", 2, one / two, "", "≥")
    if tcp and two:
        yield Comparison("time of two nodes by TCP, times by DPDK", 1.2, tcp / two, "", "≥")


PAPER = Paper(
    "P5",
    "Distributed computing on raw Ethernet, run to completion",
    "Yamamoto, Kawashima and Matsuo, 2022",
    (
        Figure(
            "P5-hold",
            "Experiment 1: messages that are held (Fig. 10)",
            "10 GbE at full rate: flat up to 1600 ns at 64 B, and 3200 ns at 128 B.",
            _rtc("hold", ("--repeats", "5"), ("--repeats", "1", "--batches", "100")),
            MEMIF + " The client keeps 128 messages open.",
            _hold,
            drawn_by("rtc"),
            "The client waits for answers, so nothing is lost. A sender with a rate of its own "
            "does not exist yet.",
        ),
        Figure(
            "P5-sum",
            "Experiment 2: sums against TCP (Fig. 12)",
            "30 times TCP at 1 repetition, 4 times at 10, 0.4 times at 100.",
            _rtc("sum", ("--repeats", "5"), ("--repeats", "1", "--sum-ms", "300")),
            "Two nodes in namespaces, one core each. DPDK's wire is memif, the others' is veth.",
            _sum,
            drawn_by("rtc"),
            "The client waits for answers, so overload does not lose messages. The sum uses AVX2 "
            "where the CPU has it.",
        ),
        Figure(
            "P5-learn",
            "Gossip learning (Fig. 14)",
            "Two nodes learn twice as fast as one, and 1.2 times as fast as by TCP.",
            _rtc("learn", ("--repeats", "5"), ("--repeats", "1")),
            MEMIF,
            _learn,
            drawn_by("rtc"),
            "16 features in place of y = ax + b.",
        ),
        Figure(
            "P5-drops",
            "Lost packets and CPU by load (Figs. 5 and 6)",
            "The kernel loses packets at a load that DPDK carries.",
            open="It needs a sender with a rate of its own, which does not exist yet.",
        ),
    ),
)
