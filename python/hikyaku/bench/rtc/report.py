# SPDX-License-Identifier: BSD-3-Clause
"""The tables and goals of `bench rtc`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ..common import goals
from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number, repeats_text, spread
from .load import CLOSED, KEPT, RECEIVERS, WINDOW
from .run import ADDING, LOOP, PLAIN, REPETITIONS, VECTOR, WIRES

# ---- goals ---------------------------------------------------------------------------------------

Key = tuple[str, str, int, float]  # experiment, backend, nodes, x


@dataclass(frozen=True)
class Goal:
    """A limit for the median of @over, divided by that of @under if there is one."""

    text: str
    over: Key
    under: Key | None
    relation: str
    limit: float


def _sum(backend: str, x: float) -> Key:
    return ("sum", backend, 2, x)


def _echo(backend: str) -> Key:
    return ("echo", backend, 2, 64)


def wired(backend: str) -> str:
    """@backend with its wire: of two backends, one may have memory and the other a kernel link."""
    wire = (WIRES | RECEIVERS).get(backend.partition("+")[0])
    return f"{backend} ({wire})" if wire else backend


GOALS = (
    *(
        Goal(
            f"sum, {x}×: {wired('dpdk')}, times {wired(tcp)}",
            _sum("dpdk", x),
            _sum(tcp, x),
            "≥",
            limit,
        )
        for tcp, limits in (("tcp", (30, 20, 4)), ("tcp:batch=1", (5, 4, 1)))
        for x, limit in zip((1, 10, 100), limits, strict=True)
    ),
    Goal(
        f"sum, 1×: {wired('af_xdp')}, times {wired('tcp')}",
        _sum("af_xdp", 1),
        _sum("tcp", 1),
        "≥",
        2,
    ),
    Goal("sum, 1×: handler, ns a message", ("sum_handler", "dpdk", 2, 1), None, "≤", 10),
    Goal("echo of 64 B: times DPDK's own loop", _echo("dpdk"), _echo(LOOP), "≥", 0.6),
    *(
        Goal(
            f"overload, {x}×: {receiver}, of its closed loop",
            (f"collapse_{x}_{KEPT}", receiver, 2, 4),
            None,
            "≥",
            0.9,
        )
        for x in REPETITIONS
        for receiver in ("af_xdp", "dpdk")
    ),
)


def judge(rows: list[dict]) -> list[dict]:
    """The goals that were measured, and whether they are met."""
    median = {(r["experiment"], r["backend"], r["nodes"], r["x"]): r["median"] for r in rows}
    found = []
    for goal in GOALS:
        if goal.over not in median or (goal.under and not median.get(goal.under)):
            continue
        value = median[goal.over] / (median[goal.under] if goal.under else 1)
        found.append(goals.judged(goal.text, value, goal.relation, goal.limit))
    return found


# ---- tables --------------------------------------------------------------------------------------

# by experiment: its title, and the unit of x
TITLES = {
    "hold_64B": ("(1) 64-byte frames, each held for a time", "ns held"),
    "hold_128B": ("(1) 128-byte frames, each held for a time", "ns held"),
    **{
        f"sum{ADDING[adding]}{part}": (f"(2) {text}", "×")
        for adding, how in ((VECTOR, ""), (PLAIN, ", by a plain loop"))
        for part, text in (
            ("", f"Sum of 32 numbers a message, once, 10 and 100 times{how}"),
            ("_handler", f"The time of its handler{how}"),
        )
    },
    "echo": ("64-byte frames, sent back", "B"),
    **{
        f"drops_{metric}": (f"By the rate asked of a sender that does not wait: {text}", "M/s")
        for metric, text in (
            ("offered", "sent"),
            ("delivered", "handled"),
            ("answered", "answers that came back"),
            ("lost", "lost"),
            ("cpu", "CPU time of the receiver's process for a message"),
            ("softirq", "CPU time of softirqs on its core for a message"),
            ("p50", "median latency of answers"),
            ("p99", "99th percentile of latency"),
        )
    },
    **{
        f"collapse_{x}{end}_{metric}": (f"(2) Sum{how}, {x}×, without waiting: {text}", "×")
        for end, how in ((ADDING[VECTOR], ""), (ADDING[PLAIN], " by a plain loop"))
        for x in REPETITIONS
        for metric, text in (
            ("offered", "sent"),
            ("delivered", "handled"),
            (KEPT, "handled, of the closed loop's rate"),
            ("answered", "answers that came back"),
            ("lost", "lost"),
        )
    },
}
UNITS = {"million/s": "million messages/s", "us": "µs"}  # of rows, in titles


def _who(row: dict) -> str:
    return wired(row["backend"])


# Columns of a name, of a median with its range.
_NAME_WIDTH, _CELL_WIDTH = 21, 24


def _table(experiment: str, rows: list[dict], width: int) -> Table:
    """The table of one experiment; without ranges if they do not fit @width."""
    title, x = TITLES[experiment]
    unit = UNITS.get(rows[0]["unit"], rows[0]["unit"])
    who = list(dict.fromkeys(_who(r) for r in rows))
    columns = list(dict.fromkeys(r["x"] for r in rows))
    ranges = len(who) == 1 or width >= _NAME_WIDTH + len(columns) * _CELL_WIDTH
    table = left_titled(f"{title}: {unit}" + ("" if ranges else " (--json has the ranges)"))
    table.add_column("", no_wrap=True)
    by = {(_who(r), r["x"]): r for r in rows}
    if len(who) == 1:  # one backend, many x: a line for each x
        for name in (x, "median", "range"):
            table.add_column(name, justify="right", no_wrap=True)
        for r in rows:
            table.add_row(who[0], f"{r['x']:g}", number(r["median"]), f"[dim]{spread(r)}[/]")
        return table
    for at in columns:
        closed = at == CLOSED and experiment.startswith("collapse")
        name = "closed loop" if closed else f"{at:g} {x}"
        table.add_column(name, justify="right", no_wrap=True)
        if ranges:
            table.add_column("range", justify="right", no_wrap=True)
    for name in who:
        texts = []
        for at in columns:
            cell = by.get((name, at))
            texts.append(number(cell["median"]) if cell else "–")
            if ranges:
                texts.append(f"[dim]{spread(cell)}[/]")
        table.add_row(name, *texts)
    return table


def _settings(document: dict) -> str:
    """The settings of the experiments that @document has."""
    about = document["machine"]
    texts = {
        "sum": f"window of sum {about['window']}; ",
        "hold": "window of hold 128; ",
        "echo": "window of echo 128; ",
        "drops": f"drops: {about['load_ms']} ms, "
        + (f"{about['hold_ns']} ns a message; " if about["hold_ns"] else "a sum a message; "),
        "collapse": f"overload: {about['load_ms']} ms, the closed loop has a window of {WINDOW}; ",
    }
    run = {row["experiment"].partition("_")[0] for row in document["rows"]}
    return "".join(text for name, text in texts.items() if name in run)


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for experiment in TITLES:
        rows = [r for r in document["rows"] if r["experiment"] == experiment]
        if rows:
            console.print(_table(experiment, rows, console.width))
    if document["goals"]:
        console.print(goals.table(document["goals"]))
    warn_if_busy(about, console)
    console.print(
        f"Medians of {repeats_text(about['repeats'])}; {_settings(document)}{about['cpu']}, "
        f"{about['cores']} cores, one a node; virtual wires; load at start "
        f"{about['load_at_start']}; DPDK {about['dpdk']}.",
        highlight=False,
    )
