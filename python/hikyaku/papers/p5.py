# SPDX-License-Identifier: BSD-3-Clause
"""P5: run to completion on raw Ethernet, and gossip learning."""

from collections.abc import Iterator

from ..bench.learn.run import ALONE, PASSES, TIME, TO_ONE, TO_TCP, nodes_text
from ..bench.rtc.load import KEPT, RECEIVERS, SOCKET
from .figure import (
    MEMIF,
    VIRTUAL,
    Comparison,
    Document,
    Figure,
    Measurement,
    Paper,
    drawn_by,
    median,
    rows_of,
)


def _rtc(experiments: str, full: tuple[str, ...], quick: tuple[str, ...]) -> Measurement:
    words = ("bench", "rtc", "--experiments", experiments)
    name = experiments.replace(",", "-")
    return Measurement(f"rtc-{name}", (*words, *full), (*words, *quick))


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


TIMES_TCP = ((1, 30), (10, 4), (100, 0.4))  # by repetitions: theirs


def _sum(document: Document) -> Iterator[Comparison]:
    for times, theirs in TIMES_TCP:
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


def _x(row: dict) -> float:
    return row["x"]


def _overload(document: Document) -> Iterator[Comparison]:
    for end, how in (("", ""), ("_plain", ", by a plain loop")):
        for times, theirs in TIMES_TCP:
            name, text = f"collapse_{times}{end}", f"repetitions: {times}{how}"
            for receiver in (SOCKET, "dpdk"):
                kept = {
                    row["x"]: row["median"]
                    for row in rows_of(document, experiment=f"{name}_{KEPT}", backend=receiver)
                }
                if kept:
                    what = (
                        f"{receiver}: handled at {max(kept):g} times the closed loop's rate, of it"
                    )
                    yield Comparison(f"{what}; {text}", None, kept[max(kept)])
            handled = rows_of(document, experiment=f"{name}_delivered", backend="dpdk")
            tcp = median(document, experiment=f"sum{end}", backend="tcp", nodes=2, x=times)
            if handled and tcp:
                most = max(handled, key=_x)
                ours = most["median"] / tcp
                what = f"DPDK at {most['x']:g} times the closed loop's rate, times TCP; {text}"
                yield Comparison(what, theirs, ours, "", "≥")


CARRIED = 1.0  # most % lost, in the best repeat, at a rate that a receiver carries


def _drops(document: Document) -> Iterator[Comparison]:
    carried = {}
    for name in RECEIVERS:
        lost = rows_of(document, experiment="drops_lost", backend=name)
        rates = [
            median(document, experiment="drops_offered", backend=name, x=row["x"])
            for row in lost
            if row["min"] <= CARRIED
        ]
        if lost:
            carried[name] = max(filter(None, rates), default=0.0)
            what = f"rate with at most {CARRIED:g} % lost in the best repeat; {name}"
            yield Comparison(what, None, carried[name], "million/s")
    if carried.get(SOCKET) and carried.get("dpdk"):
        ratio = carried["dpdk"] / carried[SOCKET]
        yield Comparison("such a rate of DPDK, times that of a UDP socket", 1, ratio, "", ">")
    for name in (SOCKET, "dpdk"):
        rows = sorted(rows_of(document, experiment="drops_cpu", backend=name), key=_x)
        for row in (rows[0], rows[-1]) if rows else ():
            what = f"CPU time of a message; {name}, {row['x']:g} million/s"
            note = "It polls, so it takes its core at any rate." if name == "dpdk" else ""
            yield Comparison(what, None, row["median"], "ns", note=note)


LEARNT = {  # by model of `bench learn`
    "line": "y = ax + b",
    "plane": "regression, 16 features",
    "logistic": "logistic regression",
    "svm": "linear SVM",
}
AGAINST = {TO_ONE: ("one node", 2.0), TO_TCP: ("TCP", 1.2)}  # and theirs, for two nodes


def _learn(document: Document) -> Iterator[Comparison]:
    """The paper has figures for a line by two nodes alone, and leaves all others open."""
    for model, name in LEARNT.items():
        alone = {"model": model, "backend": ALONE}
        seconds, passes = (median(document, **alone, metric=m) for m in (TIME, PASSES))
        if seconds is not None:
            yield Comparison(f"{name}: time of one node", None, seconds, "s")
        for row in rows_of(document, model=model):
            by = f"{name}: {nodes_text(row['nodes'])} by {row['backend']}"
            if row["metric"] in AGAINST:
                other, theirs = AGAINST[row["metric"]]
                paper = (model, row["nodes"], row["backend"]) == ("line", 2, "dpdk")
                goal = (theirs, "≥") if paper else (None, "")
                yield Comparison(
                    f"{by}, times as fast as {other}", goal[0], row["median"], "", goal[1]
                )
            elif row["metric"] == PASSES and row["backend"] == "dpdk" and passes:
                yield Comparison(f"{by}: rows, of those of one node", None, row["median"] / passes)


LEARN_QUICK = ("bench", "learn", "--backends", "tcp,raw,dpdk")
OVERLOAD = ("--backends", "tcp", "--receivers", "socket,dpdk", "--adding", "vector,plain")
LOADED = (
    VIRTUAL + "DPDK's wire is memif, the others' is veth, which hands packets to the core of their "
    "receiver (RPS)."
)

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
            "The client waits for answers, so nothing is lost. P5-drops has a sender that does not "
            "wait; `bench rtc --experiments drops --hold-ns N` holds messages there.",
            kind="virtual",
            wire="memif",
        ),
        Figure(
            "P5-sum",
            "Experiment 2: sums against TCP (Fig. 12)",
            "30 times TCP at 1 repetition, 4 times at 10, 0.4 times at 100.",
            _rtc("sum", ("--repeats", "5"), ("--repeats", "1", "--sum-ms", "300")),
            "Two nodes in namespaces, one core each. DPDK's wire is memif, the others' is veth.",
            _sum,
            drawn_by("rtc"),
            "The client waits for answers, so overload does not lose messages. P5-overload has a "
            "sender that does not wait. The sum uses AVX2 where the CPU has it.",
            kind="virtual",
            wire="memif, veth",
        ),
        Figure(
            "P5-overload",
            "Experiment 2 with a sender that does not wait",
            "At 100 repetitions 0.4 times TCP, since receiving starves.",
            _rtc(
                "sum,collapse",
                (*OVERLOAD, "--loads", "1,4", "--repeats", "5"),
                (
                    *OVERLOAD,
                    "--loads",
                    "4",
                    "--repeats",
                    "1",
                    "--sum-ms",
                    "300",
                    "--load-ms",
                    "100",
                ),
            ),
            LOADED,
            _overload,
            drawn_by("rtc"),
            "Where one core cannot send as much as is asked, the offered rate is lower than its "
            "name; the tables of the command have it. `--receivers pipeline` is a pipeline of two "
            "threads, which needs a machine of four cores.",
            kind="virtual",
            wire="memif, veth",
        ),
        Figure(
            "P5-learn",
            "Gossip learning (Fig. 14)",
            "Two nodes learn twice as fast as one, and 1.2 times as fast as by TCP.",
            Measurement(
                "learn",
                ("bench", "learn", "--nodes", "1..16", "--repeats", "3"),
                (*LEARN_QUICK, "--nodes", "1,2", "--repeats", "1"),
            ),
            "Nodes in namespaces of one machine, one core each; more nodes than cores share them, "
            "and yield. DPDK's wire is memif, the others' is veth.",
            _learn,
            drawn_by("learn"),
            "Nodes that share a core show what gossip costs, and not how many machines would "
            "scale. Raw is the kernel's packet socket: what it gains over TCP comes without DPDK.",
            kind="virtual",
            wire="memif, veth",
        ),
        Figure(
            "P5-drops",
            "Lost packets and CPU by load (Figs. 5 and 6)",
            "The kernel loses packets at a load that DPDK carries.",
            _rtc("drops", ("--repeats", "5"), ("--repeats", "1", "--load-ms", "100")),
            LOADED,
            _drops,
            drawn_by("rtc"),
            "Sender and receiver have a core each, so no sender reaches 10 GbE's line rate. The "
            "CPU time of the kernel is seen where it is the process's, or a tick of its core.",
            kind="virtual",
            wire="memif, veth",
        ),
    ),
)
