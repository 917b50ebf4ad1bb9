# SPDX-License-Identifier: BSD-3-Clause
"""Which checkout or installation this is, and every name that is derived from it.

An installation (docs/install.md) has the launcher, python/ and perhaps .venv, like a checkout.
Built files are beside them, under the names that they have in the build directory.

Two checkouts, two users, or two labs of one checkout must never use the same name. So each name
outside of the checkout (namespace, state directory) carries a hash of the checkout's path, the user
id and the lab's name.
"""

import hashlib
import os
import shlex
import stat
from pathlib import Path

from .errors import HikyakuError

ROOT = Path(__file__).resolve().parents[2]


INSTALLED = not (ROOT / "meson.build").exists()


def build_dir() -> Path:
    """The directory of built files: $HIKYAKU_BUILD (relative to the checkout, or absolute), or
    build/ in a checkout. In an installation it is the directory that holds python/."""
    return (ROOT / os.environ.get("HIKYAKU_BUILD", "." if INSTALLED else "build")).resolve()


def cache_dir() -> Path:
    """The directory of cached files: the build directory, or the user's cache."""
    if not INSTALLED:
        return build_dir()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hikyaku"


def output_dir() -> Path:
    """The directory of output files without a given name: out/ of the checkout, or of the current
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


def library() -> Path:
    """libhikyaku, which an installation has beside the directory of everything else."""
    return ROOT.parent / "libhikyaku.so.0" if INSTALLED else build_dir() / "src" / "libhikyaku.so"


def digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


CHECKOUT_ID = "hk" + digest(f"{ROOT}:{os.getuid()}", 6)
LAUNCHER = ROOT / "hikyaku"


def is_private(path: Path) -> bool:
    """Is @path a directory that only this user can read? /tmp has directories of other users."""
    info = os.lstat(path)
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077


def private_dir(path: Path) -> Path:
    """Makes @path, readable only by this user. Refuses a directory that another user owns or may
    enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_private(path):
        return path
    info, quoted = os.lstat(path), shlex.quote(str(path))
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise HikyakuError(
            f"{path} is not a directory of user {os.getuid()}", f"see whose it is: ls -ld {quoted}"
        )
    if info.st_mode & 0o022:
        raise HikyakuError(
            f"other users may write to {path}, so its files may be theirs",
            f"see what it has (ls -la {quoted}), then: chmod 700 {quoted}",
        )
    raise HikyakuError(f"other users may enter {path}", f"chmod 700 {quoted}")


def state_dir(checkout: str) -> Path:
    """State of the checkout of id @checkout that need not survive a reboot. The directory exists
    only while a lab is up."""
    return Path(f"/tmp/hikyaku-{os.getuid()}-{checkout}")


STATE_DIR = state_dir(CHECKOUT_ID)
