# SPDX-License-Identifier: BSD-3-Clause
"""Other MPIs than the distribution's, from the Python package index: unmodified builds.

Each has a virtual environment in the cache directory. pip checks what it downloads against the
digests in this directory. A file that is written last says that an environment is complete; what a
killed installation left is made again.
"""

import platform
import shutil
import sys
from pathlib import Path

from .. import process
from ..checkout import cache_dir, digest
from ..errors import HikyakuError
from ..lock import locked_directory

NAMES = ("mpich",)
_COMPLETE = "complete"
_INSTALL_S = 600


def check_name(name: str) -> None:
    if name not in NAMES:
        raise HikyakuError(
            f"{name} is not an MPI that can be installed", f"use one of: {', '.join(NAMES)}"
        )


def _requirements(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")


def directory(name: str) -> Path:
    """Where @name is installed, or will be: another version has another directory."""
    check_name(name)
    return cache_dir() / "mpi" / f"{name}-{digest(_requirements(name).read_text(), 8)}"


def is_installed(name: str) -> bool:
    return (directory(name) / _COMPLETE).exists()


def install(name: str) -> Path:
    """Installs @name if it is not. Returns its directory, which has bin and lib."""
    path = directory(name)
    if platform.machine() != "x86_64":
        raise HikyakuError(
            f"{name} is on the package index for x86_64 alone, and this machine is "
            f"{platform.machine()}",
            "install the distribution's, and load the provider: hikyaku env --ofi",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_directory(path.parent, "another 'hikyaku mpi install' to end", timeout=_INSTALL_S):
        if is_installed(name):
            return path
        shutil.rmtree(path, ignore_errors=True)
        process.run([sys.executable, "-m", "venv", str(path)], timeout=_INSTALL_S)
        pip = [str(path / "bin/python"), "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "--no-deps", "--require-hashes"]
        process.run([*pip, "-r", str(_requirements(name))], timeout=_INSTALL_S)
        (path / _COMPLETE).touch()
    return path


def program(name: str, which: str) -> str:
    """The path of a program of @name, such as mpicc; installs it on first use."""
    return str(install(name) / "bin" / which)
