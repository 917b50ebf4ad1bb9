# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats` and `hikyaku top`: what the ranks of this node send, receive, lose and wait for.

Both ask the node's daemons (host/daemon_stats.c). What stands there of a rank is its own word.
"""

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .cli_daemon import Daemon, _names, run_base
from .errors import HikyakuError

_STATS = 11
_WIDE = 150  # columns where there is no terminal
_RANK_BITS = 0xFFFFF  # of an endpoint that the BTL made: the rank in MPI_COMM_WORLD

# ---- asking --------------------------------------------------------------------------------------


@dataclass
class Sample:
    """The answers of all daemons, and what those that did not answer have to say."""

    daemons: list[dict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def take(base: Path, name: str | None) -> Sample:
    sample = Sample()
    for each in [name] if name else _names(base):
        try:
            with Daemon.connect(base, each) as it:
                sample.daemons.append(it.text(_STATS))
        except HikyakuError as error:
            if name:
                raise
            sample.complaints.append(str(error))
    return sample


def _ranks(daemon: dict) -> list[dict]:
    return [slot for slot in daemon["slots"] if slot["state"] != "free"]


# ---- Prometheus ----------------------------------------------------------------------------------

# Names are a promise (docs/man/hikyaku.1.md). JSON member: type, name behind the prefix, help.
_RANK = {
    "tx_packets": ("counter", "tx_packets_total", "Packets sent for the first time."),
    "rx_packets": ("counter", "rx_packets_total", "Packets that arrived for the first time."),
    "tx_bytes": ("counter", "tx_bytes_total", "Bytes in packets sent for the first time."),
    "rx_bytes": ("counter", "rx_bytes_total", "Bytes in packets that arrived the first time."),
    "tx_acks": ("counter", "tx_acks_total", "Acknowledgements sent."),
    "rx_acks": ("counter", "rx_acks_total", "Acknowledgements that arrived."),
    "resends": ("counter", "resends_total", "Packets sent again."),
    "duplicates": ("counter", "duplicates_total", "Packets that arrived again."),
    "loss_time": ("counter", "lost_by_time_total", "Packets called lost by time."),
    "loss_rto": ("counter", "lost_by_timer_total", "Packets called lost by the resend timer."),
    "no_credit": ("counter", "no_credit_total", "Sends that waited for credit of the peer."),
    "no_cwnd": ("counter", "no_cwnd_total", "Sends that waited for the congestion window."),
    "no_block": ("counter", "no_block_total", "Sends that waited for room for their state."),
    "refused": ("counter", "refused_total", "Packets for which there was no room to keep them."),
    "dead_peers": ("counter", "dead_peers_total", "Peers given up."),
    "messages_sent": ("counter", "messages_sent_total", "Messages sent."),
    "messages_delivered": ("counter", "messages_delivered_total", "Messages delivered."),
    "tx_dropped": ("counter", "tx_dropped_total", "Frames that the port did not take."),
    "tx_bulk": ("counter", "tx_bulk_total", "Packets sent by a queue that is for bulk alone."),
    "no_buffer": ("counter", "no_buffer_total", "Times no transmit buffer was free."),
    "async_polls": ("counter", "stand_in_polls_total", "Polls by who took the rank's place."),
    "kept": ("counter", "kept_total", "Frames kept while the rank was away."),
    "kept_now": ("gauge", "kept", "Frames kept just now."),
    "rings": (
        "counter",
        "rings_total",
        "Times that a peer's poller was woken.",
    ),
    "rx_frames": ("counter", "rx_frames_total", "Frames received by the rank's queues or pipes."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent by the rank's queues or pipes."),
    "tx_full": ("counter", "tx_full_total", "Frames for which these had no room just then."),
    "puts": ("counter", "puts_total", "Puts to peers."),
    "gets": ("counter", "gets_total", "Gets from peers."),
    "gets_served": ("counter", "gets_served_total", "Gets of peers that were served."),
    "put_bytes": ("counter", "put_bytes_total", "Bytes put to peers."),
    "put_bytes_in": ("counter", "put_in_bytes_total", "Bytes that peers have put here."),
}
_SLOT = {
    "looks": ("counter", "poller_looks_total", "How often the poller has looked at the rank."),
    "away": ("counter", "poller_away_total", "How often the poller found the rank away."),
}
_PIPE = {
    "to_rank": ("gauge", "pipe_to_rank_frames", "Frames that wait in the pipes to the rank."),
    "from_rank": ("gauge", "pipe_from_rank_frames", "Frames that wait in the rank's pipes."),
    "rx_full": ("counter", "pipe_full_frames_total", "Frames dropped: the rank's pipe was full."),
    "rx_share": ("counter", "pipe_share_frames_total", "Frames dropped: it had its share."),
    "tx_lost": ("counter", "pipe_lost_frames_total", "Frames of the rank the port did not take."),
}
_SWITCH = {
    "rx_frames": ("counter", "rx_frames_total", "Frames received by the switch."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent by the switch."),
    "steered": ("counter", "steered_frames_total", "Frames that came by their rank's own queue."),
    "misled": ("counter", "misled_frames_total", "Frames that came by another rank's queue."),
    "stray": ("counter", "stray_frames_total", "Frames for no rank of this node."),
    "rx_lost": ("counter", "rx_lost_frames_total", "Frames for which a rank had no room."),
    "tx_lost": ("counter", "tx_lost_frames_total", "Frames that the port did not take."),
    "sleeps": ("counter", "sleeps_total", "Times the switch slept."),
    "rung": ("counter", "rung_total", "Times that a ring, or a frame, ended its sleep."),
    "rings": ("counter", "rings_total", "Times that it woke the poller."),
}
_WIRE = {
    "rx_frames": ("counter", "rx_frames_total", "Frames received."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent."),
    "rx_bytes": ("counter", "rx_bytes_total", "Bytes received."),
    "tx_bytes": ("counter", "tx_bytes_total", "Bytes sent."),
}
_PORT = {
    **_WIRE,
    "rx_missed": ("counter", "rx_missed_total", "Frames that came when its ring was full."),
    "rx_no_buffer": ("counter", "rx_no_buffer_total", "Frames for which no buffer was left."),
    "rx_errors": ("counter", "rx_errors_total", "Frames received that were broken."),
    "tx_errors": ("counter", "tx_errors_total", "Frames that could not be sent."),
}
_STEERING = {
    "rules": ("gauge", "steering_rules", "Ranks whose frames a rule of the NIC leads to them."),
    "refused": ("counter", "steering_rules_refused_total", "Rules that the NIC would not make."),
    "queues": ("gauge", "receive_queues", "Receive queues in use."),
}
_DAEMON = {
    "cpu_seconds": ("counter", "cpu_seconds_total", "CPU time of hikyakud, without its poller."),
    "seconds": ("gauge", "uptime_seconds", "Since it started."),
    "ranks_seen": ("counter", "ranks_total", "Ranks that it has had."),
}
_POLLER = {
    "cpu_seconds": ("counter", "cpu_seconds_total", "CPU time of the poller that runs now."),
    "rounds": ("counter", "rounds_total", "Rounds over all slots."),
    "sleeps": ("counter", "sleeps_total", "Times that it lay down until it is rung for."),
    "rung": ("counter", "rung_total", "Times that somebody rang for it."),
    "rung_in_vain": ("counter", "rung_in_vain_total", "… again, before there was anything to do."),
    "starts": ("counter", "starts_total", "How often a poller was started."),
}


def _label(value: object) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class _Exposition:
    """Families in the order of their first sample; the samples of a family stay together."""

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}

    def add(self, prefix: str, table: dict, values: dict | None, **labels: object) -> None:
        inside = ",".join(f'{key}="{_label(value)}"' for key, value in labels.items())
        for member, (kind, name, text) in table.items():
            if values is None or values.get(member) is None:
                continue
            full = f"hikyaku_{prefix}_{name}"
            head = [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
            self.families.setdefault(full, head).append(f"{full}{{{inside}}} {values[member]}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for lines in self.families.values() for line in lines)


def prometheus(sample: Sample) -> str:
    """The text exposition format, version 0.0.4."""
    out = _Exposition()
    for daemon in sample.daemons:
        whose = {"daemon": daemon["name"]}
        out.add("daemon", _DAEMON, daemon, **whose)
        out.add("poller", _POLLER, daemon["poller"], **whose)
        out.add("switch", _SWITCH, daemon["switch"], **whose)
        steering = daemon["port"]["steering"]
        what = {"port": daemon["port"]["spec"], "rung": steering["rung"]}
        out.add("port", _STEERING, steering, **whose, **what)
        out.add("port", _PORT, daemon["port"]["counters"], **whose, port=what["port"])
        for wire in daemon["wires"]:
            out.add("wire", _WIRE, wire, **whose, node=wire["node_id"])
        for slot in _ranks(daemon):
            who = {"job": slot["job"], "endpoint": slot["endpoint"], **whose}
            out.add("rank", _SLOT, slot, **who)
            out.add("rank", _RANK, slot["counters"], **who)
            out.add("rank", _PIPE, slot["pipe"], **who)
    return str(out)


# ---- tables --------------------------------------------------------------------------------------


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
        text += f": {steering['rules']} of {len(_ranks(daemon))} ranks"
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


def totals(daemon: dict) -> Group:
    """Everything since the rank or the daemon has started."""
    table = _grid("rank", "job", "pid", "polls", "away", *_TOTALS)
    drops = []
    for slot in _ranks(daemon):
        counters = slot["counters"]
        sums = [sum(counters[k] for k in keys) if counters else None for keys in _TOTALS.values()]
        away = slot["away"] / slot["looks"] if slot["looks"] else None
        drops += _drops(slot, slot["pipe"] and {key: slot["pipe"][key] for key in _DROPS}, "")
        table.add_row(
            str(slot["endpoint"] & _RANK_BITS),
            slot["job"],
            str(slot["pid"]),
            slot["polls"] or slot["state"],
            _percent(away),
            *map(_short, sums),
        )
    cpu = f"CPU {_cpu(daemon)}, of the poller {_cpu(daemon['poller'])}"
    lines = [_title(daemon, cpu)]
    if switch := daemon["switch"]:
        lines.append(Text("  switch  " + ", ".join(f"{k} {_short(v)}" for k, v in switch.items())))
    lines.append(Text(f"  port    {_steering(daemon)}"))
    for better in daemon["port"]["steering"]["better"]:
        lines.append(Text(f"          no {better['text']}: {better['why']}"))
    if counters := daemon["port"]["counters"]:
        lines.append(Text(f"          {_listed(counters, _PORT)}"))
    for wire in daemon["wires"]:
        lines.append(Text(f"  wire    to node {wire['node_id']}: {_listed(wire, _WIRE)}"))
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
    old = {(s["slot"], s["generation"]): s for s in _ranks(before)} if before else {}
    pipes = any(slot["pipe"] for slot in _ranks(now))
    ends = ("pipe\nin", "out") if pipes else ()
    table = _grid("rank", "job", "pid", "polls", "away", *_RATES, "kept\nnow", *ends)
    drops = []
    for slot in _ranks(now):
        last = old.get((slot["slot"], slot["generation"]))
        counters, was = slot["counters"], last and last["counters"]
        looks = _rate(slot, last, "looks", seconds)
        away = _rate(slot, last, "away", seconds)
        pipe = slot["pipe"]
        was_pipe = last and last["pipe"]
        lost = {key: _rate(pipe, was_pipe, key, seconds) for key in _DROPS}
        drops += _drops(slot, lost, " each second")
        table.add_row(
            str(slot["endpoint"] & _RANK_BITS),
            slot["job"],
            str(slot["pid"]),
            slot["polls"] or slot["state"],
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
        lines.append(_traffic("port", _PORT, counters, was, seconds))
    wires = {wire["node_id"]: wire for wire in before["wires"]} if before else {}
    for wire in now["wires"]:
        last = wires.get(wire["node_id"])
        lines.append(_traffic(f"wire to {wire['node_id']}", _WIRE, wire, last, seconds))
    return Group(*lines, table if table.row_count else Text("  no ranks"), *drops, Text())


def picture(now: Sample, before: Sample) -> Group:
    old = {(d["name"], d["pid"]): d for d in before.daemons}
    shown = [rates(d, old.get((d["name"], d["pid"]))) for d in now.daemons]
    return Group(*shown, *(Text(text, style="yellow") for text in now.complaints))


# ---- stats ---------------------------------------------------------------------------------------


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


_NAME = click.option("--name", help="This daemon alone.")


@click.command()
@_NAME
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--prometheus", "as_prometheus", is_flag=True, help="Text exposition format.")
def stats(name: str | None, as_json: bool, as_prometheus: bool) -> None:
    """Show what the ranks of this node have sent, received, lost and waited for.

    Of all daemons of this user on this node. `polls` says who takes in a rank's frames just now:
    the rank, or the poller while it computes. The exit status is 1 if no daemon runs.

    \b
    Examples:
      hikyaku stats
      hikyaku stats --name default --json
      hikyaku stats --prometheus > /var/lib/node_exporter/hikyaku.prom
    """
    if as_json and as_prometheus:
        raise click.UsageError("--json and --prometheus exclude each other")
    sample = take(run_base(), name)
    for text in sample.complaints:
        click.echo(f"hikyaku: {text}", err=True)
    if as_json:
        click.echo(json.dumps({"schema": 1, "daemons": sample.daemons}, indent=1))
    elif as_prometheus:
        click.echo(prometheus(sample), nl=False)
    else:
        for daemon in sample.daemons:
            _console().print(totals(daemon))
    if not sample.daemons:
        click.echo(f"no hikyakud runs here (looked in {run_base()})", err=True)
        raise SystemExit(1)


# ---- top -----------------------------------------------------------------------------------------


class _Keys:
    """Single keys of the terminal, if there is one; Ctrl-C stays a signal."""

    def __init__(self) -> None:
        self.fd = sys.stdin.fileno() if sys.stdin.isatty() else None

    def __enter__(self) -> "_Keys":
        if self.fd is not None:
            self.saved = termios.tcgetattr(self.fd)
            tty.setcbreak(self.fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self.saved)

    def quits(self, seconds: float) -> bool:
        """Waits so long for q."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.fd] if self.fd is not None else [], [], [], left)
            if ready:
                key = os.read(self.fd, 1)
                if key in (b"q", b"Q", b""):  # nothing: the terminal has gone
                    return True
        return False


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C is how one leaves, and no failure."""
    try:
        yield
    except KeyboardInterrupt:
        return


def _first(name: str | None) -> Sample:
    base = run_base()
    sample = take(base, name)
    if not sample.daemons:
        raise HikyakuError(
            "; ".join(sample.complaints) or f"no hikyakud runs here (looked in {base})",
            "start a job with --mca btl_hikyaku_host hybrid, or: hikyaku daemon start",
        )
    return sample


def _next(name: str | None) -> Sample:
    """Without daemons when they have gone, which is no failure of ours."""
    try:
        return take(run_base(), name)
    except HikyakuError as error:
        return Sample(complaints=[str(error)])


@click.command()
@_NAME
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Print one table after one interval.")
def top(name: str | None, interval: float, once: bool) -> None:
    """Watch the ranks of this node: who polls, rates, resends, waits for credit, CPU.

    Ends with q or Ctrl-C, or when the last daemon has ended. `away` is the share of the poller's
    looks in this interval that found the rank out of MPI.

    \b
    Examples:
      hikyaku top
      hikyaku top --interval 0.5
      hikyaku top --once --interval 5
    """
    console = _console()
    if not once and not console.is_terminal:
        raise HikyakuError("standard output is no terminal", "hikyaku top --once, or hikyaku stats")
    before = _first(name)
    if once:
        time.sleep(interval)
        console.print(picture(_first(name), before))
        return
    said = None
    with _interruptible(), _Keys() as keys:
        shown = picture(before, Sample())
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while not keys.quits(interval):
                now = _next(name)
                if not now.daemons:
                    said = "; ".join(now.complaints) or "the last hikyakud of this node has ended"
                    break
                live.update(picture(now, before), refresh=True)
                before = now
    if said:
        click.echo(said)
