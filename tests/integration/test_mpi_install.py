# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku mpi install`: each MPI of the package index. Tests of later stages use them."""

import pytest

from execute import execute
from hikyaku import mpi


@pytest.mark.parametrize("name", mpi.NAMES)
def test_an_mpi_is_installed_and_starts(hikyaku, name):
    for _ in range(2):  # the second time it is there
        said = execute([*hikyaku, "mpi", "install", name], timeout=600).stdout
        assert str(mpi.directory(name)) in said
    assert mpi.is_installed(name)
    version = execute([mpi.program(name, "mpiexec"), "--version"]).stdout
    assert {"mpich": "HYDRA", "impi": "Intel", "openmpi5": "5."}[name] in version
