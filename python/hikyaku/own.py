# SPDX-License-Identifier: BSD-3-Clause
"""Labs and guests that a process makes for itself, and what is left of those of a killed one.

Such a process (a test run, a benchmark) names them by own_name(), which has its PID. Each has a
directory with a file that names its maker, so that a later run finds those whose maker is dead and
removes them. The file has the maker's start time too, because PIDs are used again.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from . import process
from .errors import HikyakuError

MAKER = "maker"


def own_name(prefix: str, what: str) -> str:
    """A name that no other running process gives."""
    return f"{prefix}-{os.getpid()}-{what}"


def write_maker(directory: Path) -> None:
    """To be the first file in @directory."""
    (directory / MAKER).write_text(f"{os.getpid()} {process.started(os.getpid())}\n")


def _maker_lives(directory: Path, pid: int) -> bool:
    """Does the process run that made @directory, under a name with @pid?"""
    try:
        maker, started = map(int, (directory / MAKER).read_text().split())
    except (FileNotFoundError, ValueError):
        maker = None  # was killed before it wrote the file, or has yet to write it
    if maker != pid:  # a command made it, which the process with @pid has run
        return pid != os.getpid() and process.alive(pid)
    return process.alive(maker) and process.started(maker) == started


def remove_dead(
    prefix: str, directories: Iterable[tuple[str, Path]], remove: Callable[[str], object]
) -> None:
    """Calls @remove with each name of @directories that own_name(@prefix, …) gave in a process that
    is dead. To be called before the first own_name(@prefix, …) of this process. Tries all of them;
    the error names those that could not be removed."""
    failed = []
    for name, directory in directories:
        match = re.fullmatch(rf"{re.escape(prefix)}-(\d+)-.*", name)
        if match and not _maker_lives(directory, int(match[1])):
            try:
                remove(name)
            except HikyakuError as bad:
                failed.append(f"'{name}' of a dead process stays: {bad}")
    if failed:
        raise HikyakuError("; ".join(failed))
