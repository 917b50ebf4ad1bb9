# SPDX-License-Identifier: BSD-3-Clause
"""Processes: runs short programs with a limit, finds the processes of a lab, and ends them.

The processes of a lab do not form one tree, since Open MPI's daemons detach. Two properties
identify them: their network namespace, and a tag in the environment that they were started with.
Both are read from /proc.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .called import install_deps
from .errors import HikyakuError


def run(
    argv: list[str],
    *,
    text_in: str | None = None,
    timeout: float = 30,
    env: Mapping[str, str] | None = None,
) -> str:
    """Runs a short program and returns its output; an error has its message. @env: the whole
    environment of the program."""
    try:
        done = subprocess.run(
            argv,
            input=text_in,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=env,
        )
    except FileNotFoundError:
        raise HikyakuError(f"{argv[0]} is not installed", install_deps()) from None
    except subprocess.TimeoutExpired:
        command = " ".join(argv)
        raise HikyakuError(
            f"'{command}' did not end within {timeout:g} s",
            f"try again, or run it yourself if the machine is not busy: {command}",
        ) from None
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise HikyakuError(f"'{' '.join(argv)}' failed: {message}")
    return done.stdout


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays the signals that end this process to the end of the block. An interrupted Popen()
    would leave its child running. The child inherits nothing of this."""
    held: list[int] = []
    before = {
        signum: signal.signal(signum, lambda signum, _: held.append(signum))
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(signal.getsignal(signum))
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        for signum in held[:1]:
            signal.raise_signal(signum)


def option_words(**values: object) -> list[str]:
    """The words of a command line for name=VALUE: --name VALUE, with - for _.

    True gives the option alone, None and False give nothing, a list gives the option for each.
    """
    words = []
    for name, value in values.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None and each is not False:
                words += [f"--{name.replace('_', '-')}"] + [str(each)] * (each is not True)
    return words


def wait_until(what: str, condition: Callable[[], bool], timeout: float) -> None:
    """Waits for @condition, at most @timeout seconds. The error names @what."""
    end = time.monotonic() + timeout
    pause = 0.005
    while not condition():
        if time.monotonic() > end:
            raise HikyakuError(f"waited {timeout:g} s in vain: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def stop(child: subprocess.Popen, grace: float = 10) -> None:
    """Ends @child: SIGTERM, and SIGKILL after @grace seconds. Nothing if it has ended."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(timeout=grace)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on (proc(5)); None where no such process is."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _ancestors() -> set[int]:
    """This process and its ancestors, which are never ended."""
    found = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = stat(pid)
        if fields is None:
            break
        pid = int(fields[1])
    return found


def alive(pid: int) -> bool:
    """Does @pid run? A zombie does not. A process whose first thread has ended looks like a zombie,
    but its other threads still hold files and memory."""
    fields = stat(pid)
    return fields is not None and (fields[0] not in "ZX" or int(fields[17]) > 1)


def started(pid: int) -> int | None:
    """When @pid was started, in the kernel's ticks since boot: with it, a process has a name that
    no later one has."""
    fields = stat(pid)
    return int(fields[19]) if fields else None


def descendants(pid: int) -> list[int]:
    """The children of @pid, theirs, and so on; without those whose parent has ended."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in map(int, thread.read_text().split()):
                found += [child, *descendants(child)]
    return found


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
    # It may have ended already.
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


def end_all(look: Callable[[], list[int]], *, grace: float = 2, limit: float = 15) -> int:
    """Ends every process that @look finds: SIGTERM, then SIGKILL after @grace seconds, repeatedly,
    since they may fork. Returns their first number; an error names survivors."""
    first = look()
    for pid in first:
        send_signal(pid, signal.SIGTERM)
    seen = set(first)
    start = time.monotonic()
    pause = 0.01
    # a process that is ending has no environment, so @look cannot find it
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
