# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces of this machine, entered by this process (setns(2))."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import HikyakuError

CLONE_NEWNET = 0x4000_0000


@contextlib.contextmanager
def inside(netns: Path | None) -> Iterator[None]:
    """Runs the block in network namespace @netns, with the threads that it starts. None: in this
    one. A socket stays in the namespace where it was made."""
    if netns is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd: int) -> None:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            error = os.strerror(ctypes.get_errno())
            raise HikyakuError(f"cannot enter network namespace {netns}: {error}", "run as root")

    with Path("/proc/thread-self/ns/net").open() as own, netns.open() as theirs:
        enter(theirs.fileno())
        try:
            yield
        finally:
            enter(own.fileno())
