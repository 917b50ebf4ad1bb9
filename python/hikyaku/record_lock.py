# SPDX-License-Identifier: BSD-3-Clause
"""Locks on a whole file that end with their owner, and that others can see without taking them.

These are fcntl_locking(2)'s locks of an open file description. A process that only looks takes no
lock. With flock() it would hold one for a moment, and an owner that starts then would be refused.
"""

import fcntl
import os
import struct
from pathlib import Path

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock of a 64-bit Linux


def _whole(kind: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def take(fd: int) -> bool:
    """Locks the file, open for writing, until @fd and its copies are closed. False if it is held by
    another one."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole(fcntl.F_WRLCK))
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True


def is_held(path: Path) -> bool:
    """Does somebody hold this lock, or a POSIX lock, on the file? False if there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole(fcntl.F_WRLCK))
    finally:
        os.close(fd)
    return _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK
