# SPDX-License-Identifier: BSD-3-Clause
"""Small documents of each benchmark, in the form that its run() returns. The figures are made up,
of the order of magnitude of measured ones."""

import math
from collections.abc import Container

from hikyaku.bench.common.summary import summary
from hikyaku.bench.halo import run as halo
from hikyaku.bench.halo import solves
from hikyaku.bench.learn import run as learn
from hikyaku.bench.learn.problems import PROBLEMS
from hikyaku.bench.rtc import load as rtc_load
from hikyaku.bench.rtc import run as rtc
from hikyaku.bench.sdn import bcast, failover, model, several, tags, times
from hikyaku.bench.sdn.run import Row, row

ABOUT = {"cpu": "AMD EPYC 7763 64-Core Processor", "repeats": 7, "open_mpi": "4.1.4"}
ABOUT |= {"dpdk": "22.11.11", "cores": 2, "load_at_start": 0.5, "mtu": 3506, "init_ms": {}}
ABOUT |= {"rounds": 5, "window": 32, "load_ms": 500, "hold_ns": 0}
DEMO_SIZES = [1, 8, 64, 512, 2048, 8192, 65536, 262144, 1 << 20, 1 << 22]


def around(value: float) -> list[float]:
    """Three samples."""
    return [0.9 * value, value, 1.2 * value]


def mpi(
    wires: list[str], metrics: list[str], sizes: list[int], protected: tuple[str, ...] = ()
) -> dict:
    """raw is missing in some rows, as in a run."""

    def value(transport: str, metric: str, size: int) -> float:
        start, per_byte = {
            "tcp": (7, 5e-4),
            "hikyaku": (0.7, 8e-5),
            "raw": (0.26, 5e-5),
            "shm": (0.17, 7e-5),
            "off": (0.7, 8e-5),
            "auth": (0.76, 1e-4),
            "seal": (0.79, 1.4e-4),
            "tls": (8, 6e-4),
        }[transport]
        time = start + size * per_byte
        of = {"latency_us": time, "messages_per_s": 1e6 / time}
        return of.get(metric, size / time)

    def has(transport: str, metric: str, size: int) -> bool:
        return transport != "raw" or (metric == "latency_us" and size <= 8192)

    rows = [
        {
            "wire": wire,
            "metric": metric,
            "size": size,
            **{
                t: summary(around(value(t, metric, size))) if has(t, metric, size) else None
                for t in ("tcp", "hikyaku", "raw", "shm", *protected)
            },
        }
        for wire in wires
        for metric in metrics
        for size in sizes
    ]
    return {"machine": ABOUT, "rows": rows}


def routers() -> dict:
    """Pktpit is a little slower than Wr, and all emulated NICs are faster than l3fwd."""
    rates = {"wr": 18.0, "rd": 17.0, "bn": 16.5, "pktpit": 16.9}
    link = {"bytes_a_frame": 97.6, "payload_a_frame": 64.0, "header_share": 0.34}
    nics = [
        {
            "variant": variant,
            "pairs": pairs,
            "rate": rate,
            "receiver_ns": 55.0,
            "sender_ns": 14.5,
            "host_ns": 5.0 if variant == "pktpit" else 0.0,
            "p50_us": 0.4 if pairs == 1 else None,
            "p99_us": 3.0 if pairs == 1 else None,
            "links": [link | {"nic": nic} for nic in range(2 * pairs)],
        }
        for pairs in (1, 2)
        for variant, rate in rates.items()
    ]
    return {
        "machine": ABOUT,
        "l3fwd": 13.0,
        "bounce": 11.7,
        "share": 0.9,
        "refused": {"l3fwd": 0.8, "bounce": 0.85},
        "delay": {who: {"p50_us": 1.5, "p99_us": 12.0} for who in ("l3fwd", "bounce")},
        "l3fwd_alone": {"1": 24.5, "2": 23.9},
        "prefixes": 1_000_000,
        "nics": nics,
        "fib": {
            **{kind: {"mlps": 100.0} for kind in ("any_address", "routed_address")},
            **{form: {"load_s": 0.9} for form in ("text", "mrt")},
            "update_us": {"/8": {"worst": 400.0}, "/24": {"worst": 4.0}},
        },
    }


def protocols(carriers: list[str], sizes: list[int]) -> dict:
    """Rendezvous costs a round trip, and eager messages a copy."""

    def value(carrier: str, protocol: str, size: int) -> float:
        start, per_byte = (7, 5e-4) if carrier == "tcp" else (0.7, 8e-5)
        eager, asked = start + 2 * size * per_byte, 2 * start + size * per_byte
        return {"eager": eager, "rendezvous": asked, "own": min(eager, asked)}[protocol]

    rows = [
        {"carrier": carrier, "protocol": protocol, "size": size}
        | summary(around(value(carrier, protocol, size)))
        for carrier in carriers
        for protocol in ("eager", "rendezvous", "own")
        for size in sizes
    ]
    return {"machine": ABOUT, "rows": rows}


def halo_exchange(ports: list[int]) -> dict:
    """A over several sizes, B of one, E with one port, and F."""
    sizes = [800, 8000, 24_000, 80_000, 240_000, 800_000]
    all_of = {"A": (*halo.BETWEEN, *halo.OTHERS), "B": (*halo.BETWEEN, *halo.OTHERS)}
    rows = []
    for experiment, methods in (all_of | {"E": halo.WITHIN}).items():
        for size in sizes if experiment != "B" else [80_000]:
            for i, method in enumerate(methods):
                if experiment == "A" and method == halo.PACKED:
                    continue
                for count in ports if i and experiment != "E" else ports[:1]:
                    key = {"experiment": experiment, "processes": 2, "bytes": size}
                    key |= {"method": method, "ports": count, "unit": "us"}
                    rows.append(key | summary(around((13 + size / 2400) / (1 + i) * count)))
    return {"machine": ABOUT, "rows": rows, "promoted": {}, "solves": whole_solves()}


def whole_solves() -> list[dict]:
    """Fortran takes a little longer than C, and halo is the fastest exchange."""
    of = {solves.TCP: 1.5, solves.MPI: 1.0, solves.HALO: 0.96}
    common = {"processes": 2, "cube": 40, "steps": 66, "residual": 8e-11, "unit": "ms"}
    return [
        {"partition": partition, "language": language, "exchange": exchange, **common}
        | summary(around(part * (100 if language == "C" else 104)))
        for partition in solves.PARTITIONS
        for language in solves.LANGUAGES
        for exchange, part in of.items()
    ]


def loaded(case: rtc.Case, most: float) -> dict[str, float]:
    """Of a receiver that can handle @most million messages a second."""
    offered = case.x if case.experiment == "drops" else (case.x or 0.9) * most
    delivered = min(offered, most)
    return {
        "offered": offered,
        "delivered": delivered,
        "answered": delivered,
        "lost": 100 * (1 - delivered / offered),
        "cpu": 1e3 / delivered,
        "softirq": 300.0,
        "core": 1e3 / delivered,
        "p50": 9.0,
        "p99": 30.0 if offered < most else 4000.0,
        rtc_load.KEPT: delivered / (0.9 * most),
    }


def scale(processes: list[int]) -> dict:
    """More ranks take less time, and puts take less than MPI."""
    counts, times = [], []
    for experiment in "BC":
        for count in processes:
            key = {"experiment": experiment, "processes": count}
            sizes = {"neighbours": 6, "bytes": 480_000 // count, "bytes_all": 480_000}
            real = True if count < 48 else None
            counts.append(key | sizes | {"messages": 6 * count, "counted": real})
            for method, ports, us in (("mpi", 1, 60), ("halo", 1, 40), ("halo", 4, 20)):
                row = key | {"method": method, "ports": ports, "exchange_us": us + 300 / count}
                times.append(row)
    two = {"experiment": "C", "processes": 2, "exchange_us": 16.0, "measured_us": summary([24.0])}
    measured = [two | {"method": method} for method in ("mpi", "halo")]
    network = {"rate_gbit": 100, "frame": 9000, "eager": 16384, "seed": 1}
    return {"machine": ABOUT, "network": network, "counts": counts, "times": times,
            "measured": measured}  # fmt: skip


def run_to_completion() -> dict:
    plan = rtc.Plan(list(rtc.EXPERIMENTS), list(rtc.WIRES), 3, adding=tuple(rtc.ADDING))
    rate = dict(zip(rtc.WIRES, (0.14, 2, 0.4, 0.6, 0.5, 8.4), strict=True)) | {rtc.LOOP: 16.0}
    rate[rtc_load.SOCKET] = 0.3
    values = []
    for case in (case for group in rtc.cases(plan) for case in group):
        key = (case.experiment, case.backend, case.nodes, case.x)
        if case.experiment.startswith("sum"):
            samples = [
                (*key, rtc.MILLION, v) for v in around(rate[case.backend] * 9 / (9 + case.x))
            ]
            samples.append((f"{case.experiment}_handler", *key[1:], rtc.NS, 4 * case.x))
        elif case.experiment.partition("_")[0] in ("drops", "collapse"):
            samples = [
                (f"{case.experiment}_{name}", *key[1:], rtc_load.COLLAPSE_METRICS[name], v)
                for name, median in loaded(case, rate[case.backend]).items()
                if name in rtc_load.METRICS or case.experiment != "drops"
                for v in around(median)
            ]
        else:
            samples = [
                (*key, rtc.MILLION, v) for v in around(rate[case.backend] * 9 / (9 + case.x))
            ]
        values += [rtc.Value(*sample) for sample in samples]
    return {"machine": ABOUT, "rows": rtc.rows(values, plan)}


def learning(nodes: list[int]) -> dict:
    """More nodes take less time, and TCP takes twice as long as DPDK."""
    plan = learn.Plan(list(PROBLEMS), list(learn.BACKENDS), nodes, 3)
    slow = dict(zip(learn.BACKENDS, (2, 1.8, 1.6, 1.5, 1.2, 1), strict=True)) | {learn.ALONE: 1}
    found = {}
    for case, repeat in learn.steps(plan):
        time = around(3.2 * slow[case.backend] / case.nodes)[repeat]
        rate = {learn.TIME: time, learn.ITERATIONS: 250_000 / time, learn.PASSES: 40 / case.nodes}
        found[case, repeat] = rate | {learn.LOSS: 1.0006, learn.QUALITY: 0.9181}
    about = {"rows": plan.rows, "seed": 1, "gossip_every": 4, "batch": learn.BATCH, "repeats": 3}
    about["targets"] = {name: problem.target for name, problem in PROBLEMS.items()}
    return {"machine": ABOUT | about, "rows": learn.table(found, plan)}


def _tags(name: str) -> list[Row]:
    rows = []
    for size in (1 << i for i in range(22)):
        time = 20 + size / 900
        for (metric, unit), value in zip(tags.UNITS.items(), (time, size / time), strict=True):
            rows += [row(name, method, 2, size, unit, around(value)) for method in tags.METHODS]
            rows.append(row(name, tags.RATIO, 2, size, tags.RATIOS[metric], [0.97, 1.01, 1.05]))
    return rows


def network(names: Container[str] | None = None) -> dict:
    """The experiments of `bench sdn` with these @names, or all."""
    rows = [*_tags("tags"), *_tags("tags_direct")]
    for program, ns in (("egress", 166), ("ingress", 202)):
        rows.append(row("tags_direct", program, 2, 0, tags.PROGRAM, around(ns)))
    for unit, values in (
        (bcast.OF_PAYLOAD, (1, 1.2, 3, 3.1)),
        (bcast.FRAMES_LOST, (0, 45, 0, 130)),
    ):
        for method, value in zip(bcast.METHODS, values, strict=True):
            rows.append(row("bcast", method, 8, bcast.PAYLOAD, unit, around(value)))
    for name, value in ((model.SPREAD_BY_RANK, 3), (model.LEAST, 3), (model.WORST, 6)):
        rows.append(row("spread", name, 8, 0, model.FLOWS, around(value)))
    for name in (f"{model.LEAST} of {model.WORST}", f"of {model.MEAN}", f"of {model.LEAST}"):
        rows.append(row("spread", name, 8, 0, "ratio", around(0.5)))
    for what, value in (("doubling worst, tcp", 100), ("ring best, tcp", 300)):
        for name, part in ((times.SPREAD, 0.5), (times.HASHING, 1), (times.ONE_PATH, 1.1)):
            method = f"{name}, {what}"
            rows.append(row("allreduce_time", method, 8, times.SIZE, times.MS, around(value)))
            if name != times.HASHING:
                rows.append(row("allreduce_time", method, 8, times.SIZE, times.RATIO, [part]))
    for name, part in ((times.SPREAD, 0.5), (times.HASHING, 1)):
        method = f"{name}, {several.ONE_PROGRAM}"
        rows.append(row("several_time", method, 8, times.SIZE, times.MS, around(100 * part)))
    rows.append(
        row("several_time", f"{times.SPREAD}, {several.WORST}", 8, times.SIZE, times.RATIO, [0.5])
    )
    for name, lost in (("next link", [7, 8, 8]), ("link behind the spine", [0, 5, 9])):
        rows.append(row("failover", name, 8, 64, failover.LOST, lost))
    for ranks in (8, 16, 32, 128, 512):
        rows.append(row("entries", "edge", ranks, 0, model.ENTRIES, [20 + ranks / 10]))
        rows.append(row("entries", "inside", ranks, 0, model.ENTRIES, [3]))
    rows.append(row("scale", "1000 hosts", 0, 0, model.SECONDS, around(0.3)))
    chosen = [r for r in rows if names is None or r["experiment"] in names]
    return {"machine": ABOUT, "rows": chosen}


def dma(lost: dict[str, int]) -> dict:
    """@lost: frames, by load of the CPU, of the NIC."""
    cells = []
    for device in ("nic", "nvme"):
        for load in ("nothing", "read", "write", "train"):
            for pop in ("none", "pop:bar:0000:5e:00.0,bar=2"):
                rate = {"nic": 1.1, "nvme": 3.0}[device] / (1 + (pop == "none") * len(load) / 9)
                cell = {"device": device, "pop": pop, "load": load, "wrong": 0}
                cell |= {"direction": "loop", "rings": False}
                cell |= {"load_threads": 2 * (load != "nothing")}
                cell |= {"lost": lost.get(load, 0) if device == "nic" else 0}
                cell |= {"gbit_per_s": summary(around(rate))}
                cells.append(cell | {"latency_us": summary(around(90 / rate))})
    for direction in ("transmit", "receive"):
        for load, threads in (("nothing", 0), ("write", 2)):
            cell = {"device": "nic", "direction": direction, "pop": "none", "rings": False}
            cell |= {"load": load, "load_threads": threads, "lost": 0, "wrong": 0}
            cell |= {"gbit_per_s": summary(around(2.0)), "latency_us": None}
            cells.append(cell)
    return {"repeats": 3, "emulated": True, "cells": cells}


def training(nodes: int, first: float, last: float, false: dict[int, float]) -> list[dict]:
    """The lines of nodes whose loss falls from @first to @last. @false: the loss of others."""
    lines = []
    for step in range(40):
        loss = last + (first - last) * math.exp(-step / 3)
        for node in range(nodes):
            line = {"event": "progress", "node": node, "time": (step + node / nodes) / 200}
            line |= {"bytes": 70_000 * step, "loss": false.get(node, loss), "loss_all": loss}
            lines.append(line)
    return lines


def simulation(scenario: str, **more: object) -> dict:
    """The members of a result that its plot shows."""
    bins = [400_000 - 900 * i for i in range(300)]
    return {
        "workers": False,
        "scenario": scenario,
        "hosts": 257,
        "rate_gbit": 25,
        "frame": 1500,
        "topology": "star",
        "buffer": 1 << 20,
        "seed": 1,
        "queue": {"bin_us": 2048.0, "mean": bins, "max": [2 * x for x in bins]},
        "quantiles_us": [1500 * 1.02**i for i in range(201)],
        **more,
    }
