# SPDX-License-Identifier: BSD-3-Clause
"""A client of hikyakud, the polling process of a node: finds its daemons and asks them.

It speaks the daemon's control protocol (hostd/control.h) over the daemon's socket, as ranks do.
"""

import json
import os
import shlex
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import process
from .called import again_as_root
from .checkout import built
from .errors import HikyakuError

STATS, STATUS = 11, 10  # requests that Daemon.text() answers
_ERROR, _TEXT, _STOP, _STOPPED = 3, 12, 13, 14
_MAGIC = 0x4C544B48
_VERSION = 2
_HEADER = struct.Struct("=IHHII")  # magic, version, type, length, sequence number
_LARGEST = 8192
_START_S = 30.0
_ANSWER_S = 10.0
_STOP_S = 20.0


def program() -> str:
    """The path of hikyakud: $HIKYAKU_DAEMON, or the built one."""
    return os.environ.get("HIKYAKU_DAEMON") or str(built("src/hikyakud"))


def start(argv: list[str], name: str = "default") -> None:
    """Starts hikyakud @name by @argv, which has --background; returns when it is ready."""
    foreground = [word for word in argv if word != "--background"]
    mark = ("HIKYAKU_STARTED_BY", f"{os.getpid()}.{time.monotonic_ns()}")
    try:
        done = subprocess.run(
            argv,
            env=os.environ | dict([mark]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise HikyakuError(
            f"cannot run {argv[0]}, which HIKYAKU_DAEMON names: {error.strerror}",
            "unset HIKYAKU_DAEMON",
        ) from None
    except subprocess.TimeoutExpired:
        raise HikyakuError(
            f"hikyakud '{name}' was not ready within {_START_S:g} s",
            f"run it in the foreground to see why: {shlex.join(foreground)}",
        ) from None
    except (KeyboardInterrupt, SystemExit):
        # The daemon has left our process group. Its janitor needs time to remove its files.
        ours = "=".join(mark)
        process.end_all(lambda: process.find(tag=ours), grace=_STOP_S, limit=_STOP_S + 5)
        raise
    if done.returncode != 0:
        text = (done.stderr or done.stdout).strip().removeprefix("hikyakud: ")
        raise HikyakuError.said(text or "hikyakud ended without a message")


def run_base() -> Path:
    """The directory that holds the run directories of this user's daemons (hostd/rundir.h)."""
    if given := os.environ.get("HIKYAKU_RUNDIR"):
        return Path(given)
    return Path("/run/hikyaku" if os.geteuid() == 0 else f"/tmp/hikyaku-{os.geteuid()}")


def names(base: Path) -> list[str]:
    """The names of the daemons that have a control socket below @base."""
    try:
        return sorted(d.name for d in base.iterdir() if (d / "control").is_socket())
    except FileNotFoundError:
        return []
    except PermissionError:
        raise HikyakuError(
            f"{base} belongs to another user", again_as_root(HIKYAKU_RUNDIR=base)
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
        """Sends a request of type @kind."""
        try:
            self.sock.send(_HEADER.pack(_MAGIC, _VERSION, kind, _HEADER.size, 1))
        except OSError as error:
            raise self._closed() from error

    def answer(self, want: int) -> bytes:
        """Receives one message, which must be of type @want, and returns its body."""
        try:
            message = self.sock.recv(_LARGEST)
        except TimeoutError:
            raise HikyakuError(
                f"hikyakud '{self.name}' (process {self.pid()}) did not answer in {_ANSWER_S:g} s",
                f"if it hangs, end it, which removes its files: kill -9 {self.pid()}",
            ) from None
        except OSError as error:
            raise self._closed() from error
        if not message:
            raise self._closed()
        if len(message) < _HEADER.size or _HEADER.unpack_from(message)[0] != _MAGIC:
            raise HikyakuError(f"the process that listens as hikyakud '{self.name}' is another one")
        _, _, kind, _, _ = _HEADER.unpack_from(message)
        body = message[_HEADER.size :]
        if kind == _ERROR:
            text = body[8:].split(b"\0")[0].decode(errors="replace")
            raise HikyakuError.said(text)
        if kind != want:
            raise HikyakuError(
                f"hikyakud '{self.name}' answered with message {kind} instead of {want}",
                "use this command and hikyakud of the same release",
            )
        return body

    def _closed(self) -> HikyakuError:
        return HikyakuError(f"hikyakud '{self.name}' closed the connection")

    def text(self, kind: int) -> dict:
        """Asks for STATUS or STATS and returns the JSON, which comes in several messages."""
        self.ask(kind)
        raw = b""
        more = 1
        while more:
            body = self.answer(_TEXT)
            size, more = struct.unpack_from("=II", body)
            raw += body[8 : 8 + size]
        return json.loads(raw)

    def stop(self) -> None:
        """Ends the daemon. Returns when it has removed everything and ended."""
        self.ask(_STOP)
        self.answer(_STOPPED)
        self.sock.settimeout(_STOP_S)
        end = time.monotonic() + _STOP_S
        try:
            while self.sock.recv(_LARGEST) and time.monotonic() < end:
                pass
        except TimeoutError:
            raise HikyakuError(
                f"hikyakud '{self.name}' did not end within {_STOP_S:g} s",
                f"end it, which removes its files: kill -9 {self.pid()}",
            ) from None
