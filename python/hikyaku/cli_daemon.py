# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku daemon`: starts, stops and shows hikyakud, the polling process of a node.

Speaks the daemon's control protocol (host/control.h) over its socket, as ranks do.
"""

import json
import os
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import click

from .errors import HikyakuError

_MAGIC = 0x4C544B48
_VERSION = 1
_HEADER = struct.Struct("=IHHII")  # magic, version, type, length, sequence number
_ERROR, _STATUS, _TEXT, _STOP, _STOPPED = 3, 10, 12, 13, 14
_LARGEST = 8192
_ANSWER_S = 10.0
_STOP_S = 20.0
_START_S = 30.0


def run_base() -> Path:
    """Where this user's daemons have their directories (host/rundir.h)."""
    if given := os.environ.get("HIKYAKU_RUNDIR"):
        return Path(given)
    return Path("/run/hikyaku" if os.geteuid() == 0 else f"/tmp/hikyaku-{os.geteuid()}")


def _names(base: Path) -> list[str]:
    try:
        return sorted(d.name for d in base.iterdir() if (d / "control").is_socket())
    except FileNotFoundError:
        return []
    except PermissionError:
        raise HikyakuError(
            f"{base} is another user's", f"ask as that user, or as root: sudo ls {base}"
        ) from None


@dataclass
class Daemon:
    """A connection to one daemon."""

    name: str
    sock: socket.socket

    @classmethod
    def connect(cls, base: Path, name: str) -> "Daemon":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(_ANSWER_S)
        try:
            sock.connect(str(base / name / "control"))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            sock.close()
            raise HikyakuError(
                f"no hikyakud '{name}' runs here (looked in {base})",
                f"start one: hikyaku daemon start --name {name} --port SPEC",
            ) from None
        except OSError as error:
            sock.close()
            raise HikyakuError(
                f"cannot connect to hikyakud '{name}': {error.strerror or error}"
            ) from None
        return cls(name, sock)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def pid(self) -> int:
        creds = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("=iII", creds)[0])

    def ask(self, kind: int) -> None:
        try:
            self.sock.send(_HEADER.pack(_MAGIC, _VERSION, kind, _HEADER.size, 1))
        except OSError as error:
            raise self._gone() from error

    def answer(self, want: int) -> bytes:
        """The body of the next message, which must be of type @want."""
        try:
            message = self.sock.recv(_LARGEST)
        except TimeoutError:
            raise HikyakuError(
                f"hikyakud '{self.name}' (process {self.pid()}) did not answer in {_ANSWER_S:g} s",
                f"if it hangs: kill -9 {self.pid()}; what it leaves is removed then",
            ) from None
        except OSError as error:
            raise self._gone() from error
        if not message:
            raise self._gone()
        if len(message) < _HEADER.size or _HEADER.unpack_from(message)[0] != _MAGIC:
            raise HikyakuError(f"what listens as hikyakud '{self.name}' is not hikyakud")
        _, _, kind, _, _ = _HEADER.unpack_from(message)
        body = message[_HEADER.size :]
        if kind == _ERROR:
            text = body[8:].split(b"\0")[0].decode(errors="replace")
            raise HikyakuError.said(text)
        if kind != want:
            raise HikyakuError(
                f"hikyakud '{self.name}' speaks otherwise (message {kind} instead of {want})",
                "use the hikyaku command and hikyakud of the same release",
            )
        return body

    def _gone(self) -> HikyakuError:
        return HikyakuError(f"hikyakud '{self.name}' closed the connection")

    def text(self, kind: int) -> dict:
        """STATUS or STATS: JSON in several messages."""
        self.ask(kind)
        raw = b""
        more = 1
        while more:
            body = self.answer(_TEXT)
            size, more = struct.unpack_from("=II", body)
            raw += body[8 : 8 + size]
        return json.loads(raw)

    def stop(self) -> None:
        """Returns when the daemon has removed everything and ended."""
        self.ask(_STOP)
        self.answer(_STOPPED)
        self.sock.settimeout(_STOP_S)
        end = time.monotonic() + _STOP_S
        try:
            while self.sock.recv(_LARGEST) and time.monotonic() < end:
                pass
        except TimeoutError:
            raise HikyakuError(
                f"hikyakud '{self.name}' has not ended within {_STOP_S:g} s",
                f"kill -9 {self.pid()}; what it leaves is removed then",
            ) from None


def _program() -> str:
    if given := os.environ.get("HIKYAKU_DAEMON"):
        return given
    from .checkout import built

    return str(built("host/daemon/hikyakud"))


@click.group()
def daemon() -> None:
    """The polling process of a node: hikyakud.

    It owns the port, so that several ranks share it, and serves ranks that compute: their frames
    are acknowledged and kept. A job's first rank on a node starts one by itself
    (--mca btl_hikyaku_host hybrid), and it goes with the job; with these commands you run one that
    stays and that any job of yours uses. It needs huge pages: `hikyaku doctor` tells.

    \b
    Examples:
      hikyaku daemon start --port memif:dir=/run/wires --slots 4
      hikyaku daemon status
      hikyaku daemon stop
    """


_NAME = click.option("--name", default="default", show_default=True, help="Which daemon.")


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

    What is not given comes from /etc/hikyaku/hikyakud.conf, if that is there. Further options go to
    hikyakud as they are; `hikyakud --help` lists them.

    \b
    Examples:
      hikyaku daemon start --port memif:dir=/run/wires
      hikyaku daemon start --slots 8 --rx-buffers 8192 --poller off
    """
    options = {"--name": name, "--port": port, "--slots": slots, "--config": config}
    given = [word for key, value in options.items() if value for word in (key, str(value))]
    program = _program()
    try:
        done = subprocess.run(
            [program, "--background", *given, *more],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise HikyakuError(
            f"cannot run {program}: {error.strerror}", "build it: make (or set HIKYAKU_DAEMON)"
        ) from None
    except subprocess.TimeoutExpired:
        raise HikyakuError(
            f"hikyakud '{name}' was not ready within {_START_S:g} s",
            f"see where it waits: {program} --name {name}",
        ) from None
    if done.returncode != 0:
        text = (done.stderr or done.stdout).strip().removeprefix("hikyakud: ")
        raise HikyakuError.said(text or "hikyakud ended and said nothing")
    with Daemon.connect(run_base(), name) as it:
        click.echo(f"hikyakud '{name}' is ready (process {it.pid()})")


@daemon.command()
@_NAME
@click.option("--all", "every", is_flag=True, help="All of this user.")
def stop(name: str, every: bool) -> None:
    """End hikyakud, and wait until everything of it is removed.

    Ranks that are attached are told, and their jobs end.

    \b
    Examples:
      hikyaku daemon stop
      hikyaku daemon stop --all
    """
    base = run_base()
    living = _names(base)
    if not every and name not in living:
        click.echo(f"no hikyakud '{name}' runs here (looked in {base}): nothing to stop")
    for each in living if every else [name] if name in living else []:
        with Daemon.connect(base, each) as it:
            it.stop()
        click.echo(f"hikyakud '{each}' has ended")


_CORES = {
    True: "poller and switch have theirs as soon as they are woken",
    False: "poller and switch may wait for one that others compute on",
}


def _show(state: dict) -> None:
    job = f"job {state['job_key']}" if state["job_key"] else "any job"
    poller = state["poller"]
    click.echo(
        f"hikyakud '{state['name']}' {state['release']} on {state['host']}: process "
        f"{state['pid']}, user {state['user']}, {job}, up {state['seconds']} s"
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
                f"{slot['seconds']} s, absent in {slot['away']} of {slot['looks']} looks"
            )
        click.echo(text)


@daemon.command()
@click.option("--name", help="This one alone.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(name: str | None, as_json: bool) -> None:
    """Show the daemons of this user on this node: ranks, wires, poller.

    A slot is free; held (a rank has it); served (and the poller takes its place when it computes);
    leaving or left (it has said goodbye); or gone (its connection is closed, its process still
    runs). The exit status is 1 if no daemon runs.

    \b
    Examples:
      hikyaku daemon status
      hikyaku daemon status --name default --json
    """
    base = run_base()
    states = []
    for each in [name] if name else _names(base):
        try:
            with Daemon.connect(base, each) as it:
                states.append(it.text(_STATUS))
        except HikyakuError:
            if name:
                raise  # else: it has ended since we looked
    if as_json:
        click.echo(json.dumps({"schema": 1, "daemons": states}, indent=1))
    elif not states:
        click.echo(f"no hikyakud runs here (looked in {base})")
    else:
        for state in states:
            _show(state)
    if not states:
        raise SystemExit(1)
