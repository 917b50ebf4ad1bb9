# SPDX-License-Identifier: BSD-3-Clause
"""Starts a controller in the background, and ends the one that runs with a directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from .. import process
from ..errors import HikyakuError
from .store import Store

LIMIT_S = 30.0
LOG = "log"  # in the controller's directory: what a controller in the background reports


def start(directory: Path, argv: list[str]) -> int:
    """Starts @argv, a controller with @directory, and returns its process when it listens."""
    store = Store(directory)
    log_path = directory / LOG
    child = None

    def listens() -> bool:
        if child.poll() is not None:
            said = log_path.read_text().strip().rpartition("\n")[2]
            raise HikyakuError.said(said.removeprefix("hikyaku: ") or "the controller has ended")
        return store.owner() == child.pid and store.address() is not None

    try:
        with process.uninterrupted(), log_path.open("w") as log:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        process.wait_until("the controller to listen", listens, LIMIT_S)
    except BaseException:
        if child:
            process.stop(child)
        raise
    return child.pid


def again(*without: str) -> list[str]:
    """This command line, without some options."""
    return [sys.executable, *(word for word in sys.orig_argv[1:] if word not in without)]


def stop(directory: Path) -> int | None:
    """Ends the controller of @directory, and returns its process; None: none runs."""
    store = Store(directory) if directory.is_dir() else None
    pid = store.owner() if store else None
    if pid is None:
        return None
    os.kill(pid, signal.SIGTERM)
    process.wait_until(f"process {pid} to end", lambda: not process.alive(pid), LIMIT_S)
    return pid
