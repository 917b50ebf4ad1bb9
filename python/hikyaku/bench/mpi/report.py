# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `bench mpi`."""

from rich.console import Console
from rich.table import Table

from ... import mpi
from ..common.busy import warn_if_busy
from ..common.tables import (
    left_titled,
    median_of,
    number,
    repeats_text,
    show_core_distance,
    size_text,
    spread,
)
from .transports import BY_TCP, PROTECTED

UNITS = {
    "latency_us": "latency, half round trip, µs (lower is better)",
    "bandwidth_MBps": "bandwidth, window 64, MB/s",
    "bibandwidth_MBps": "bidirectional bandwidth, window 64, MB/s, both directions",
    "messages_per_s": "message rate, window 64, messages/s",
}
LOWER_IS_BETTER = {"latency_us"}


def ratio(row: dict, by_tcp: str = "tcp", by_us: str = "hikyaku") -> float | None:
    """The factor by which @by_us is better than @by_tcp; below 1 it is worse."""
    tcp, ours = median_of(row.get(by_tcp)), median_of(row.get(by_us))
    if not tcp or not ours:
        return None
    return tcp / ours if row["metric"] in LOWER_IS_BETTER else ours / tcp


def _factor_text(row: dict, *transports: str) -> str:
    times = ratio(row, *transports)
    if times is None:
        return "–"
    text = f"{times:.1f}×"
    if row["metric"] in LOWER_IS_BETTER:
        text += f" {(1 / times - 1) * 100:+.0f}%".replace("-", "−")
    return f"[green]{text}[/]" if times >= 1 else f"[red]{text}[/]"


def _share_text(row: dict, transport: str) -> str:
    """The value with @transport, of that of frames without protection."""
    bare, protected = median_of(row["off"]), median_of(row[transport])
    return f"{protected / bare:.2f}" if bare and protected else "–"


def _protected(title: str, rows: list[dict]) -> Table:
    """The transports of PROTECTED: each protection of frames, and TLS."""
    shares = any(r.get("off") for r in rows)
    table = left_titled(f"{title}; by protection")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("protection", no_wrap=True)
    for name in ("median", "range", *(["of off"] if shares else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for r in rows:
        for t in (t for t in PROTECTED if r.get(t)):
            cells = [size_text(r["size"]), t, number(median_of(r[t])), f"[dim]{spread(r[t])}[/]"]
            table.add_row(*cells, *([_share_text(r, t)] if shares else []))
    return table


def _other_mpis(title: str, rows: list[dict]) -> Table:
    """MPIs by libfabric: its own provider for TCP, and ours."""
    table = left_titled(f"{title}; other MPIs, by libfabric")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("MPI", no_wrap=True)
    for name in ("TCP", "range", "Hikyaku", "range", "than TCP"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in rows:
        for name in (n for n in mpi.BY_OFI if r.get(n)):
            both = (name + BY_TCP, name)
            cells = [size_text(r["size"]), name]
            for each in both:
                cells += [number(median_of(r.get(each))), f"[dim]{spread(r.get(each))}[/]"]
            table.add_row(*cells, _factor_text(r, *both))
    return table


def _groups(document: dict) -> dict[tuple[str, str], list[dict]]:
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in document["rows"]:
        groups.setdefault((row["wire"], row["metric"]), []).append(row)
    return groups


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for (wire, metric), rows in _groups(document).items():
        has_raw = any(r["raw"] for r in rows)
        columns = ["size", "TCP", "range", "Hikyaku", "range", "than TCP"]
        columns += ["raw", "shm"] if has_raw else ["shm"]
        title = f"{wire} wire: {UNITS[metric]}"
        table = left_titled(title)
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for r in rows:
            cells = [size_text(r["size"])]
            for transport in ("tcp", "hikyaku"):
                cells += [number(median_of(r[transport])), f"[dim]{spread(r[transport])}[/]"]
            cells.append(_factor_text(r))
            if has_raw:
                cells.append(number(median_of(r["raw"])))
            cells.append(number(median_of(r["shm"])))
            table.add_row(*cells)
        console.print(table)
        if any(t in rows[0] for t in PROTECTED):
            console.print(_protected(title, rows))
        if any(r.get(name) for r in rows for name in mpi.BY_OFI):
            console.print(_other_mpis(title, rows))
    for wire, by in about["init_ms"].items():
        each = ", ".join(f"{t} {number(median_of(c))} ms" for t, c in by.items())
        console.print(f"{wire} wire: MPI_Init {each}")
    warn_if_busy(about, console)
    show_core_distance(about, console)
    console.print(
        "raw: DPDK ping-pong of the same frame, no MPI; shm: Open MPI's shared memory, one node.\n"
        f"Medians of {repeats_text(about['repeats'])}; {about['cpu']}, {about['cores']} cores, "
        f"one core a rank; virtual wires, MTU {about['mtu']}; "
        f"load at start {about['load_at_start']}; Open MPI {about['open_mpi']}, "
        f"DPDK {about['dpdk']}.",
        highlight=False,
    )
