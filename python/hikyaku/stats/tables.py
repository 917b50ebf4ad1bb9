# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `hikyaku stats` and `top`: totals since the start, rates between two answers."""

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from . import Sample, ranks
from .prometheus import PORT, WIRE

_RANK_BITS = 0xFFFFF  # of an endpoint that the BTL made: the rank in MPI_COMM_WORLD


def _short(value: float | None) -> str:
    """Three or four figures: 999, 12.3k, 4.56M."""
    if value is None:
        return "-"
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5 or unit == "T":
            break
        value /= 1000
    if not unit and value == int(value):
        return str(int(value))
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{unit}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f}%" if part >= 0.1 else f"{100 * part:.1f}%"


def _grid(*columns: str) -> Table:
    """As narrow as can be: `top` fits into 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    for name in columns:
        justify = "left" if name in ("job", "polls") else "right"
        table.add_column(name, justify=justify, overflow="fold")
    return table


def _title(daemon: dict, cpu: str) -> Text:
    """Two lines: one would be folded at 80 columns."""
    poller = daemon["poller"]
    first = f"hikyakud '{daemon['name']}' on {daemon['host']}: process {daemon['pid']}, "
    first += f"mode {daemon['mode']}, poller {poller['state']}"
    return Text(f"{first}\n  {cpu}", style="bold")


def _cpu(of: dict) -> str:
    return "-" if of["cpu_seconds"] is None else f"{of['cpu_seconds']:.2f} s"


_TOTALS = {
    "tx": ("tx_packets",),
    "tx\nbytes": ("tx_bytes",),
    "rx": ("rx_packets",),
    "rx\nbytes": ("rx_bytes",),
    "again": ("resends",),
    "lost": ("loss_time", "loss_rto"),
    "dups": ("duplicates",),
    "stall": ("no_credit",),
    "kept": ("kept",),
    "dead": ("dead_peers",),
    "rx\nframes": ("rx_frames",),
    "tx\nframes": ("tx_frames",),
    "full": ("tx_full",),
}


_INLINE = Text("ranks that poll alone (mode inline)", style="bold")
_DROPS = ("rx_full", "rx_share", "tx_lost")


def _drops(slot: dict, drops: dict | None, when: str) -> list[Text]:
    """What hikyakud dropped of a rank's frames: a line, if there is anything to say."""
    if not drops or not any(drops.values()):
        return []
    text = ", ".join(f"{key} {_short(n)}" for key, n in drops.items())
    return [Text(f"  rank {slot['endpoint'] & _RANK_BITS}: frames dropped{when}: {text}")]


def _steering(daemon: dict) -> str:
    """How the port tells its ranks apart."""
    steering = daemon["port"]["steering"]
    text = f"told apart by {steering['text']}"
    if steering["rung"] in ("endpoint", "mac", "udp"):
        text += f": {steering['rules']} of {len(ranks(daemon))} ranks"
    if steering["refused"]:
        text += f", {steering['refused']} refused ({steering['refusal']})"
    return text


def _listed(values: dict, keys: Iterable[str]) -> str:
    """A value that is not known, or 0 among those that count what went wrong, says nothing."""
    quiet = ("rx_missed", "rx_no_buffer", "rx_errors", "tx_errors", "tx_full")
    shown = [key for key in keys if values[key] is not None and (values[key] or key not in quiet)]
    return ", ".join(f"{key} {_short(values[key])}" for key in shown)


def _traffic(name: str, table: dict, now: dict, last: dict | None, seconds: float) -> Text:
    """A port's or a wire's counters, each second."""
    rate = {key: _rate(now, last, key, seconds) for key in table}
    said = _listed(rate, table) or "-"
    return Text(f"  {name}, each second  {said}")


def _rank(slot: dict) -> list[str]:
    """The columns of both tables that say which rank it is."""
    rank, polls = slot["endpoint"] & _RANK_BITS, slot["polls"] or slot["state"]
    return [str(rank), slot["job"], str(slot["pid"]), polls]


def _sums(counters: dict | None) -> list[str]:
    groups = _TOTALS.values()
    return [_short(sum(counters[k] for k in keys) if counters else None) for keys in groups]


def totals_inline(ranks: list[dict]) -> Group:
    """Of ranks that poll alone."""
    table = _grid("rank", "job", "pid", "polls", *_TOTALS)
    for rank in ranks:
        table.add_row(*_rank(rank), *_sums(rank["counters"]))
    return Group(_INLINE, table, Text())


def totals(daemon: dict) -> Group:
    """Everything since the rank or the daemon has started."""
    table = _grid("rank", "job", "pid", "polls", "away", *_TOTALS)
    drops = []
    for slot in ranks(daemon):
        away = slot["away"] / slot["looks"] if slot["looks"] else None
        drops += _drops(slot, slot["pipe"] and {key: slot["pipe"][key] for key in _DROPS}, "")
        table.add_row(*_rank(slot), _percent(away), *_sums(slot["counters"]))
    cpu = f"CPU {_cpu(daemon)}, of the poller {_cpu(daemon['poller'])}"
    lines = [_title(daemon, cpu)]
    if switch := daemon["switch"]:
        lines.append(Text("  switch  " + ", ".join(f"{k} {_short(v)}" for k, v in switch.items())))
    lines.append(Text(f"  port    {_steering(daemon)}"))
    for better in daemon["port"]["steering"]["better"]:
        lines.append(Text(f"          no {better['text']}: {better['why']}"))
    if counters := daemon["port"]["counters"]:
        lines.append(Text(f"          {_listed(counters, PORT)}"))
    for wire in daemon["wires"]:
        lines.append(Text(f"  wire    to node {wire['node_id']}: {_listed(wire, WIRE)}"))
    return Group(*lines, table if table.row_count else Text("  no ranks"), *drops, Text())


def _rate(now: dict | None, before: dict | None, key: str, seconds: float) -> float | None:
    """A second's worth. None: not known, or it has gone back (a rank writes what it likes)."""
    if not now or not before or now.get(key) is None or before.get(key) is None or seconds <= 0:
        return None
    more = now[key] - before[key]
    return more / seconds if more >= 0 else None


_RATES = {
    "tx\n/s": "tx_packets",
    "tx\nB/s": "tx_bytes",
    "rx\n/s": "rx_packets",
    "rx\nB/s": "rx_bytes",
    "again\n/s": "resends",
    "stall\n/s": "no_credit",
    "kept\n/s": "kept",
}


def rates(now: dict, before: dict | None) -> Group:
    """What happened between two answers of a daemon; @before is None if there was none."""
    seconds = (now["clock_ms"] - before["clock_ms"]) / 1000 if before else 0
    old = {(s["slot"], s["generation"]): s for s in ranks(before)} if before else {}
    pipes = any(slot["pipe"] for slot in ranks(now))
    ends = ("pipe\nin", "out") if pipes else ()
    table = _grid("rank", "job", "pid", "polls", "away", *_RATES, "kept\nnow", *ends)
    drops = []
    for slot in ranks(now):
        last = old.get((slot["slot"], slot["generation"]))
        counters, was = slot["counters"], last and last["counters"]
        looks = _rate(slot, last, "looks", seconds)
        away = _rate(slot, last, "away", seconds)
        pipe = slot["pipe"]
        was_pipe = last and last["pipe"]
        lost = {key: _rate(pipe, was_pipe, key, seconds) for key in _DROPS}
        drops += _drops(slot, lost, " each second")
        table.add_row(
            *_rank(slot),
            _percent(away / looks if looks and away is not None else None),
            *(_short(_rate(counters, was, key, seconds)) for key in _RATES.values()),
            _short(counters["kept_now"] if counters else None),
            *(_short(pipe and pipe[end]) for end in ("to_rank", "from_rank") if pipes),
        )
    used = _percent(_rate(now, before, "cpu_seconds", seconds))
    poller, poller_was = now["poller"], before and before["poller"]
    same = poller_was and poller["pid"] == poller_was["pid"]
    since = poller_was if same else None
    polling = _percent(_rate(poller, since, "cpu_seconds", seconds))
    lines = [_title(now, f"CPU {used}, of the poller {polling}")]
    woken = {"lay down": "sleeps", "rung for": "rung", "in vain": "rung_in_vain"}
    text = (f"{t} {_short(_rate(poller, since, k, seconds))}" for t, k in woken.items())
    lines.append(Text("  poller, each second  " + ", ".join(text)))
    if switch := now["switch"]:
        was = before and before["switch"]
        text = (f"{key} {_short(_rate(switch, was, key, seconds))}" for key in switch)
        lines.append(Text("  switch, each second  " + ", ".join(text)))
    lines.append(Text(f"  port  {_steering(now)}"))
    if counters := now["port"]["counters"]:
        was = before and before["port"]["counters"]
        lines.append(_traffic("port", PORT, counters, was, seconds))
    wires = {wire["node_id"]: wire for wire in before["wires"]} if before else {}
    for wire in now["wires"]:
        last = wires.get(wire["node_id"])
        lines.append(_traffic(f"wire to {wire['node_id']}", WIRE, wire, last, seconds))
    return Group(*lines, table if table.row_count else Text("  no ranks"), *drops, Text())


def rates_inline(now: list[dict], before: list[dict]) -> Group:
    """What happened between two answers of each rank that polls alone."""
    old = {(rank["pid"], rank["job"], rank["endpoint"]): rank for rank in before}
    table = _grid("rank", "job", "pid", "polls", *_RATES, "kept\nnow")
    for rank in now:
        last = old.get((rank["pid"], rank["job"], rank["endpoint"]))
        seconds = (rank["clock_ms"] - last["clock_ms"]) / 1000 if last else 0
        counters, was = rank["counters"], last and last["counters"]
        table.add_row(
            *_rank(rank),
            *(_short(_rate(counters, was, key, seconds)) for key in _RATES.values()),
            _short(counters["kept_now"]),
        )
    return Group(_INLINE, table, Text())


def picture(now: Sample, before: Sample) -> Group:
    old = {(d["name"], d["pid"]): d for d in before.daemons}
    shown = [rates(d, old.get((d["name"], d["pid"]))) for d in now.daemons]
    if now.ranks:
        shown.append(rates_inline(now.ranks, before.ranks))
    return Group(*shown, *(Text(text, style="yellow") for text in now.complaints))
