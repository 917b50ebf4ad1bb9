# SPDX-License-Identifier: BSD-3-Clause
"""Ranks in rootless containers: namespaces of users, mounts, processes and IPC, without rights over
the node's network. docs/containers.md has the commands."""

import pytest

from mpi_programs import assert_passed

pytestmark = pytest.mark.one_core

BOX = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
BOX += ["--ipc"]
AUTO = {"btl_hikyaku_port": "auto", "btl_hikyaku_if_include": "tcp0"}


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_a_container_on_each_node(run, command):
    result = run(("udp", 2, 1), command, mca=AUTO, before=BOX)
    assert_passed(result, command)
    assert "2 ranks on 2 nodes, port udp:addr=tcp0" in result.stderr


def test_a_container_for_each_rank(run):
    """All have PID 1, which Open MPI's shared memory does not survive."""
    mca = AUTO | {"btl": "hikyaku,self", "btl_hikyaku_same_node": "1"}
    command = "p2p_random --rounds 5"
    result = run(("udp", 2, 2), command, mca=mca, before=BOX)
    assert_passed(result, command)
    assert "4 ranks on 2 nodes, port udp:addr=tcp0" in result.stderr
