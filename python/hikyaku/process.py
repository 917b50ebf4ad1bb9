# SPDX-License-Identifier: BSD-3-Clause
"""Processes: running helpers with a limit, finding those of a lab, ending them for certain.

A lab's processes do not form one tree (Open MPI's daemons detach), so they are found by what they
cannot shed: the network namespace they live in, or a tag in the environment they were started
with. Both are read from /proc.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .errors import HikyakuError


def run(argv: list[str], *, text_in: str | None = None, timeout: float = 30) -> str:
    """Runs a short helper program and returns its output; fails with its message."""
    try:
        done = subprocess.run(
            argv, input=text_in, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise HikyakuError(f"{argv[0]} is not installed", "run scripts/install-deps") from None
    except subprocess.TimeoutExpired:
        raise HikyakuError(f"'{' '.join(argv)}' did not end within {timeout:g} s") from None
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise HikyakuError(f"'{' '.join(argv)}' failed: {message}")
    return done.stdout


def wait_until(what: str, condition: Callable[[], bool], timeout: float) -> None:
    """Waits for @condition, at most @timeout seconds; says what was waited for if it fails."""
    end = time.monotonic() + timeout
    pause = 0.005
    while not condition():
        if time.monotonic() > end:
            raise HikyakuError(f"waited {timeout:g} s in vain: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def _ancestors() -> set[int]:
    """This process and those it was started by: never to be killed, wherever they live."""
    found = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        pid = int(fields[1])
    return found


def alive(pid: int) -> bool:
    """Does @pid run? A zombie does not: it only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def net_namespace(pid: int | str = "self") -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None


def find(*, tag: str | None = None, namespaces: Iterable[int] = ()) -> list[int]:
    """Processes started with @tag ("NAME=value") in their environment or living in one of
    @namespaces (inode numbers); never this process or its ancestors."""
    wanted = set(namespaces)
    needle = b"\0" + tag.encode() + b"\0" if tag else None
    spare = _ancestors()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) in spare:
            continue
        pid = int(entry.name)
        if not alive(pid):
            continue
        if net_namespace(pid) in wanted:
            found.append(pid)
        elif needle:
            try:
                environ = b"\0" + Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
            except OSError:
                continue
            if needle in environ:
                found.append(pid)
    return found


def command_line(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "?"
    return raw.replace(b"\0", b" ").decode(errors="replace").strip() or "?"


def send_signal(pid: int, signum: int) -> None:
    # If it ended in the meantime, that is what we wanted.
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


def end_all(look: Callable[[], list[int]], *, grace: float = 2, limit: float = 15) -> int:
    """Ends every process that @look finds: SIGTERM, then SIGKILL after @grace seconds, again and
    again, since they may fork meanwhile. Returns how many there were; fails if some survive."""
    first = look()
    for pid in first:
        send_signal(pid, signal.SIGTERM)
    seen = set(first)
    start = time.monotonic()
    pause = 0.01
    # one that is on its way out has no environment any more by which it could be found
    while remaining := look() or [pid for pid in seen if alive(pid)]:
        seen.update(remaining)
        passed = time.monotonic() - start
        if passed > limit:
            names = ", ".join(f"{pid} ({command_line(pid)})" for pid in remaining[:4])
            raise HikyakuError(f"processes survive SIGKILL for {limit:g} s: {names}")
        if passed > grace:
            for pid in remaining:
                send_signal(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return len(first)
