# SPDX-License-Identifier: BSD-3-Clause
"""The table of a benchmark's document."""

from rich import box
from rich.console import Console
from rich.table import Table

from .phases import NEAR_NS

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
    """Three digits are all that a sample deserves; k and M keep columns narrow."""
    if value is None:
        return "–"
    for unit, name in ((1e6, "M"), (1e4, "k")):
        if value >= unit:
            return f"{value / (1e6 if name == 'M' else 1e3):.3g}{name}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def median_of(cell: dict | None) -> float | None:
    return cell["median"] if cell else None


def spread(cell: dict | None) -> str:
    return f"{number(cell['min'])}–{number(cell['max'])}" if cell else "–"


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
        text += f" {(1 / times - 1) * 100:+.0f}%".replace("-", "−")
    return f"[green]{text}[/]" if times >= 1 else f"[red]{text}[/]"


def _groups(document: dict) -> dict[tuple[str, str], list[dict]]:
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in document["rows"]:
        groups.setdefault((row["wire"], row["metric"]), []).append(row)
    return groups


def warn_if_busy(about: dict, console: Console) -> None:
    if about["load_at_start"] > about["cores"] / 2:
        console.print(
            f"[yellow]The machine was busy with other work (load {about['load_at_start']}): times "
            "say little, ratios and counts more.[/]"
        )


_NEAR = "near cores"
_FAR = f"far cores (goals are given for near ones, where it takes at most {NEAR_NS:.0f} ns)"


def tell_cores_apart(about: dict, console: Console) -> None:
    if apart := about.get("cores_apart"):
        console.print(
            f"A cache line took {apart['usual_ns']:.0f} ns from core to core: "
            f"{_NEAR if apart['near'] else _FAR}; {apart['left_out']} of "
            f"{apart['samples']} samples, during which it took "
            f"{apart['min_ns']:.0f} to {apart['max_ns']:.0f} ns, are left out.",
            highlight=False,
        )


def show(document: dict, console: Console) -> None:
    about = document["machine"]
    for (wire, metric), rows in _groups(document).items():
        has_raw = any(r["raw"] for r in rows)
        columns = ["size", "TCP", "range", "Hikyaku", "range", "better"]
        columns += ["raw", "shm"] if has_raw else ["shm"]
        title = f"{wire} wire: {UNITS[metric]}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
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
    warn_if_busy(about, console)
    tell_cores_apart(about, console)
    console.print(
        "raw: DPDK ping-pong of the same frame, no MPI; shm: Open MPI's shared memory, one node.\n"
        f"Medians of {about['repeats']} repeats; {about['cpu']}, {about['cores']} cores, one core "
        f"a rank; virtual wires, MTU {about['mtu']}; load at start {about['load_at_start']}; "
        f"Open MPI {about['open_mpi']}, DPDK {about['dpdk']}.",
        highlight=False,
    )
