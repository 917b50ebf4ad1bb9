# SPDX-License-Identifier: BSD-3-Clause
"""The libfabric provider with hikyakud: modes hybrid, split and daemon."""

import pytest

from hikyaku import mpi
from mpi_programs import HUGE_MB
from test_hybrid_life import nothing_is_left
from test_other_mpis import compiled, launch, run

pytestmark = pytest.mark.one_core

MODES = ["hybrid", "split", "daemon"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_messages_and_windows(get_lab, mode, command):
    run(get_lab(nodes=2, wire="memif", huge_mb=HUGE_MB), 2, command, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_several_ranks_of_a_node(get_lab, mode):
    """hikyakud makes no wire within a node: MPICH's own shared memory carries that, windows too."""
    lab = get_lab(nodes=2, wire="memif", ranks_per_node=2, huge_mb=2 * HUGE_MB)
    for command in ("p2p_modes", "rma_random --rounds 4"):
        run(lab, 4, command, mode=mode)


def test_several_ranks_of_several_nodes(get_lab):
    """A rank hears of all ranks of a node before the first of them sends."""
    lab = get_lab(nodes=3, wire="memif", ranks_per_node=2, huge_mb=2 * HUGE_MB)
    run(lab, 6, "p2p_random --rounds 3", mode="daemon")


def test_one_port_that_all_ranks_of_a_node_share(get_lab):
    lab = get_lab(nodes=2, wire="veth", ranks_per_node=2, huge_mb=2 * HUGE_MB)
    run(lab, 4, "p2p_random --rounds 3", mode="daemon")


@pytest.mark.parametrize(
    "by", ["impi", mpi.OPENMPI, pytest.param("openmpi5", marks=pytest.mark.slow)]
)
def test_another_mpi(get_lab, by):
    """Open MPI tells only one of two ranks of the other, which calls it then."""
    run(get_lab(nodes=2, wire="memif", huge_mb=HUGE_MB), 2, "p2p_match", by, mode="hybrid")


@pytest.mark.parametrize("mode", MODES)
def test_rank_that_dies(get_lab, mode):
    lab = get_lab(nodes=2, wire="memif", huge_mb=HUGE_MB)
    argv = [compiled("mpich", "peer_loss"), "--mode", "kill", "--timeout", "60"]
    result = launch(lab, 2, argv, mode=mode)
    assert result.returncode not in (0, 124), result.stderr
    assert "LEAVING rank 1" in result.stderr
    nothing_is_left(lab)


@pytest.mark.parametrize("mode", MODES)
def test_rank_that_stops_is_reported(get_lab, mode):
    """The launcher does not notice, and hikyakud's poller does not answer for it."""
    lab = get_lab(nodes=2, wire="memif", huge_mb=HUGE_MB)
    argv = [compiled("mpich", "peer_loss"), "--mode", "stop", "--timeout", "60"]
    env = {"FI_HIKYAKU_PEER_TIMEOUT_MS": "1500", "FI_LOG_LEVEL": "warn"}
    result = launch(lab, 2, argv, mode=mode, env=env)
    assert result.returncode not in (0, 124), result.stderr
    assert "has not answered for 1.5 s" in result.stderr


def refused(lab, mode: str | None, **env: str) -> str:
    env |= {"FI_LOG_LEVEL": "warn"}
    result = launch(lab, 2, [compiled("mpich", "p2p_match")], mode=mode, env=env)
    assert result.returncode != 0
    assert "fix:" in result.stderr
    return result.stderr


def test_a_mode_that_there_is_not(get_lab):
    said = refused(get_lab(nodes=2, wire="memif"), None, FI_HIKYAKU_MODE="polling")
    assert 'FI_HIKYAKU_MODE: there is no mode "polling"' in said


def test_a_mode_that_the_port_does_not_allow(get_lab):
    lab = get_lab(nodes=2, wire="veth", ranks_per_node=2, huge_mb=2 * HUGE_MB)
    said = refused(lab, "hybrid", FI_HIKYAKU_PORT="af_xdp:iface=hk{local_rank}")
    assert "mode hybrid: ranks cannot poll queues of port af_xdp:iface=" in said


def test_without_a_daemon(get_lab, monkeypatch):
    monkeypatch.setenv("HIKYAKU_DAEMON", "/nonexistent/hikyakud")
    said = refused(get_lab(nodes=2, wire="memif"), None, FI_HIKYAKU_MODE="hybrid")
    assert "cannot run /nonexistent/hikyakud" in said
