# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `bench scale`."""

from rich.console import Console
from rich.table import Table

from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number
from .run import HALO, MPI, REAL_GBIT, time_of

TITLES = {"B": "blocks of rows", "C": "METIS"}
_COUNTED = {True: "equal", False: "not equal", None: "–"}


def ports_of(document: dict) -> list[int]:
    return sorted({t["ports"] for t in document["times"] if t["method"] == HALO})


def _counts(document: dict) -> Table:
    table = left_titled("Messages of an exchange, computed; real ranks counted")
    for name in ("experiment", "ranks", "messages", "neighbours,\nmost", "bytes sent,\nmost"):
        table.add_column(name, justify="right")
    table.add_column("counted by\nreal ranks")
    for row in document["counts"]:
        table.add_row(
            row["experiment"],
            str(row["processes"]),
            str(row["messages"]),
            str(row["neighbours"]),
            str(row["bytes"]),
            _COUNTED[row["counted"]],
        )
    return table


def _times(document: dict, experiment: str) -> Table:
    ports = ports_of(document)
    table = left_titled(f"{experiment}: {TITLES[experiment]}; SIMULATED µs an exchange")
    names = [f"halo,\n{p} port{'s' if p > 1 else ''}" for p in ports]
    for name in ("ranks", "MPI", *names, *(n.replace("halo", "of MPI") for n in names)):
        table.add_column(name, justify="right")
    for count in dict.fromkeys(t["processes"] for t in document["times"]):
        key = {"experiment": experiment, "processes": count}
        mpi = time_of(document, **key, method=MPI)
        ours = [time_of(document, **key, method=HALO, ports=p) for p in ports]
        if mpi is None:
            continue
        ratios = [f"{100 * t / mpi:.0f}%" if t else "–" for t in ours]
        table.add_row(str(count), number(mpi), *map(number, ours), *ratios)
    return table


def _measured(document: dict) -> Table:
    table = left_titled(
        f"Two ranks on links of {REAL_GBIT} Gb/s: measured, and simulated; µs an exchange"
    )
    names = ("measured,\nmedian", "measured,\nleast", "simulated", "median of\nsimulated")
    for name in ("experiment", "method", *names):
        table.add_column(name, justify="right")
    for row in document["measured"]:
        real, model = row["measured_us"], row["exchange_us"]
        times = map(number, (real["median"], real["min"], model))
        ratio = f"{real['median'] / model:.2f}×"
        table.add_row(row["experiment"], row["method"], *times, ratio)
    return table


def show(document: dict, console: Console) -> None:
    network = document["network"]
    console.print(_counts(document))
    for experiment in TITLES:
        console.print(_times(document, experiment))
    console.print(_measured(document))
    warn_if_busy(document["machine"], console)
    console.print(
        f"Simulated: one rank a node, one network switch, links of {network['rate_gbit']} Gb/s, "
        f"{network['frame']}-byte frames, without copies or other work of a CPU. MPI is Isend and "
        f"Irecv, eager up to {network['eager']} bytes, by one port.",
        highlight=False,
    )
