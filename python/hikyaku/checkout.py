# SPDX-License-Identifier: BSD-3-Clause
"""Which checkout or installation this is, and every name that is derived from it.

An installation (docs/install.md) is a directory that has, like a checkout, the launcher, python/,
and perhaps .venv; what is built lies beside them, at the names it has in the build directory.

Two checkouts, two users, or two labs of one checkout must never meet. So each name that lives
outside of the checkout (namespace, state directory) carries a hash of the checkout's path and the
user id, and of the lab's name.
"""

import hashlib
import os
import stat
from pathlib import Path

from .errors import HikyakuError

ROOT = Path(__file__).resolve().parents[2]


INSTALLED = not (ROOT / "meson.build").exists()


def build_dir() -> Path:
    """Where what is built lies: $HIKYAKU_BUILD (relative to the checkout, or absolute), or build/
    in a checkout; beside python/ if we are installed."""
    return (ROOT / os.environ.get("HIKYAKU_BUILD", "." if INSTALLED else "build")).resolve()


def cache_dir() -> Path:
    """What was fetched or made once and is kept: in the build directory, or with the user's."""
    if not INSTALLED:
        return build_dir()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hikyaku"


def output_dir() -> Path:
    """Where files go that nobody gave a name: out/ of the checkout, else of the current
    directory."""
    return (Path.cwd() if INSTALLED else ROOT) / "out"


def built(relative: str) -> Path:
    """A built file, or an error that says how to build it."""
    path = build_dir() / relative
    if not path.exists():
        fix = f"run 'make' in {ROOT} (or set HIKYAKU_BUILD to your build)"
        if INSTALLED:
            fix = "run 'make install' again in the checkout that it was installed from"
        raise HikyakuError(f"{path} is not there", fix)
    return path


def digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


CHECKOUT_ID = "hk" + digest(f"{ROOT}:{os.getuid()}", 6)


def private_dir(path: Path) -> Path:
    """Makes @path, readable by us alone. /tmp belongs to everyone, so one that somebody else made
    is refused instead of used."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise HikyakuError(
            f"{path} exists and is not a private directory of user {os.getuid()}",
            f"look who made it, then remove it: rm -r {path}",
        )
    return path


# Where this checkout keeps what must not outlive the machine's uptime. Absent while no lab is up.
STATE_DIR = Path(f"/tmp/hikyaku-{os.getuid()}-{CHECKOUT_ID}")
