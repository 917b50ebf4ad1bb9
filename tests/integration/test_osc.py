# SPDX-License-Identifier: BSD-3-Clause
"""One-sided MPI by osc/hikyaku, which Open MPI takes if it is asked to."""

import pytest

from mpi_programs import FAULTS, THEN, assert_passed, lab_id, results_of_each

pytestmark = pytest.mark.one_core

OSC = {"osc": "hikyaku"}
PROGRAMS = ["rma_random --rounds 8", "rma_passive", "rma_locks --rounds 20"]
LABS = [("memif", 2, 1), ("memif", 2, 2), ("memif", 4, 1), ("veth", 2, 1), ("udp", 2, 2)]


def each_passes(result, programs=PROGRAMS):
    for command, one in zip(programs, results_of_each(result, programs), strict=True):
        assert_passed(one, command)


@pytest.mark.parametrize("lab", LABS, ids=lab_id)
def test_in_each_lab(run, lab):
    each_passes(run(lab, THEN.join(PROGRAMS), mca=OSC))


@pytest.mark.parametrize("mode", ["hybrid", "split", "daemon"])
@pytest.mark.parametrize("lab", LABS[:2], ids=lab_id)
def test_with_hikyakud(run, lab, mode):
    """rma_passive needs that the target's proxies run procedures while it computes."""
    each_passes(run(lab, THEN.join(PROGRAMS), mode=mode, mca=OSC))


@pytest.mark.parametrize("mode", ["inline", "split"])
def test_under_faults(run, mode):
    mca = OSC | {"btl_hikyaku_protection": "crc"}
    each_passes(run(LABS[0], THEN.join(PROGRAMS), mode=mode, faults=FAULTS, mca=mca))


@pytest.mark.parametrize("mode", ["inline", "hybrid"])
def test_in_many_threads(run, mode):
    assert_passed(run(LABS[0], "rma_threads", mode=mode, mca=OSC), "rma_threads")


def test_sealed(run):
    mca = OSC | {"btl_hikyaku_protection": "seal"}
    each_passes(run(LABS[0], THEN.join(PROGRAMS), mca=mca))


@pytest.mark.parametrize("lab", [LABS[1], LABS[2]], ids=lab_id)
def test_everyone_gets_a_share_of_a_lock(run, lab):
    """At least half of it, though ranks share cores. By osc/rdma the owner gets it always."""
    command = "rma_locks --mode fair --rounds 400"
    assert_passed(run(lab, command, mca=OSC | {"mpi_yield_when_idle": "1"}), command)


def test_a_stopped_target_is_named(run):
    mca = OSC | {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(LABS[0], "rma_passive --mode stop", mca=mca, limit=60, watchdog=40)
    assert result.returncode != 0
    assert "rank 1 on node1 has not answered for 1.5 s; fix: " in result.stderr, result.stderr
