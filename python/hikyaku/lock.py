# SPDX-License-Identifier: BSD-3-Clause
"""Locks that end with their owner: flock() on files and directories, which the kernel releases."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .process import wait_until


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked_directory(
    path: Path, what: str, make: Callable[[Path], object] | None = None, timeout: float = 60
) -> Iterator[None]:
    """Holds the lock of directory @path; waits at most @timeout seconds for @what to end.

    @make: makes a directory that comes and goes. If a locked directory has been removed meanwhile,
    the lock of the new one is taken.
    """
    held: list[int] = []

    def take() -> bool:
        if make:
            make(path)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if try_lock(fd) and path.exists() and os.fstat(fd).st_ino == path.stat().st_ino:
                held.append(fd)
                return True
        finally:
            if not held:
                os.close(fd)
        return False

    wait_until(what, take, timeout)
    try:
        yield
    finally:
        os.close(held[0])
