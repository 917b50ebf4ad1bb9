# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats` and `hikyaku top`: what the ranks of this node send, receive, lose and wait for.

Both ask the node's daemons (host/daemon_stats.c), and ranks that have none (stats/inline.py); what
they answer is shown by stats/.
"""

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from .cli_daemon import Daemon, _names, run_base
from .errors import HikyakuError
from .stats import Sample, inline
from .stats.prometheus import prometheus
from .stats.tables import picture, totals, totals_inline

_STATS = 11
_WIDE = 150  # columns where there is no terminal


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
    if not name:
        sample.ranks, complaints = inline.ask_all()
        sample.complaints += complaints
    return sample


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

    Of all daemons of this user on this node, and of ranks of mode inline. `polls` says who takes in
    a rank's frames just now: the rank, or the poller (inline: its helper) while it computes. The
    exit status is 1 if there are neither.

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
        both = {"schema": 1, "daemons": sample.daemons, "ranks": sample.ranks}
        click.echo(json.dumps(both, indent=1))
    elif as_prometheus:
        click.echo(prometheus(sample), nl=False)
    else:
        for daemon in sample.daemons:
            _console().print(totals(daemon))
        if sample.ranks:
            _console().print(totals_inline(sample.ranks))
    if not sample.daemons and not sample.ranks:
        text = f"no hikyakud runs here (looked in {run_base()}), and no rank of mode inline"
        click.echo(text, err=True)
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
    if not sample.daemons and not sample.ranks:
        raise HikyakuError(
            "; ".join(sample.complaints)
            or f"no hikyakud runs here (looked in {base}), and no rank of mode inline",
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
                if not now.daemons and not now.ranks:
                    said = "; ".join(now.complaints) or "the last hikyakud of this node has ended"
                    break
                live.update(picture(now, before), refresh=True)
                before = now
    if said:
        click.echo(said)
