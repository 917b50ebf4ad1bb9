# SPDX-License-Identifier: BSD-3-Clause
"""Running daemons of this user, and the leftovers of killed ones."""

import errno
import fcntl
import os
import re
import shlex
import time
from pathlib import Path

from ..called import make
from ..errors import HikyakuError
from ..hostd import run_base
from ..record_lock import is_held
from ..sdn.tagger import STALE_FIX, check, stale_text
from .finding import OK, WARN, Finding, Findings, text_of
from .sharing import huge_mounts

_YOUNG_S = 10  # who is just starting has files, but no lock yet
_OURS = re.compile(r"hk\d+-")  # names of shared memories: hostd/rundir.c
_MAP = re.compile(r"hk\d+-.*map_\d+")


def _old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _YOUNG_S
    except OSError:
        return False


def _mine(path: Path) -> bool:
    """Does this user own @path? False if it has been removed meanwhile."""
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _held(lock: Path) -> bool:
    """Does a process hold the flock of @lock? Takes it for a moment, shared."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(fd)
    return False


def _mapped(files: list[Path], proc: Path = Path("/proc")) -> set[Path]:
    """The files of @files that a process has mapped."""
    wanted = {}
    for file in files:
        try:
            stat = file.stat()
        except OSError:  # its owner has just removed it
            continue
        device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
        wanted[device, str(stat.st_ino)] = file
    found = set()
    for maps in proc.glob("[0-9]*/maps") if wanted else []:
        try:
            lines = maps.read_text().splitlines()
        except OSError:  # another user's, or it has ended
            continue
        for line in lines:
            if file := wanted.get(tuple(line.split()[3:5])):
                found.add(file)
    return found


def _remove(*paths: Path) -> str:
    return "rm -r " + " ".join(shlex.quote(str(p)) for p in paths)


def _run_directories(base: Path) -> Findings:
    for lock in sorted(base.glob("*/lock")):
        where = lock.parent
        if _held(lock):
            yield Finding("hikyakud", OK, f"'{where.name}' runs ({where})")
        elif _old(where):
            noted = [Path(line) for line in (text_of(where / "leftovers") or "").splitlines()]
            yield Finding(
                "hikyakud",
                WARN,
                f"'{where.name}' has died and left {where}; the next hikyakud of this user "
                "removes it",
                _remove(where, *(p for p in noted if p.is_socket())),
            )
    for lock in sorted(base.glob("*.start")):
        if lock.is_file() and not _held(lock) and _old(lock):
            yield Finding(
                "hikyakud", WARN, f"{lock}: a rank was killed while it started one", _remove(lock)
            )


def _dpdk_bases() -> list[Path]:
    given = (os.environ.get(name) for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"))
    return [Path(p) for p in (*given, "/var/run", f"/tmp/hikyaku-{os.geteuid()}") if p]


def _dpdk_files(bases: list[Path], mounts: Path) -> Findings:
    for base in bases:
        for where in sorted((base / "dpdk").glob("hk*")):
            if (
                _OURS.match(where.name)
                and where.is_dir()
                and _mine(where)
                and not is_held(where / "config")
                and _old(where)
            ):
                yield Finding(
                    "hikyakud", WARN, f"{where}: DPDK's files of one that has died", _remove(where)
                )
    maps = [
        file
        for mount in huge_mounts(mounts)
        if mount.usable
        for file in sorted(mount.directory.glob("hk*map_*"))
        if _MAP.fullmatch(file.name) and _mine(file) and _old(file)
    ]
    mapped = _mapped(maps)
    unused = [file for file in maps if file not in mapped and file.exists()]
    if unused:
        yield Finding(
            "hikyakud",
            WARN,
            f"huge pages of one that has died: {', '.join(map(str, unused))}",
            _remove(*unused),
        )


def daemons(
    base: Path | None = None,
    dpdk_bases: list[Path] | None = None,
    mounts: Path = Path("/proc/self/mounts"),
) -> Findings:
    """Daemons of this user that run, and what those that were killed have left."""
    found = [
        *_run_directories(run_base() if base is None else base),
        *_dpdk_files(_dpdk_bases() if dpdk_bases is None else dpdk_bases, mounts),
    ]
    yield from found
    if not found:
        yield Finding("hikyakud", OK, "none of this user runs, and nothing is left of one")


def tagger() -> Findings:
    """How the tagger of TCP attaches to interfaces, and the filters of killed taggers."""
    try:
        said = check()
    except HikyakuError as error:
        text = f"hk-tagger does not run: {error.what}"
        yield Finding("tagger", WARN, text, error.fix or make())
        return
    if said["attach"] == "tcx":
        yield Finding("tagger", OK, "the kernel has tcx: what tags goes with its process")
    else:
        yield Finding("tagger", OK, "the kernel is older than 6.6: filters of clsact will tag")
    if said["stale"]:
        yield Finding("tagger", WARN, stale_text(said["stale"]), STALE_FIX)
