# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku daemon`: starts, stops and shows hikyakud, the polling process of a node."""

import json
import os

import click

from .. import hostd
from ..errors import HikyakuError
from ..process import option_words
from .options import json_flag


@click.group()
def daemon() -> None:
    """The polling process of a node: hikyakud.

    It owns the port, so that several ranks share it. While a rank computes, it acknowledges and
    stores that rank's frames. The first rank of a job on a node starts one by itself
    (--mca btl_hikyaku_mode hybrid), which ends with the job. With these commands you run one that
    stays, for all of your jobs. It needs huge pages: see `hikyaku doctor`.

    \b
    Examples:
      hikyaku daemon start --port memif:dir=/run/wires --slots 4
      hikyaku daemon status
      hikyaku daemon stop
    """


_NAME = click.option("--name", default="default", help="Which daemon.")


@daemon.command(context_settings={"ignore_unknown_options": True})
@_NAME
@click.option("--port", help="The port that the ranks share, as in docs/ports.md.")
@click.option("--slots", type=click.IntRange(1, 64), help="Ranks at the same time.")
@click.option("--config", type=click.Path(), help="Configuration file.")
@click.argument("more", nargs=-1, type=click.UNPROCESSED)
def start(
    name: str, port: str | None, slots: int | None, config: str | None, more: tuple[str, ...]
) -> None:
    """Start hikyakud and wait until it is ready.

    Options that you leave out come from /etc/hikyaku/hikyakud.conf, if that exists. Huge pages come
    from $HIKYAKU_HUGE_DIR, if that is set. Further options are handed to hikyakud; `hikyakud
    --help` lists them.

    \b
    Examples:
      hikyaku daemon start --port memif:dir=/run/wires
      hikyaku daemon start --slots 8 --rx-buffers 8192 --poller off
    """
    given = option_words(name=name, port=port or None, slots=slots, config=config or None)
    given += option_words(huge_dir=os.environ.get("HIKYAKU_HUGE_DIR") or None)
    hostd.start([hostd.program(), "--background", *given, *more], name)
    with hostd.Daemon.connect(hostd.run_base(), name) as it:
        click.echo(f"hikyakud '{name}' is ready (process {it.pid()})")


@daemon.command()
@_NAME
@click.option("--all", "every", is_flag=True, help="All daemons of this user.")
def stop(name: str, every: bool) -> None:
    """End hikyakud, and wait until it has removed everything.

    The jobs whose ranks use it end, too.

    \b
    Examples:
      hikyaku daemon stop
      hikyaku daemon stop --all
    """
    base = hostd.run_base()
    living = hostd.names(base)
    if not every and name not in living:
        click.echo(f"no hikyakud '{name}' runs here (looked in {base}): nothing to stop")
    for each in living if every else [name] if name in living else []:
        with hostd.Daemon.connect(base, each) as it:
            it.stop()
        click.echo(f"hikyakud '{each}' has ended")


_CORES = {
    True: "poller and switch get a core as soon as they are woken",
    False: "poller and switch may wait for a core that other processes use",
}


def _show(state: dict) -> None:
    job = f"job {state['job_key']}" if state["job_key"] else "any job"
    poller = state["poller"]
    click.echo(
        f"hikyakud '{state['name']}' {state['release']} on {state['host']}: process "
        f"{state['pid']}, user {state['user']}, {job}, up {state['uptime_seconds']} s"
    )
    click.echo(f"  port    {state['port']}")
    click.echo(f"  mode    {state['mode']}")
    click.echo(f"  poller  {poller['state']}, started {poller['starts']} times")
    if "realtime" in state:  # a daemon of this release
        click.echo(f"  cores   {_CORES[state['realtime']]}")
        if state["why_not_realtime"]:
            click.echo(f"          {state['why_not_realtime']}")
    for wire in state["wires"]:
        click.echo(f"  wire    to node {wire['node_id']}: {wire['state']}")
    for slot in state["slots"]:
        text = f"  slot {slot['slot']:<3}{slot['state']}"
        if slot["state"] != "free":
            text += (
                f": process {slot['pid']}, endpoint {slot['endpoint']} of job {slot['job_key']}, "
                f"{slot['seconds']} s, not polling in {slot['not_polling']} of "
                f"{slot['poller_polls']} polls by the poller"
            )
        click.echo(text)


@daemon.command()
@click.option("--name", help="Only this daemon.")
@json_flag
def status(name: str | None, as_json: bool) -> None:
    """Show the daemons of this user on this node: ranks, wires, poller.

    \b
    The states of a slot:
      free            no rank has it
      attached        a rank owns it
      ready           a rank owns it, and the poller acts for the rank while it computes
      leaving, left   the rank has detached
      gone            the connection of the rank is closed, but its process still runs

    The exit status is 1 if no daemon runs.

    \b
    Examples:
      hikyaku daemon status
      hikyaku daemon status --name default --json
    """
    base = hostd.run_base()
    states = []
    for each in [name] if name else hostd.names(base):
        try:
            with hostd.Daemon.connect(base, each) as it:
                states.append(it.text(hostd.STATUS))
        except HikyakuError:
            if name:
                raise  # else it has just ended
    if as_json:
        click.echo(json.dumps({"schema": 1, "daemons": states}, indent=1))
    elif not states:
        click.echo(f"no hikyakud runs here (looked in {base})")
    else:
        for state in states:
            _show(state)
    if not states:
        raise SystemExit(1)
