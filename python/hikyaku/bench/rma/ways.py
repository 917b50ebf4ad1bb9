# SPDX-License-Identifier: BSD-3-Clause
"""The ways in which Open MPI does one-sided communication, by components of its framework osc."""

from ...lab import Lab, RunResult

# osc/sm is for windows of shared memory alone.
WAYS = {
    "hikyaku": {"osc": "hikyaku,sm"},  # over the BTL
    "rdma": {"osc": "rdma,sm"},  # the same
    "pt2pt": {"osc": "pt2pt,sm"},  # the same
    "tcp": {"osc": "pt2pt,sm"},  # over TCP
}
TEXTS = {
    "hikyaku": "osc/hikyaku",
    "rdma": "osc/rdma",
    "pt2pt": "osc/pt2pt",
    "tcp": "osc/pt2pt by TCP",
}


def launch(lab: Lab, way: str, ranks: int, argv: list[str], **options) -> RunResult:
    """Runs @argv as @ranks ranks, in @way; @options: Lab.mpirun's."""
    return lab.mpirun(ranks, argv, tcp=way == "tcp", mca=WAYS[way], **options)
