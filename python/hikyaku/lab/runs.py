# SPDX-License-Identifier: BSD-3-Clause
"""The directories of the runs in a lab: made, locked while the run lives, found when stale."""

import fcntl
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from ..lock import locked_directory, try_lock


def runs_locked(runs: Path) -> AbstractContextManager[None]:
    """Holds the lock for starting and ending runs, and for finding stale ones."""
    return locked_directory(runs, f"the lock of {runs}: another run starts or is cleaned up")


@contextmanager
def run_directory(runs: Path) -> Iterator[Path]:
    """A directory for one run, with Open MPI's session files. Its lock shows that it is in use."""
    path = runs / uuid.uuid4().hex[:8]
    with ExitStack() as stack:
        with runs_locked(runs):
            path.mkdir(mode=0o700)
            lock = stack.enter_context((path / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            with runs_locked(runs):
                shutil.rmtree(path)


def stale_runs(runs: Path) -> list[Path]:
    """The directories of runs whose process was killed. Call it under runs_locked()."""
    found = []
    for path in sorted(runs.iterdir()) if runs.is_dir() else []:
        with suppress(FileNotFoundError):  # it has just ended
            lock = path / "lock"
            if not lock.exists():
                found.append(path)  # killed between the two steps of its start
                continue
            with lock.open() as open_lock:
                if try_lock(open_lock.fileno()):
                    found.append(path)
    return found
