# SPDX-License-Identifier: BSD-3-Clause
"""Waits for mpirun, and notices if it hangs after its last rank.

PMIx, up to its version 6.1, uses freed memory when a process dies while it connects, and mpirun
then waits for ever. That happens if a rank fails early and mpirun ends the others while they start.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .. import process

AFTER_LAST_RANK_S = 15.0  # mpirun itself takes up to 4 s, since it gives each rank time to end
NO_RANK_S = 60.0  # for ranks that have not started, or were too short to be seen
_STEP_S = 0.1
_MARKS = (b"\0OMPI_COMM_WORLD_RANK=", b"\0PMI_RANK=")  # of Open MPI, of MPICH


def _is_rank(pid: int) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended
        return False
    return process.alive(pid) and any(mark in environment for mark in _MARKS)


def has_ranks(mpirun: int) -> bool:
    """Does a rank of @mpirun live? It is mpirun's descendant, or its daemons'."""
    return any(_is_rank(pid) for pid in process.descendants(mpirun))


def wait(
    mpirun: subprocess.Popen, timeout: float | None, look: Callable[[], None] = lambda: None
) -> str | None:
    """Waits until @mpirun has ended. If it runs on without ranks, returns a sentence on that.

    @look is called every few seconds while ranks run. After @timeout seconds it raises
    subprocess.TimeoutExpired.
    """
    now = start = time.monotonic()
    end = now + timeout if timeout is not None else float("inf")
    last = None  # when a rank was seen
    handle = os.pidfd_open(mpirun.pid)
    try:
        while mpirun.poll() is None:
            if now >= end:
                raise subprocess.TimeoutExpired(mpirun.args, timeout or 0)
            if has_ranks(mpirun.pid):
                if last is not None:
                    look()
                last = now
            elif last is None and now - start >= NO_RANK_S:
                return f"mpirun had no rank for {NO_RANK_S:g} s"
            elif last is not None and now - last >= AFTER_LAST_RANK_S:
                return f"mpirun still ran {AFTER_LAST_RANK_S:g} s after its last rank had ended"
            # Seldom, once there are ranks: this process must not disturb what they measure.
            step = _STEP_S if last is None else AFTER_LAST_RANK_S / 3
            select.select([handle], [], [], max(0.0, min(step, end - now)))
            now = time.monotonic()
    finally:
        os.close(handle)
    return None
