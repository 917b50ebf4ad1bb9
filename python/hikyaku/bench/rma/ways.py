# SPDX-License-Identifier: BSD-3-Clause
"""The ways of one-sided communication: components of Open MPI's framework osc, and MPICH."""

from ... import mpi
from ...checkout import ROOT, built
from ...lab import Job, Lab, RunResult
from ..common.sample import same_node

# osc/sm is for windows of shared memory alone.
WAYS = {
    "hikyaku": {"osc": "hikyaku,sm"},  # over the BTL
    "rdma": {"osc": "rdma,sm"},  # the same
    "pt2pt": {"osc": "pt2pt,sm"},  # the same
    "tcp": {"osc": "pt2pt,sm"},  # over TCP
}
SHM = "shm"  # both ranks on one node
BY_MPICH = {"mpich": False, "mpich-tcp": True}  # by libfabric; over TCP?
TEXTS = {
    "hikyaku": "osc/hikyaku",
    "rdma": "osc/rdma",
    "pt2pt": "osc/pt2pt",
    "tcp": "osc/pt2pt by TCP",
    SHM: "osc/sm on one node",
    "mpich": "MPICH",
    "mpich-tcp": "MPICH by TCP",
}


def launch(lab: Lab, way: str, ranks: int, argv: list[str], **options) -> RunResult:
    """Runs @argv as @ranks ranks, in one of WAYS; @options: Lab.mpirun's."""
    return lab.mpirun(ranks, argv, tcp=way == "tcp", mca=WAYS[way], **options)


def measure(lab: Lab, way: str, arguments: list[str], timeout: float) -> RunResult:
    """Runs rma_bench with @arguments as two ranks, in one of TEXTS."""
    argv = [str(built("bench/rma_bench")), *arguments]
    if way == SHM:
        return same_node(lab, argv, timeout, mca={"osc": "sm"})
    if way not in BY_MPICH:
        return launch(lab, way, 2, argv, one_core=True, timeout=timeout)
    words = ["-np", "2", mpi.compiled("mpich", [ROOT / "bench/rma_bench.c"]), *arguments]
    return lab.launch(Job(words, mpi="mpich", tcp=BY_MPICH[way], one_core=True, timeout=timeout))
