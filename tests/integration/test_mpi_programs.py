# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/mpi over the fabric, in several labs, with and without faults.

Each program checks all content by itself and prints `PASS name (N checks)`. This file chooses the
labs: wires, nodes, ranks per node. Combinations that take long run only with --slow. The modes with
hikyakud are in test_mpi_hikyakud.py.
"""

import re

import pytest

from hikyaku.lab import RunResult
from mpi_programs import (
    FAULTS,
    LABS,
    PROGRAMS,
    THEN,
    assert_passed,
    digest_of,
    digests_of,
    lab_id,
    matrix,
    results_of_each,
)

pytestmark = pytest.mark.one_core

# Without --slow, these programs run in every lab, and the others only in ALL_PROGRAM_LABS.
EVERYWHERE = {"p2p_random", "coll_move", "comm_manage", "rma_random"}
ALL_PROGRAM_LABS = LABS[:3]

FAULTY_PROGRAMS = ["p2p_match", "p2p_random", "rma_random", "coll_reduce", "threads"]


@pytest.mark.parametrize(("lab", "command"), matrix(LABS, ALL_PROGRAM_LABS, EVERYWHERE))
def test_program_over_the_fabric(assert_passes, lab, command):
    assert_passes(lab, command)


def test_a_program_that_fails_in_a_job_of_several_is_named(run):
    """Programs before it have passed, and those behind it have not run."""
    commands = ["comm_manage --rounds 1", "threads", "digest"]
    first, second = results_of_each(run(LABS[0], THEN.join(commands)), commands)
    assert_passed(first, commands[0])
    with pytest.raises(AssertionError, match=r"FAIL threads: .* thread level"):
        assert_passed(second, commands[1])


def test_a_spawned_process_exchanges_messages_with_a_rank_of_its_node(run):
    """Open MPI's shared memory connects only ranks of one job, so these messages use our BTL."""
    mca = {"rmaps_base_oversubscribe": "1"}
    assert_passed(run(LABS[0], "dynamic --mode spawn", mca=mca), "dynamic")


@pytest.mark.parametrize("lab", LABS, ids=lab_id)
def test_results_equal_those_over_tcp(run, digest_over_tcp, lab):
    """The digest of a mixed workload is the same over TCP. Another seed gives another digest."""
    digest, of_other_seed = digests_of(run(lab, "digest + digest --seed 2"))
    assert digest == digest_over_tcp(lab)
    assert of_other_seed != digest


@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_results_equal_those_over_tcp_under_faults(run, digest_over_tcp, lab):
    command = "digest --rounds 8"
    crc = {"btl_hikyaku_protection": "crc"}
    assert digest_of(run(lab, command, faults=FAULTS, mca=crc)) == digest_over_tcp(lab, command)


def test_ranks_of_one_interface_without_capabilities(run):
    """A UDP socket needs none, and each rank has one of its own."""
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    mca = {"btl_hikyaku_protection": "crc"}
    command = "p2p_random --rounds 10"
    assert_passed(run(LABS[-1], command, faults=FAULTS, mca=mca, before=bare), command)


# A veth does not report a rate, so that bulk there waits for grants only if the job names one.
GRANTS = {"btl_hikyaku_link_mbps": "1000"}


@pytest.mark.parametrize("faults", ["", FAULTS], ids=["", "faults"])
def test_results_equal_those_over_tcp_with_grants(run, digest_over_tcp, faults):
    lab = ("veth", 4, 1)
    command = "digest --rounds 8"
    mca = GRANTS | {"btl_hikyaku_protection": "crc"}
    assert digest_of(run(lab, command, faults=faults, mca=mca)) == digest_over_tcp(lab, command)


@pytest.mark.alone  # four ranks that flood each other take a minute on one core
@pytest.mark.parametrize("command", ["p2p_outstanding", "rma_random --rounds 8", "compute_gap"])
def test_program_with_grants(assert_passes, command):
    assert_passes(("veth", 4, 1), command, mca=GRANTS)


def test_stopped_target_of_one_sided_calls_is_named(run):
    mca = {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(LABS[0], "rma_passive --mode stop", mca=mca, limit=60, watchdog=40)
    assert result.returncode != 0
    assert "rank 1 on node1 has not answered for 1.5 s; fix: " in result.stderr, result.stderr
    assert re.search(r"hikyaku reach --port '\S+' node0 node1$", result.stderr, re.M), result.stderr


@pytest.mark.parametrize("command", FAULTY_PROGRAMS)
@pytest.mark.parametrize("lab", LABS[:1], ids=lab_id)
def test_program_under_faults(assert_passes, lab, command):
    assert_passes(lab, command, faults=FAULTS, mca={"btl_hikyaku_protection": "crc"})


@pytest.mark.slow
@pytest.mark.parametrize("command", PROGRAMS[:-1])
@pytest.mark.parametrize("lab", LABS[1:3], ids=lab_id)
def test_program_under_heavy_faults(assert_passes, lab, command):
    heavy = "drop=0.05,dup=0.05,reorder=0.05,corrupt=0.05"
    assert_passes(lab, command, faults=heavy, mca={"btl_hikyaku_protection": "crc"})


@pytest.mark.parametrize("command", [f"p2p_random --seed {seed} --rounds 15" for seed in (2, 3)])
def test_random_traffic_with_other_seeds(assert_passes, command):
    assert_passes(("memif", 4, 1), command)


@pytest.mark.parametrize("lab", [LABS[0], LABS[2]], ids=lab_id)
def test_a_rank_that_computes_for_long_is_not_given_up(run, lab):
    """It is outside of MPI for longer than the time after which silent peers are given up."""
    command = "compute_gap --mode 1500 --rounds 1"
    assert_passed(run(lab, command, mca={"btl_hikyaku_peer_timeout_ms": "1000"}), command)


@pytest.mark.parametrize("lab", [("veth", 4, 4), ("memif", 4, 1)], ids=lab_id)
def test_first_contact_in_many_threads(run, lab):
    """A BTL that makes endpoints in the wrong place deadlocks a rank. With sixteen ranks this
    happens in every run, with eight in one run of three."""
    # With hundreds of threads on a loaded machine, a rank may be silent for half a minute.
    long_timeout = {"btl_hikyaku_peer_timeout_ms": "120000"}
    assert_passed(run(lab, "first_contact", mca=long_timeout), "first_contact")


# ---- ranks that disappear ------------------------------------------------------------------------


def assert_noticed(result: RunResult, mode: str) -> None:
    assert "LEAVING rank" in result.stderr, result.stderr
    assert result.returncode != 0, f"{mode}: the job counts as a success"
    # Checks the watchdog's line, because mpirun reports the status of the first rank that ends.
    assert "WATCHDOG" not in result.stderr, f"{mode}: no rank noticed it\n{result.stderr}"


@pytest.mark.parametrize("mode", ["kill", "exit"])
@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_job_ends_when_a_rank_is_gone(run, lab, mode):
    assert_noticed(run(lab, f"peer_loss --mode {mode}", limit=60, watchdog=40), mode)


@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_silent_rank_is_named_with_its_host(run, lab):
    """The launcher does not notice a stopped process, so its peers must."""
    _, nodes, ranks = lab
    victim = nodes * ranks - 1
    timeout = {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(lab, "peer_loss --mode stop", mca=timeout, limit=60, watchdog=40)
    assert_noticed(result, "stop")
    assert re.search(rf"rank {victim} on node{nodes - 1}\b", result.stderr), result.stderr


# ---- the programs find errors --------------------------------------------------------------------


def test_programs_find_corruption_if_checksums_are_off(run):
    """With bit errors and without CRC, wrong bytes reach a program, which reports their place. If a
    bit error hits Open MPI's own header, a message matches no receive, and the watchdog ends the
    program. The test then tries another seed. Most bytes are content, so with few errors the first
    one hits content in 19 runs of 20."""
    outputs = []
    for seed in range(1000, 1060, 10):
        errors = {"faults": "corrupt=0.01", "seed": seed}
        result = run(LABS[0], "digest --rounds 20", **errors, limit=30, watchdog=2)
        assert result.returncode != 0
        outputs.append(result.stderr)
        if re.search(
            r"FAIL digest: rank \d+ of 2: .* peer \d+, size \d+, offset \d+: expected "
            r"0x[0-9a-f]{2}, found 0x[0-9a-f]{2}",
            result.stderr,
        ):
            return
    pytest.fail("\n".join(outputs))


def test_a_job_with_tags_and_same_node_operations(run):
    """Operations on a rank of the same node use no frames, so they have no tag."""
    command = "rma_random --rounds 1"
    assert_passed(run(("memif", 2, 2), command, mca={"btl_hikyaku_tag": "5"}), command)
