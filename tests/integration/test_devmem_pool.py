# SPDX-License-Identifier: BSD-3-Clause
"""`--pool pop:…`: a port's receive buffers in memory of the user's choice, for MPI in the lab."""

import subprocess
from collections.abc import Callable

import pytest

from execute import execute
from hikyaku.lab import Lab

pytestmark = pytest.mark.one_core

POOL = "pop:huge:size=96M"


def run(hikyaku: list[str], lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, *arguments]
    return execute(argv, code=None, timeout=150)


def test_messages_land_in_the_pool(
    lab: Lab, hikyaku: list[str], program: Callable[[str], str]
) -> None:
    """Random messages, short ones and long ones, each compared by its receiver."""
    done = run(
        *(hikyaku, lab, "--pool", POOL, "-np", "2"),
        *("--mca", "btl_hikyaku_verbose", "1", "--mca", "btl_base_verbose", "1"),
        program("tests/mpi/mpi_p2p_random"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout + done.stderr
    assert said.count(f"receive buffers of 9216 bytes in {POOL}") == 2, said[-2000:]


@pytest.mark.parametrize(
    "options,said",
    [
        (["--pool", "pop:huge:size=1M"], "has no space for"),
        (["--pool", "pop:disk:1"], "is not a pop"),
        (["--pool", "pop:bar:0000:ff:1f.7,bar=0"], "there is no PCI device 0000:ff:1f.7"),
        (["--pool", POOL, "--mode", "hybrid"], "btl_hikyaku_mode inline"),
        (["--pool", POOL, "--tcp"], "leave out one of them"),
    ],
    ids=["small", "kind", "device", "hybrid", "tcp"],
)
def test_bad_pools(
    lab: Lab, hikyaku: list[str], program: Callable[[str], str], options: list[str], said: str
) -> None:
    done = run(hikyaku, lab, *options, "-np", "2", program("tests/mpi/mpi_p2p_random"))
    assert done.returncode != 0
    assert said in done.stdout + done.stderr, done.stderr[-2000:]
