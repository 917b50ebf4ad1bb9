# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku top`: the rates of the ranks of this node, again and again."""

import os
import select
import shlex
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from rich.live import Live

from ..errors import HikyakuError
from ..process import option_words
from ..stats import Sample
from ..stats.ask import Place, nobody, places, take
from ..stats.tables import picture
from .options import wide_console
from .stats import COLUMNS, name_option, node_option, nodes_option


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
        """Waits up to @seconds; returns whether q was pressed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.fd] if self.fd is not None else [], [], [], left)
            if ready:
                key = os.read(self.fd, 1)
                if key in (b"q", b"Q", b""):  # empty: the terminal is closed
                    return True
        return False


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the block like q does."""
    try:
        yield
    except KeyboardInterrupt:
        return


def _first(where: Sequence[Place], lab: str | None, name: str | None) -> Sample:
    sample = take(where, name)
    if sample.complaints and not sample.daemons and not sample.ranks:
        raise HikyakuError("; ".join(sample.complaints))
    if not sample.daemons and not sample.ranks:
        raise nobody("top", where, lab)
    return sample


def _next(where: Sequence[Place], name: str | None) -> Sample:
    """Like _first(), but an empty sample when the daemons have ended."""
    try:
        return take(where, name)
    except HikyakuError as error:
        return Sample(complaints=[str(error)])


@click.command(epilog=COLUMNS)
@nodes_option
@node_option
@name_option
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    metavar="S",
    help="Seconds between two updates.",
)
@click.option("--once", is_flag=True, help="Print one table after one interval.")
def top(lab: str | None, node: str | None, name: str | None, interval: float, once: bool) -> None:
    """Watch the ranks of this node: rates, resends, waits, CPU.

    Ends with q or Ctrl-C, or when the last daemon has ended.

    \b
    Examples:
      hikyaku top
      hikyaku top --lab default --interval 0.5
      hikyaku top --once --interval 5
    """
    console = wide_console(150, highlight=False)
    if not once and not console.is_terminal:
        again = shlex.join(["hikyaku", *sys.argv[1:], "--once"])
        stats = shlex.join(["hikyaku", "stats", *option_words(lab=lab, node=node, name=name)])
        raise HikyakuError("standard output is not a terminal", f"`{again}`, or `{stats}`")
    lab = lab or ("default" if node else None)
    where = places(lab, node)
    before = _first(where, lab, name)
    if once:
        time.sleep(interval)
        console.print(picture(_first(where, lab, name), before))
        return
    message = None
    with _interruptible(), _Keys() as keys:
        shown = picture(before, Sample())
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while not keys.quits(interval):
                now = _next(where, name)
                if not now.daemons and not now.ranks:
                    message = "; ".join(now.complaints) or "the last hikyakud here has ended"
                    break
                live.update(picture(now, before), refresh=True)
                before = now
    if message:
        click.echo(message)
