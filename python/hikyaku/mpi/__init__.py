# SPDX-License-Identifier: BSD-3-Clause
"""The MPIs that use the libfabric provider. All but one are unmodified builds of the Python package
index. openmpi-ofi is the machine's Open MPI, by its own component for libfabric.

Each of the builds has a virtual environment in the cache directory. pip checks what it downloads
against the digests in this directory. A file that is written last says that an environment is
complete; what a killed installation left is made again.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

from .. import process
from ..checkout import cache_dir, digest
from ..errors import HikyakuError
from ..lock import locked_directory

NAMES = ("mpich", "impi", "openmpi5")  # that can be installed
OPENMPI = "openmpi-ofi"
BY_OFI = (*NAMES, OPENMPI)
BY_HYDRA = ("mpich", "impi")  # their launcher
_COMPILER = {"impi": "mpich"}  # it has none; the two have one ABI
_COMPLETE = "complete"
_INSTALL_S = 600


def check_name(name: str, names: tuple[str, ...] = NAMES) -> None:
    if name not in names:
        which = "that can be installed" if names is NAMES else "that this lab knows"
        raise HikyakuError(f"{name} is not an MPI {which}", f"use one of: {', '.join(names)}")


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
    return which if name == OPENMPI else str(install(name) / "bin" / which)


def compiled(name: str, sources: list[Path], *options: str) -> str:
    """The program of @sources, of which the first gives the name, for MPI @name. A change
    of another file that they include does not compile it again."""
    compiler = _COMPILER.get(name, name)
    whole = "".join(source.read_text() for source in sources) + " ".join(options)
    to = cache_dir() / "mpi/programs" / f"{compiler}-{sources[0].stem}-{digest(whole, 8)}"
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        made = to.with_name(f"{to.name}.{os.getpid()}")
        argv = [program(compiler, "mpicc"), "-O2", *options, *map(str, sources), "-o", str(made)]
        process.run(argv, timeout=_INSTALL_S)
        made.replace(to)  # at once: others may compile it as well
    return str(to)
