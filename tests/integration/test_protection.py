# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose frames have keys: every mode, every kind of port, with faults, and results as over
TCP."""

import pytest

from mpi_programs import assert_passed, counters

pytestmark = pytest.mark.one_core

FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"


def protected(protection: str, **more: str) -> dict[str, str]:
    return {"btl_hikyaku_protection": protection} | {f"btl_hikyaku_{k}": v for k, v in more.items()}


@pytest.mark.parametrize("protection", ["auth", "seal"])
@pytest.mark.parametrize("mode", ["inline", "hybrid", "split", "daemon"])
def test_each_mode_under_faults(run, mode, protection):
    command = "p2p_random --rounds 6"
    lab = ("memif", 2, 2)
    result = run(lab, command, mode=mode, faults=FAULTS, mca=protected(protection))
    assert_passed(result, command)


@pytest.mark.parametrize(("wire", "protection"), [("veth", "auth"), ("udp", "seal")])
def test_one_sided(run, wire, protection):
    """Puts from lent memory, gets and atomic operations."""
    command = "rma_random --rounds 6"
    assert_passed(run((wire, 2, 2), command, mca=protected(protection)), command)


def test_a_rank_hears_of_others_by_their_first_frame(run):
    """Open MPI makes an endpoint when a rank first sends. Its key is found before."""
    command = "first_contact"
    result = run(("udp", 2, 2), command, mca=protected("auth"))
    assert_passed(result, command)


@pytest.mark.parametrize("protection", ["auth", "seal"])
def test_damaged_frames_are_counted(run, protection):
    faults = "corrupt=0.05"
    command = "p2p_random --rounds 4"
    result = run(("udp", 2, 2), command, faults=faults, mca=protected(protection, verbose="5"))
    assert_passed(result, command)
    assert sum(counters(result.stderr, "drop_seal")) > 0
    assert sum(counters(result.stderr, "drop_crc")) == 0
