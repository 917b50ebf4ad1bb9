# SPDX-License-Identifier: BSD-3-Clause
"""The tables and goals of `bench halo`."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from ..common import goals
from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number, show_core_distance, size_text
from . import solves
from .run import BETWEEN, COPIES, LOSSLESS, LOSSY, OTHERS, PACKED, SETUP, WAYS, WITHIN

TITLES = {
    "A": "two ranks, one piece each way",
    "B": "27-point matrix, blocks of rows",
    "C": "27-point matrix, METIS",
    "D": "two ranks, nothing to promote",
    "E": "two ranks of one node, one piece each way",
}


def titles(document: dict) -> dict[str, str]:
    """The subject of each experiment of @document."""
    matrix = document["machine"].get("matrix")
    shown = f"matrix {matrix}" if matrix else "27-point matrix"
    return {name: text.replace("27-point matrix", shown) for name, text in TITLES.items()}


# Largest size, in bytes, that the BTL sends eagerly; longer messages use rendezvous.
EAGER = 16 << 10


def cells(rows: list[dict], experiment: str, ports: int = 1) -> dict[int, dict[str, dict]]:
    """The rows of @experiment with @ports, by bytes and method. TCP, with one port, is in each."""
    found: dict[int, dict[str, dict]] = {}
    for row in rows:
        if row["experiment"] == experiment and (
            row.get("ports", 1) == ports or row["method"] == "mpi-tcp"
        ):
            found.setdefault(row["bytes"], {})[row["method"]] = row
    return found


def numbers_of_ports(rows: list[dict]) -> list[int]:
    return sorted({row["ports"] for row in rows if row["method"] != "mpi-tcp"})


def _ratio(by: dict[str, dict], other: str, method: str = "halo") -> float | None:
    if method not in by or other not in by:
        return None
    return by[method]["median"] / by[other]["median"]


def judge(
    rows: list[dict], promoted: dict[str, float], solved: list[dict] | None = None
) -> list[dict]:
    """The goals, each for its worst size, with one port.

    @promoted: by experiment, the share of the steady bytes that the promoter sent by puts.
    @solved: the rows of whole solves.
    """
    wanted = [
        ("A", "of TCP, 8 kB to 800 kB", "mpi-tcp", 0.20, 8000),
        ("A", "of persistent requests over the BTL, rendezvous", "persistent-btl", 0.80, EAGER + 1),
        ("B", "of TCP", "mpi-tcp", 0.25, 0),
        ("C", "of TCP", "mpi-tcp", 0.25, 0),
        ("B", "of Isend and Irecv over the BTL", "mpi-btl", 0.80, 0),
        ("C", "of Isend and Irecv over the BTL", "mpi-btl", 0.80, 0),
    ]
    found = []
    for experiment, text, other, limit, least in wanted:
        by_size = cells(rows, experiment)
        ratios = [r for b, by in by_size.items() if b >= least and (r := _ratio(by, other))]
        found += goals.worst(f"{experiment}: {text}", ratios, "≤", limit, "size")
    within = [r for by in cells(rows, "E").values() if (r := _ratio(by, "mpi-shm", "halo-shm"))]
    found += goals.worst("E: of Isend and Irecv within a node", within, "≤", 1, "size")
    for experiment in TITLES:
        pays = [
            by[SETUP]["median"] / saved
            for by in cells(rows, experiment).values()
            if {SETUP, "mpi-tcp", "halo"} <= by.keys()
            and (saved := by["mpi-tcp"]["median"] - by["halo"]["median"]) > 0
        ]
        text = f"{experiment}: exchanges until the set-up pays off, against TCP"
        found += goals.worst(text, pays, "≤", 10, "size")
    for experiment in TITLES:
        by_size = cells(rows, experiment).values()
        slower = [r for by in by_size if (r := _ratio(by, LOSSLESS, LOSSY))]
        text = f"{experiment}: with 1 % of the frames lost, of without loss"
        found += goals.worst(text, slower, "≤", 1.5, "size")
    return found + _judge_promoter(rows, promoted) + solves.judge(solved or [])


def _judge_promoter(rows: list[dict], promoted: dict[str, float]) -> list[dict]:
    found = []
    library, packed = "promoter, of the halo library", "promoter, of the library, packed alike"
    for experiment, text, other, limit in (
        ("B", library, "halo", 1.10),
        ("C", library, "halo", 1.10),
        ("B", packed, PACKED, 1.10),
        ("C", packed, PACKED, 1.10),
        ("D", "promoter, of MPI without it", "mpi-btl", 1.02),
    ):
        by_size = cells(rows, experiment).values()
        ratios = [r for by in by_size if (r := _ratio(by, other, "promoter"))]
        found += goals.worst(f"{experiment}: {text}", ratios, "≤", limit, "size")
    for experiment, share in sorted(promoted.items()):
        text = f"{experiment}: promoter, steady bytes by puts after three periods"
        found.append(goals.judged(text, share, "≥", 0.95, exact=True))
    return found


def _table(title: str, by_size: dict[int, dict[str, dict]]) -> Table:
    processes = next(iter(next(iter(by_size.values())).values()))["processes"]
    table = left_titled(f"{title}, {processes} ranks; µs an exchange")
    packs = any(PACKED in by for by in by_size.values())
    methods = [m for m in BETWEEN if m not in WAYS and (m != PACKED or packs)]
    ratios = {"of TCP": "mpi-tcp"} | ({} if packs else {"of pers.": "persistent-btl"})
    beside = {"set-up": SETUP}
    if any(COPIES in by for by in by_size.values()):
        beside["copies alone"] = COPIES
    for name in ("bytes", *methods, *ratios, "1% loss", *beside):
        broken = name.replace("-", "-\n").replace(" ", "\n")  # so that all fit into 80 columns
        broken = broken.replace("promoter", "pro-\nmoter").replace("persistent", "pers.")
        table.add_column(broken, justify="right", no_wrap=True)
    for size, by in by_size.items():
        medians = {m: number(by[m]["median"]) if m in by else "–" for m in (*BETWEEN, *OTHERS)}
        shares = [_ratio(by, other) for other in ratios.values()]
        texts = [f"{100 * r:.0f}%" if r else "–" for r in shares]
        ours = [medians[m] for m in methods]
        loss = _ratio(by, LOSSLESS, LOSSY)
        texts.append(f"{loss:.2f}×" if loss else "–")
        table.add_row(size_text(size), *ours, *texts, *(medians[m] for m in beside.values()))
    return table


_WAYS = ("mpi-btl", "persistent-btl", *WAYS, "halo")
_WAY_TITLES = (
    *("Isend,\nIrecv", "persistent\nrequests", "Neighbor_\nalltoallv"),
    *("Put,\nfence", "Put, lock,\nflush", "halo"),
)


def _ways_table(title: str, ways: tuple[str, ...], by_size: dict[int, dict[str, dict]]) -> Table:
    """The ways of MPI, and the halo library: the last of @ways."""
    *mpi, halo = ways
    table = left_titled(f"{title}; µs an exchange")
    for name in ("bytes", *_WAY_TITLES, "halo of\nthe best"):
        table.add_column(name, justify="right", no_wrap=True)
    for size, by in by_size.items():
        found = [by[m]["median"] for m in mpi if m in by]
        best = by[halo]["median"] / min(found) if found and halo in by else None
        medians = [number(by[m]["median"]) if m in by else "–" for m in ways]
        table.add_row(size_text(size), *medians, f"{100 * best:.0f}%" if best else "–")
    return table


def _tables(
    experiment: str, title: str, many: str, by_size: dict[int, dict[str, dict]]
) -> Iterator[Table]:
    """@many: the number of ports, if there are several."""
    name = f"{experiment}: {title}{many}"
    if experiment == "E":
        yield _ways_table(f"{name}, by shared memory", WITHIN, by_size)
        return
    yield _table(name, by_size)
    if any(way in by for by in by_size.values() for way in WAYS):
        text = f"{experiment}: ways of MPI over the BTL{many}"
        yield _ways_table(text, _WAYS, by_size)


_LEGEND = (
    "mpi-tcp, mpi-btl: Isend and Irecv over TCP, over Hikyaku; pers.-btl: persistent requests over "
    "Hikyaku; promoter, halo: the same data by puts. Of TCP, of pers.: halo's time as a share. "
    "1% loss: halo's time with it, of that without. Copies alone: the bytes by memcpy()."
)


def show(document: dict, console: Console) -> None:
    if any(row["experiment"] != "E" for row in document["rows"]):
        console.print(_LEGEND, highlight=False)
    for experiment, title in titles(document).items():
        for ports in numbers_of_ports(document["rows"]):
            by_size = cells(document["rows"], experiment, ports)
            many = f", {ports} ports" if ports > 1 else ""
            if by_size:
                for table in _tables(experiment, title, many, by_size):
                    console.print(table)
    for table in solves.table(document["solves"]):
        console.print(table)
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    about = document["machine"]
    warn_if_busy(about, console)
    show_core_distance(about, console)
    console.print(
        f"Medians of {about['repeats']} × {about['rounds']} samples; {about['cpu']}, "
        f"{about['cores']} cores, virtual wires; load at start {about['load_at_start']}.",
        highlight=False,
    )
