# SPDX-License-Identifier: BSD-3-Clause
"""The tables and goals of `bench modes`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ...lab.openmpi import SWITCH_MODES
from ..common.busy import warn_if_busy
from ..common.goals import judged, value_text
from ..common.goals import table as goal_table
from ..common.tables import (
    left_titled,
    repeats_text,
    show_core_distance,
    size_text,
    spread,
)

# ---- goals ---------------------------------------------------------------------------------------

_WITH_DAEMON = ("daemon", "split", "hybrid")


@dataclass(frozen=True)
class Goal:
    """A row's value must be in @relation to @limit."""

    text: str
    metric: str
    modes: tuple[str, ...]
    relation: str
    limit: float
    of: str = "median"  # or to_inline

    def value(self, row: dict) -> float | None:
        return row["to_inline"] if self.of == "to_inline" else row["hikyaku"]["median"]


GOALS = (
    Goal("8 B latency, times inline's", "latency_us", ("hybrid",), "≤", 1.25, "to_inline"),
    Goal("1 MiB bandwidth, times inline's", "bandwidth_MBps", ("split",), "≥", 0.9, "to_inline"),
    Goal("busy receiver: sender done before, ms", "busy_early_ms", ("split", "hybrid"), ">", 0),
    Goal("busy receiver: resends", "busy_resends", ("split", "hybrid"), "≤", 0),
    Goal("flooded neighbour: times quiet", "flood_ratio", _WITH_DAEMON, "≤", 2),
    Goal("flooded neighbour: messages lost", "flood_lost", _WITH_DAEMON, "≤", 0),
    Goal("all ranks poll: CPU, % of a core", "idle_polling_percent", _WITH_DAEMON, "<", 3),
    Goal("no ranks: CPU, % of a core", "idle_alone_percent", _WITH_DAEMON, "<", 3),
    Goal("rank outside MPI: frame received, µs", "pickup_us", _WITH_DAEMON, "≤", 200),
    Goal("attach of a rank, ms", "attach_ms", _WITH_DAEMON, "<", 300),
)


def goals(rows: list[dict]) -> list[dict]:
    """The goals whose metrics were measured, and whether they are met."""
    found = []
    for goal in GOALS:
        for row in rows:
            value = goal.value(row)
            mode, metric = row["mode"], row["metric"]
            if metric == goal.metric and mode in goal.modes and value is not None:
                limit = (goal.relation, goal.limit)
                found.append(judged(goal.text, value, *limit, mode=mode, metric=metric))
    return found


# ---- tables --------------------------------------------------------------------------------------

# Short labels, so that two modes fit a terminal.
GROUPS = {
    "as bench mpi": {
        "latency_us": "latency, µs",
        "bandwidth_MBps": "bandwidth, MB/s",
        "init_ms": "MPI_Init, ms",
    },
    "busy receiver": {
        "busy_sent_ms": "last MPI_Send returned, ms",
        "busy_done_ms": "last message left, ms",
        "busy_early_ms": "… before receiver is back",
        "busy_resends": "resends",
    },
    "rank outside MPI": {
        "pickup_us": "frame received, µs",
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
        "attach_ms": "total, ms",
        "attach_slot_ms": "… slot from daemon",
        "attach_dpdk_ms": "… DPDK, secondary",
        "attach_worker_ms": "… worker",
        "attach_ready_ms": "… poller ready",
        "attach_start_ms": "with daemon start, ms",
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
        # a ratio of counts or differences means nothing
        shown = ratio is not None and metric.endswith(("_us", "_ms", "_MBps"))
        cells.append(f"{ratio:.2f}×" if shown and metric != "busy_early_ms" else "")
    return cells


# Columns of a label, of a median with its range, of a ratio.
_LABEL_WIDTH, _MODE_WIDTH, _RATIO_WIDTH = 27, 21, 10


def _measured(document: dict, width: int) -> Table:
    """The table of all metrics; without ranges if they do not fit @width."""
    modes = document["machine"]["modes"]
    others = [m for m in modes if m != "inline"] if "inline" in modes else []
    needed = _LABEL_WIDTH + len(modes) * _MODE_WIDTH + len(others) * _RATIO_WIDTH
    ranges = width >= needed
    table = left_titled(
        "Polling modes, memif wire"
        + ("" if ranges else "; medians (--json has the ranges); ×: times inline")
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
        by.setdefault((row["metric"], row["size"]), {})[row["mode"]] = row
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
        console.print(goal_table(document["goals"], "mode"))
    warn_if_busy(about, console)
    show_core_distance(about, console)
    notes = [
        f"Medians of {repeats_text(about['repeats'])}, modes in turn; {about['cpu']}, "
        f"{about['cores']} cores; daemon, poller and ranks of a node share one core; virtual wire; "
        f"load at start {about['load_at_start']}; Open MPI {about['open_mpi']}, DPDK "
        f"{about['dpdk']}.",
    ]
    metrics = {row["metric"] for row in document["rows"]}
    if "busy_done_ms" in metrics:
        notes.append(
            f"Busy receiver: {about['busy_messages']} messages while it computes for "
            f"{about['busy_compute_ms']} ms; times start with the computation."
        )
    if "flood_us" in metrics:
        notes.append(
            "Flooded neighbour: two ranks of a node share its core, so all ranks yield "
            "(mpi_yield_when_idle 1) with and without the flood; each round trip is timed."
        )
    if switched := [mode for mode in about["modes"] if mode in SWITCH_MODES]:
        notes.append(
            f"In {' and '.join(switched)} hikyakud's switch shares the rank's core, so ranks yield "
            "(mpi_yield_when_idle 1)."
        )
    if "idle_polling_percent" in metrics:
        notes.append(f"CPU: hikyakud and its poller together, over {about['idle_seconds']} s.")
    if about["mca"]:
        notes.append("Set: " + ", ".join(f"{k} {v}" for k, v in about["mca"].items()) + ".")
    console.print("\n".join(notes), highlight=False)
