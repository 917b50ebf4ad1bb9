# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `bench host`: what was measured, and which goals are met."""

from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from ..lab.openmpi import SWITCH_MODES
from .goals import judged, value_text
from .goals import table as goal_table
from .report import size_text, spread, tell_cores_apart, warn_if_busy

# ---- goals ---------------------------------------------------------------------------------------

_WITH_DAEMON = ("daemon", "split", "hybrid")


@dataclass(frozen=True)
class Goal:
    """@value of the row is to be in the @relation to @limit."""

    text: str
    metric: str
    hosts: tuple[str, ...]
    relation: str
    limit: float
    of: str = "median"  # or to_inline

    def value(self, row: dict) -> float | None:
        return row["to_inline"] if self.of == "to_inline" else row["hikyaku"]["median"]


GOALS = (
    Goal("8 B latency, times inline's", "latency_us", ("hybrid",), "≤", 1.25, "to_inline"),
    Goal("1 MiB bandwidth, times inline's", "bandwidth_MBps", ("split",), "≥", 0.9, "to_inline"),
    Goal(
        "busy receiver: sender done before, ms",
        "busy_early_ms",
        ("split", "hybrid"),
        ">",
        0,
    ),
    Goal("busy receiver: resends", "busy_resends", ("split", "hybrid"), "≤", 0),
    Goal("flooded neighbour: times quiet", "flood_ratio", _WITH_DAEMON, "≤", 2),
    Goal("flooded neighbour: messages lost", "flood_lost", _WITH_DAEMON, "≤", 0),
    Goal("all ranks poll: CPU, % of a core", "idle_polling_percent", _WITH_DAEMON, "<", 3),
    Goal("no ranks: CPU, % of a core", "idle_alone_percent", _WITH_DAEMON, "<", 3),
    Goal("rank has left MPI: frame taken in, µs", "pickup_us", _WITH_DAEMON, "≤", 200),
    Goal("attach of a rank, ms", "attach_ms", _WITH_DAEMON, "<", 300),
)


def goals(rows: list[dict]) -> list[dict]:
    """What is asked for and was measured, and whether it is met."""
    found = []
    for goal in GOALS:
        for row in rows:
            value = goal.value(row)
            if row["metric"] == goal.metric and row["host"] in goal.hosts and value is not None:
                found.append(
                    judged(
                        {"goal": goal.text, "host": row["host"], "metric": goal.metric},
                        value,
                        goal.relation,
                        goal.limit,
                    )
                )
    return found


# ---- tables --------------------------------------------------------------------------------------

# Short, so that two modes fit a terminal.
GROUPS = {
    "as bench mpi": {
        "latency_us": "latency, µs",
        "bandwidth_MBps": "bandwidth, MB/s",
        "init_ms": "MPI_Init, ms",
    },
    "busy receiver": {
        "busy_sent_ms": "last MPI_Send back, ms",
        "busy_done_ms": "last message left, ms",
        "busy_early_ms": "… before it is back",
        "busy_resends": "resends",
    },
    "rank that has left MPI": {
        "pickup_us": "frame taken in, µs",
        "pickup_p99_us": "… 99th percentile",
        "ack_us": "acknowledged, µs",
        "ack_p99_us": "… 99th percentile",
        "pickup_missed": "rounds not timed",
    },
    "flooded neighbour": {
        "flood_quiet_us": "ping-pong, quiet, µs",
        "flood_quiet_p90_us": "… 90th percentile",
        "flood_us": "ping-pong, flood, µs",
        "flood_p90_us": "… 90th percentile",
        "flood_ratio": "… ratio",
        "flood_messages": "flood, messages",
        "flood_lost": "… lost",
        "flood_waits": "… waits for credit",
        "flood_resends": "resends",
    },
    "hikyakud with poller": {
        "idle_polling_percent": "CPU, ranks poll, %",
        "idle_asleep_percent": "CPU, ranks asleep, %",
        "idle_alone_percent": "CPU, no ranks, %",
    },
    "attach of a rank": {
        "attach_ms": "all of it, ms",
        "attach_slot_ms": "… slot from daemon",
        "attach_dpdk_ms": "… DPDK, secondary",
        "attach_fabric_ms": "… fabric",
        "attach_ready_ms": "… poller may serve",
        "attach_start_ms": "daemon's start too, ms",
    },
}
LABELS = {metric: label for group in GROUPS.values() for metric, label in group.items()}


def _spread(cell: dict) -> str:
    if cell["min"] < 0:
        return f"{value_text(cell['min'])}…{value_text(cell['max'])}"
    return spread(cell)


def _row(
    metric: str,
    size: int,
    by_mode: dict[str, dict],
    modes: list[str],
    others: list[str],
    ranges: bool,
) -> list[str]:
    about = f"{size_text(size)} " if metric in GROUPS["as bench mpi"] and size else ""
    cells = [f"  {about}{LABELS[metric]}"]
    for mode in modes:
        cell = by_mode[mode]["hikyaku"] if mode in by_mode else None
        cells.append(value_text(cell["median"]) if cell else "–")
        if ranges:
            cells.append(f"[dim]{_spread(cell)}[/]" if cell else "")
    for mode in others:
        ratio = by_mode[mode]["to_inline"] if mode in by_mode else None
        # of counts and differences a ratio says nothing
        shown = ratio is not None and metric.endswith(("_us", "_ms", "_MBps"))
        cells.append(f"{ratio:.2f}×" if shown and metric != "busy_early_ms" else "")
    return cells


# Columns of a label, of a median with its range, of a ratio.
_LABEL_WIDTH, _MODE_WIDTH, _RATIO_WIDTH = 27, 21, 10


def _measured(document: dict, width: int) -> Table:
    """Leaves the ranges out if they do not fit @width."""
    modes = document["machine"]["hosts"]
    others = [m for m in modes if m != "inline"] if "inline" in modes else []
    needed = _LABEL_WIDTH + len(modes) * _MODE_WIDTH + len(others) * _RATIO_WIDTH
    ranges = width >= needed
    table = Table(
        title="Host modes, memif wire"
        + ("" if ranges else "; medians (ranges by --json); ×: times inline"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    for mode in modes:
        table.add_column(mode, justify="right", no_wrap=True)
        if ranges:
            table.add_column("range", justify="right", no_wrap=True)
    for mode in others:
        name = "to inline" if ranges else f"{mode} ×"
        table.add_column(name, justify="right", no_wrap=True)
    by: dict[tuple[str, int], dict[str, dict]] = {}
    for row in document["rows"]:
        by.setdefault((row["metric"], row["size"]), {})[row["host"]] = row
    for group, labels in GROUPS.items():
        keys = [key for metric in labels for key in sorted(by) if key[0] == metric]
        if keys:
            table.add_row(f"[bold]{group}[/]")
        for metric, size in keys:
            table.add_row(*_row(metric, size, by[metric, size], modes, others, ranges))
    return table


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    console.print(_measured(document, console.width))
    if document["goals"]:
        console.print(goal_table(document["goals"], "host"))
    warn_if_busy(about, console)
    tell_cores_apart(about, console)
    notes = [
        f"Medians of {about['repeats']} repeats, modes in turn; {about['cpu']}, {about['cores']} "
        "cores, one core a node, which daemon, poller and ranks of the node share; virtual wire; "
        f"load at start {about['load_at_start']}; Open MPI {about['open_mpi']}, DPDK "
        f"{about['dpdk']}.",
    ]
    metrics = {row["metric"] for row in document["rows"]}
    if "busy_done_ms" in metrics:
        notes.append(
            f"Busy receiver: {about['busy_messages']} messages while it computes "
            f"{about['busy_compute_ms']} ms; times count from the start of that."
        )
    if "flood_us" in metrics:
        notes.append(
            "Flooded neighbour: two ranks a node share its core, so all ranks yield "
            "(mpi_yield_when_idle 1), with and without the flood; each round trip is timed."
        )
    if switched := [mode for mode in about["hosts"] if mode in SWITCH_MODES]:
        notes.append(
            f"In {' and '.join(switched)} hikyakud's switch shares the rank's core, so ranks yield "
            "(mpi_yield_when_idle 1)."
        )
    if "idle_polling_percent" in metrics:
        notes.append(f"CPU: hikyakud and its poller together, over {about['idle_seconds']} s.")
    if about["mca"]:
        notes.append("Set: " + ", ".join(f"{k} {v}" for k, v in about["mca"].items()) + ".")
    console.print("\n".join(notes), highlight=False)
