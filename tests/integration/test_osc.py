# SPDX-License-Identifier: BSD-3-Clause
"""One-sided MPI: by osc/hikyaku, which Open MPI takes by itself, and by osc/rdma, which uses the
BTL's puts, gets and atomic operations. test_mpi_programs.py has more labs."""

import pytest

from mpi_programs import FAULTS, THEN, assert_passed, lab_id, results_of_each

pytestmark = pytest.mark.one_core

PROGRAMS = ["rma_random --rounds 8", "rma_passive", "rma_locks --rounds 20", "rma_epochs"]
LABS = [("memif", 2, 1), ("memif", 2, 2), ("memif", 4, 1), ("veth", 2, 1), ("udp", 2, 2)]
BY_RDMA = {"osc": "rdma,sm"}


def each_passes(result, programs=PROGRAMS):
    for command, one in zip(programs, results_of_each(result, programs), strict=True):
        assert_passed(one, command)


@pytest.mark.parametrize("lab", LABS, ids=lab_id)
def test_in_each_lab(run, lab):
    each_passes(run(lab, THEN.join(PROGRAMS)))


@pytest.mark.parametrize("mode", ["hybrid", "split", "daemon"])
@pytest.mark.parametrize("lab", LABS[:2], ids=lab_id)
def test_with_hikyakud(run, lab, mode):
    """rma_passive needs that the target's proxies run procedures while it computes."""
    each_passes(run(lab, THEN.join(PROGRAMS), mode=mode))


@pytest.mark.parametrize("mode", ["inline", "split"])
def test_under_faults(run, mode):
    mca = {"btl_hikyaku_protection": "crc"}
    each_passes(run(LABS[0], THEN.join(PROGRAMS), mode=mode, faults=FAULTS, mca=mca))


@pytest.mark.parametrize("mode", ["inline", "hybrid"])
def test_in_many_threads(run, mode):
    assert_passed(run(LABS[0], "rma_threads", mode=mode), "rma_threads")


def test_sealed(run):
    mca = {"btl_hikyaku_protection": "seal"}
    each_passes(run(LABS[0], THEN.join(PROGRAMS), mca=mca))


def test_a_lock_without_an_operation(run):
    command = "rma_locks --mode mutex --rounds 1000"
    mca = {"osc_hikyaku_lock_first": "1", "mpi_yield_when_idle": "1"}
    assert_passed(run(LABS[2], command, mca=mca), command)


@pytest.mark.parametrize("lab", [LABS[1], LABS[2]], ids=lab_id)
def test_all_take_turns(run, lab):
    """tests/unit/openmpi/test_osc_locks.c tests that these are equally many."""
    command = "rma_locks --mode fair --rounds 400"
    assert_passed(run(lab, command, mca={"mpi_yield_when_idle": "1"}), command)


@pytest.mark.parametrize("mode", ["inline", "hybrid", "split", "daemon"])
@pytest.mark.parametrize("lab", LABS[:2], ids=lab_id)
def test_by_rdma(run, lab, mode):
    """Without dynamic windows, for which osc/rdma of Open MPI 4.1.4 waits for ever."""
    command = "rma_random --rounds 8 --mode create"
    assert_passed(run(lab, command, mode=mode, mca=BY_RDMA), command)


def test_by_rdma_under_faults(run):
    command = "rma_random --rounds 8 --mode create"
    mca = BY_RDMA | {"btl_hikyaku_protection": "crc"}
    assert_passed(run(LABS[0], command, faults=FAULTS, mca=mca), command)


def test_by_rdma_in_many_threads(run):
    assert_passed(run(LABS[0], "rma_threads", mca=BY_RDMA), "rma_threads")
