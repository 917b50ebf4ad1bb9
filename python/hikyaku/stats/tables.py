# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `hikyaku stats` and `top`: totals since the start, rates between two answers."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from . import Sample, ranks
from .counters import defined

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
    """A narrow table, so that `top` fits into 80 columns."""
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
    "again": ("tx_resends",),
    "lost": ("loss_time", "loss_rto"),
    "dups": ("rx_duplicates",),
    "stall": ("no_credit",),
    "stored": ("proxy_backlogged",),
    "dead": ("dead_peers",),
    "rx\nframes": ("rx_frames",),
    "tx\nframes": ("tx_frames",),
    "full": ("tx_full",),
}


_INLINE = Text("ranks that poll alone (mode inline)", style="bold")
_ALWAYS = ("rx_frames", "tx_frames", "rx_bytes", "tx_bytes")


def _dropped() -> list[str]:
    """The counters of a rank's frames that hikyakud dropped."""
    return [name for name, (kind, _) in defined("pipe").items() if kind == "counter"]


def _drops(slot: dict, drops: dict | None, when: str) -> list[Text]:
    """A line for the frames of a rank that hikyakud dropped, if there are any."""
    if not drops or not any(drops.values()):
        return []
    text = ", ".join(f"{key} {_short(n)}" for key, n in drops.items())
    return [Text(f"  rank {slot['endpoint'] & _RANK_BITS}: {text}{when}")]


def _steering(daemon: dict) -> str:
    """The text for how the port tells its ranks apart."""
    steering = daemon["port"]["steering"]
    text = f"told apart by {steering['text']}"
    if steering["method"] in ("endpoint", "mac", "udp"):
        text += f": {steering['rules']} of {len(ranks(daemon))} ranks"
    if steering["rules_refused"]:
        text += f", {steering['rules_refused']} refused ({steering['refusal']})"
    return text


def _listed(values: dict) -> str:
    """The counters of a port as text, without unknown values and without errors that are 0."""
    known = ((key, values[key]) for key in defined("port") if values[key] is not None)
    return ", ".join(f"{key} {_short(n)}" for key, n in known if n or key in _ALWAYS)


def _traffic(name: str, now: dict, last: dict | None, seconds: float) -> Text:
    """The rates of a port or a wire."""
    rate = {key: _rate(now, last, key, seconds) for key in defined("port")}
    return Text(f"  {name}, each second  {_listed(rate) or '-'}")


def _rank(slot: dict) -> list[str]:
    """The columns that identify a rank."""
    rank, polls = slot["endpoint"] & _RANK_BITS, slot["polls"] or slot["state"]
    return [str(rank), slot["job"], str(slot["pid"]), polls]


def _sums(counters: dict | None) -> list[str]:
    groups = _TOTALS.values()
    return [_short(sum(counters[k] for k in keys) if counters else None) for keys in groups]


def totals_inline(ranks: list[dict]) -> Group:
    """The totals of ranks that poll alone."""
    table = _grid("rank", "job", "pid", "polls", *_TOTALS)
    for rank in ranks:
        table.add_row(*_rank(rank), *_sums(rank["counters"]))
    return Group(_INLINE, table, Text())


def totals(daemon: dict) -> Group:
    """The totals since the start of each rank and of the daemon."""
    table = _grid("rank", "job", "pid", "polls", "no\npoll", *_TOTALS)
    drops = []
    for slot in ranks(daemon):
        absent = slot["not_polling"] / slot["poller_polls"] if slot["poller_polls"] else None
        drops += _drops(slot, slot["pipe"] and {key: slot["pipe"][key] for key in _dropped()}, "")
        table.add_row(*_rank(slot), _percent(absent), *_sums(slot["counters"]))
    cpu = f"CPU {_cpu(daemon)}, of the poller {_cpu(daemon['poller'])}"
    lines = [_title(daemon, cpu)]
    if switch := daemon["switch"]:
        lines.append(Text("  switch  " + ", ".join(f"{k} {_short(v)}" for k, v in switch.items())))
    lines.append(Text(f"  port    {_steering(daemon)}"))
    for better in daemon["port"]["steering"]["better"]:
        lines.append(Text(f"          no {better['text']}: {better['why']}"))
    if counters := daemon["port"]["counters"]:
        lines.append(Text(f"          {_listed(counters)}"))
    for wire in daemon["wires"]:
        lines.append(Text(f"  wire    to node {wire['node_id']}: {_listed(wire)}"))
    return Group(*lines, table if table.row_count else Text("  no ranks"), *drops, Text())


def _rate(now: dict | None, before: dict | None, key: str, seconds: float) -> float | None:
    """The rate a second of counter @key. None if it is unknown, or has decreased (a rank may write
    anything)."""
    if not now or not before or now.get(key) is None or before.get(key) is None or seconds <= 0:
        return None
    more = now[key] - before[key]
    return more / seconds if more >= 0 else None


_RATES = {
    "tx\n/s": "tx_packets",
    "tx\nB/s": "tx_bytes",
    "rx\n/s": "rx_packets",
    "rx\nB/s": "rx_bytes",
    "again\n/s": "tx_resends",
    "stall\n/s": "no_credit",
    "stored\n/s": "proxy_backlogged",
}


def rates(now: dict, before: dict | None) -> Group:
    """The rates between two answers of a daemon. @before: None without an earlier answer."""
    seconds = (now["clock_ms"] - before["clock_ms"]) / 1000 if before else 0
    old = {(s["slot"], s["generation"]): s for s in ranks(before)} if before else {}
    pipes = any(slot["pipe"] for slot in ranks(now))
    ends = ("pipe\nin", "out") if pipes else ()
    table = _grid("rank", "job", "pid", "polls", "no\npoll", *_RATES, "backlog", *ends)
    drops = []
    for slot in ranks(now):
        last = old.get((slot["slot"], slot["generation"]))
        counters, was = slot["counters"], last and last["counters"]
        polls = _rate(slot, last, "poller_polls", seconds)
        absent = _rate(slot, last, "not_polling", seconds)
        pipe = slot["pipe"]
        was_pipe = last and last["pipe"]
        lost = {key: _rate(pipe, was_pipe, key, seconds) for key in _dropped()}
        drops += _drops(slot, lost, " each second")
        table.add_row(
            *_rank(slot),
            _percent(absent / polls if polls and absent is not None else None),
            *(_short(_rate(counters, was, key, seconds)) for key in _RATES.values()),
            _short(counters["rx_backlog_frames"] if counters else None),
            *(
                _short(pipe and pipe[end])
                for end in ("to_rank_frames", "from_rank_frames")
                if pipes
            ),
        )
    used = _percent(_rate(now, before, "cpu_seconds", seconds))
    poller, poller_was = now["poller"], before and before["poller"]
    same = poller_was and poller["pid"] == poller_was["pid"]
    since = poller_was if same else None
    polling = _percent(_rate(poller, since, "cpu_seconds", seconds))
    lines = [_title(now, f"CPU {used}, of the poller {polling}")]
    slept = ("sleeps", "wakeups_received", "wakeups_useless")
    text = (f"{key} {_short(_rate(poller, since, key, seconds))}" for key in slept)
    lines.append(Text("  poller, each second  " + ", ".join(text)))
    if switch := now["switch"]:
        was = before and before["switch"]
        text = (f"{key} {_short(_rate(switch, was, key, seconds))}" for key in switch)
        lines.append(Text("  switch, each second  " + ", ".join(text)))
    lines.append(Text(f"  port  {_steering(now)}"))
    if counters := now["port"]["counters"]:
        was = before and before["port"]["counters"]
        lines.append(_traffic("port", counters, was, seconds))
    wires = {wire["node_id"]: wire for wire in before["wires"]} if before else {}
    for wire in now["wires"]:
        last = wires.get(wire["node_id"])
        lines.append(_traffic(f"wire to {wire['node_id']}", wire, last, seconds))
    return Group(*lines, table if table.row_count else Text("  no ranks"), *drops, Text())


def rates_inline(now: list[dict], before: list[dict]) -> Group:
    """The rates between two answers of each rank that polls alone."""
    old = {(rank["pid"], rank["job"], rank["endpoint"]): rank for rank in before}
    table = _grid("rank", "job", "pid", "polls", *_RATES, "backlog")
    for rank in now:
        last = old.get((rank["pid"], rank["job"], rank["endpoint"]))
        seconds = (rank["clock_ms"] - last["clock_ms"]) / 1000 if last else 0
        counters, was = rank["counters"], last and last["counters"]
        table.add_row(
            *_rank(rank),
            *(_short(_rate(counters, was, key, seconds)) for key in _RATES.values()),
            _short(counters["rx_backlog_frames"]),
        )
    return Group(_INLINE, table, Text())


def picture(now: Sample, before: Sample) -> Group:
    old = {(d["name"], d["pid"]): d for d in before.daemons}
    shown = [rates(d, old.get((d["name"], d["pid"]))) for d in now.daemons]
    if now.ranks:
        shown.append(rates_inline(now.ranks, before.ranks))
    return Group(*shown, *(Text(text, style="yellow") for text in now.complaints))
