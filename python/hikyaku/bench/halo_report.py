# SPDX-License-Identifier: BSD-3-Clause
"""The tables and the picture of `bench halo`, and which goals are met."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from . import goals
from .halo import COPIES, LOSSLESS, LOSSY, METHODS, OTHERS, PACKED, SETUP
from .plot import figure_file, label_sizes, with_range
from .report import number, size_text, tell_cores_apart, warn_if_busy

_TITLES = {
    "A": "two ranks, one piece each way",
    "B": "27-point matrix, blocks of rows",
    "C": "27-point matrix, METIS",
    "D": "two ranks, nothing to promote",
}
_COLOURS = {
    "mpi-tcp": "#c0392b",
    "mpi-btl": "#7f8c8d",
    "persistent-btl": "#27915b",
    "interposer": "#8e44ad",
    PACKED: "#7fb3d5",
    "halo": "#1f5fa8",
}

# Up to this size the BTL sends eagerly; longer messages are rendezvous.
EAGER = 16 << 10


def cells(rows: list[dict], experiment: str, ports: int = 1) -> dict[int, dict[str, dict]]:
    """By bytes and method, of so many ports. TCP has one, and stands beside each number."""
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


def judge(rows: list[dict], promoted: dict[str, float]) -> list[dict]:
    """The goals, each by the worst of the sizes that it is about, with one port. @promoted: by
    experiment, the share of its steady bytes that the interposer sent by puts."""
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
        if ratios:
            goal = {"goal": f"{experiment}: {text}"}
            found.append(goals.judged(goal, max(ratios), "≤", limit))
    for experiment in _TITLES:
        pays = [
            by[SETUP]["median"] / saved
            for by in cells(rows, experiment).values()
            if {SETUP, "mpi-tcp", "halo"} <= by.keys()
            and (saved := by["mpi-tcp"]["median"] - by["halo"]["median"]) > 0
        ]
        if pays:
            goal = {"goal": f"{experiment}: exchanges until set-up has paid, against TCP"}
            found.append(goals.judged(goal, max(pays), "≤", 10))
    for experiment in _TITLES:
        by_size = cells(rows, experiment).values()
        if slower := [r for by in by_size if (r := _ratio(by, LOSSLESS, LOSSY))]:
            goal = {"goal": f"{experiment}: with 1 % of the frames lost, of with none"}
            found.append(goals.judged(goal, max(slower), "≤", 1.5))
    return found + _judge_interposer(rows, promoted)


def _judge_interposer(rows: list[dict], promoted: dict[str, float]) -> list[dict]:
    found = []
    library, packed = "interposer, of the halo library", "interposer, of the library, packed alike"
    for experiment, text, other, limit in (
        ("B", library, "halo", 1.10),
        ("C", library, "halo", 1.10),
        ("B", packed, PACKED, 1.10),
        ("C", packed, PACKED, 1.10),
        ("D", "interposer, of MPI without it", "mpi-btl", 1.02),
    ):
        by_size = cells(rows, experiment).values()
        ratios = [r for by in by_size if (r := _ratio(by, other, "interposer"))]
        if ratios:
            found.append(goals.judged({"goal": f"{experiment}: {text}"}, max(ratios), "≤", limit))
    for experiment, share in sorted(promoted.items()):
        goal = {"goal": f"{experiment}: interposer, steady bytes by puts after three periods"}
        found.append(goals.judged(goal, share, "≥", 0.95))
    return found


def _table(title: str, by_size: dict[int, dict[str, dict]]) -> Table:
    processes = next(iter(next(iter(by_size.values())).values()))["processes"]
    table = Table(
        title=f"{title}, {processes} ranks; µs an exchange",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    packs = any(PACKED in by for by in by_size.values())
    methods = [m for m in METHODS if m != PACKED or packs]
    ratios = {"of TCP": "mpi-tcp"} | ({} if packs else {"of pers.": "persistent-btl"})
    beside = {"set-up": SETUP}
    if any(COPIES in by for by in by_size.values()):
        beside["copies alone"] = COPIES
    for name in ("bytes", *methods, *ratios, "1% loss", *beside):
        broken = name.replace("-", "-\n").replace(" ", "\n")  # all fit into 80 columns
        broken = broken.replace("interposer", "inter-\nposer").replace("persistent", "pers.")
        table.add_column(broken, justify="right", no_wrap=True)
    for size, by in by_size.items():
        medians = {m: number(by[m]["median"]) if m in by else "–" for m in (*METHODS, *OTHERS)}
        shares = [_ratio(by, other) for other in ratios.values()]
        texts = [f"{100 * r:.0f}%" if r else "–" for r in shares]
        ours = [medians[m] for m in methods]
        loss = _ratio(by, LOSSLESS, LOSSY)
        texts.append(f"{loss:.2f}×" if loss else "–")
        table.add_row(size_text(size), *ours, *texts, *(medians[m] for m in beside.values()))
    return table


def show(document: dict, console: Console) -> None:
    for experiment, title in _TITLES.items():
        for ports in numbers_of_ports(document["rows"]):
            by_size = cells(document["rows"], experiment, ports)
            if by_size:
                many = f", {ports} ports" if ports > 1 else ""
                console.print(_table(f"{experiment}: {title}{many}", by_size))
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    about = document["machine"]
    warn_if_busy(about, console)
    tell_cores_apart(about, console)
    console.print(
        f"Medians of {about['repeats']} × {about['rounds']} samples; {about['cpu']}, "
        f"{about['cores']} cores, virtual wires; load at start {about['load_at_start']}.",
        highlight=False,
    )


def _curves(axes, by_size: dict[int, dict[str, dict]], title: str) -> None:
    for method in METHODS:
        own = {b: by[method] for b, by in by_size.items() if method in by}
        if own:
            with_range(axes, list(own), list(own.values()), method, _COLOURS[method], "o-")
    ticks = label_sizes(sorted(by_size))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, labels=map(size_text, ticks))
    axes.minorticks_off()
    axes.set_title(title)
    axes.set_ylabel("µs an exchange")
    axes.legend()


def _bars(axes, by_size: dict[int, dict[str, dict]], title: str) -> None:
    by = {m: cell for sizes in by_size.values() for m, cell in sizes.items() if m in METHODS}
    low = [c["median"] - c["min"] for c in by.values()]
    high = [c["max"] - c["median"] for c in by.values()]
    axes.bar(
        list(by),
        [c["median"] for c in by.values()],
        yerr=[low, high],
        color=[_COLOURS[m] for m in by],
        capsize=4,
    )
    axes.set_title(title)
    axes.set_ylabel("µs an exchange")


def draw(document: dict, path: Path) -> None:
    panels = {
        (e, ports): found
        for e in _TITLES
        for ports in numbers_of_ports(document["rows"])
        if (found := cells(document["rows"], e, ports))
    }
    title = f"Halo exchange: {document['machine']['cpu']}, virtual wires; median and range"
    with figure_file(path, len(panels), title) as all_axes:
        for axes, ((experiment, ports), by_size) in zip(all_axes, panels.items(), strict=True):
            sizes = [b for b, by in by_size.items() if by.keys() & set(METHODS)]
            paint = _curves if len(sizes) > 1 else _bars
            many = f", {ports} ports" if ports > 1 else ""
            paint(axes, by_size, f"{experiment}: {_TITLES[experiment]}{many}")
