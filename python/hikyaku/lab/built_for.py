# SPDX-License-Identifier: BSD-3-Clause
"""For which MPI a program was built.

A program of MPICH runs under Open MPI's mpirun, too: as many jobs of one rank each. In the other
direction ranks end with a message that names neither MPI.
"""

import mmap
import re
import shutil
from pathlib import Path

from .. import mpi
from ..called import as_typed
from ..errors import HikyakuError
from .job import Job

# The names of the libraries, which a program has in its list of strings.
_LIBRARY = re.compile(rb"\0(?:(libmpi\.so\.40)|libmpi(?:ch)?\.so\.12)\0")


def _by_hydra(program: Path) -> bool | None:
    """Is @program for the MPIs of mpi.BY_HYDRA? None: it links no MPI that we know."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = _LIBRARY.search(data)
            return found[1] is None if found else None


def check_built_for(job: Job, program: str) -> None:
    """Raises an error if @program, which mpirun of @job starts, is built for another MPI."""
    path = shutil.which(program)
    wants = _by_hydra(Path(path)) if path else None
    if wants is None or wants == (job.mpi in mpi.BY_HYDRA):
        return
    if wants:
        raise HikyakuError(
            f"{program} is built for MPICH, and this job is one of Open MPI",
            f"{as_typed('hikyaku lab mpirun --mpi mpich')} …, or build it with Open MPI's mpicc",
        )
    install = as_typed(f"hikyaku mpi install {'mpich' if job.mpi == 'impi' else job.mpi}")
    raise HikyakuError(
        f"{program} is built for Open MPI, and this job is one of {job.mpi}",
        f"build it with $({install})/bin/mpicc, or leave out --mpi {job.mpi}",
    )
