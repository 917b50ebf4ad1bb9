# SPDX-License-Identifier: BSD-3-Clause
"""The table of a benchmark's document."""

from rich.console import Console
from rich.table import Table

UNITS = {
    "latency_us": "latency, half round trip, µs (lower is better)",
    "bandwidth_MBps": "bandwidth, window 64, MB/s",
    "bibandwidth_MBps": "bidirectional bandwidth, window 64, MB/s, both directions",
    "messages_per_s": "message rate, window 64, messages/s",
}
LOWER_IS_BETTER = {"latency_us"}


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def number(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if value >= 100 else f"{value:.2f}"


def median_of(cell: dict | None) -> float | None:
    return cell["median"] if cell else None


def spread(cell: dict | None) -> str:
    return f"{number(cell['min'])} … {number(cell['max'])}" if cell else "–"


def ratio(row: dict) -> float | None:
    """How many times better Hikyaku is than TCP; below 1 it is worse."""
    tcp, ours = median_of(row["tcp"]), median_of(row["hikyaku"])
    if not tcp or not ours:
        return None
    return tcp / ours if row["metric"] in LOWER_IS_BETTER else ours / tcp


def _verdict(row: dict) -> str:
    times = ratio(row)
    if times is None:
        return "–"
    text = f"{times:.1f}×"
    if row["metric"] in LOWER_IS_BETTER:
        text += f" ({(1 - 1 / times) * 100:+.0f} % saved)"
    return f"[green]{text}[/]" if times >= 1 else f"[red]{text}[/]"


def _groups(document: dict) -> dict[tuple[str, str], list[dict]]:
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in document["rows"]:
        groups.setdefault((row["wire"], row["metric"]), []).append(row)
    return groups


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for (wire, metric), rows in _groups(document).items():
        table = Table(title=f"{wire} wire: {UNITS[metric]}", title_justify="left")
        table.add_column("size", justify="right")
        for name in ("TCP", "min … max", "Hikyaku", "min … max", "Hikyaku : TCP"):
            table.add_column(name, justify="right")
        has_raw = any(r["raw"] for r in rows)
        if has_raw:
            table.add_column("raw DPDK", justify="right")
        table.add_column("shared memory", justify="right")
        for r in rows:
            cells = [size_text(r["size"])]
            for transport in ("tcp", "hikyaku"):
                cells += [number(median_of(r[transport])), f"[dim]{spread(r[transport])}[/]"]
            cells.append(_verdict(r))
            if has_raw:
                cells.append(number(median_of(r["raw"])))
            cells.append(number(median_of(r["shm"])))
            table.add_row(*cells)
        console.print(table)
    for wire, by in about["init_ms"].items():
        each = ", ".join(f"{t} {number(median_of(c))} ms" for t, c in by.items())
        console.print(f"{wire} wire: MPI_Init {each}")
    console.print(
        f"Medians of {about['repeats']} repeats; {about['cpu']}, {about['cores']} cores, one core "
        f"a rank; virtual wires, MTU {about['mtu']}; load at start {about['load_at_start']}; "
        f"Open MPI {about['open_mpi']}, DPDK {about['dpdk']}.",
        highlight=False,
    )
