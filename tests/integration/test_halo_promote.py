# SPDX-License-Identifier: BSD-3-Clause
"""The promoter: unchanged MPI programs with libhikyaku_halo.so preloaded."""

import re

import pytest

from hikyaku.lab.openmpi import with_faults
from mpi_programs import LIMIT_S, WATCHDOG_S, assert_passed, preloaded

pytestmark = pytest.mark.one_core

LOSS = "drop=0.01"


def shares(stderr: str) -> list[float]:
    """The percentage of each rank's bytes that went by puts."""
    return [
        float(share)
        for share in re.findall(
            r"^hikyaku_halo: rank \d+: \d+ of \d+ messages by puts, (\S+) % of", stderr, re.M
        )
    ]


@pytest.mark.parametrize("exchange", ["mpi", "persistent"])
@pytest.mark.parametrize("partition", ["rows", "metis"])
def test_products_go_by_puts_unchanged(get_lab, program, exchange, partition):
    argv = [program("examples/spmv/spmv"), "-n", "16", "--products", "200"]
    argv += ["--exchange", exchange, "--partition", partition]
    result = get_lab().mpirun(2, preloaded(argv), timeout=60)
    assert result.returncode == 0, result.stderr
    assert "0 of 4096 elements differ" in result.stdout
    assert len(shares(result.stderr)) == 2
    assert min(shares(result.stderr)) > 95, result.stderr
    assert result.stderr.count("period 1; sizes repeat") == 2, result.stderr


def test_products_under_loss(get_lab, program):
    argv = [program("examples/spmv/spmv"), "-n", "24", "--products", "200", "--exchange", "mpi"]
    result = get_lab().mpirun(2, with_faults(LOSS, 1, preloaded(argv)), timeout=100)
    assert result.returncode == 0, result.stderr
    assert "0 of 13824 elements differ" in result.stdout
    assert min(shares(result.stderr)) > 90, result.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tcp": True}, "this rank has not loaded Hikyaku's BTL"),
        ({}, "HK_HALO_TRANSPORT is neither auto nor worker"),
    ],
)
def test_without_a_transport_nothing_is_promoted_and_the_reason_is_printed(
    get_lab, program, options, why
):
    argv = [program("examples/spmv/spmv"), "-n", "16", "--exchange", "mpi"]
    variables = {} if options else {"HK_HALO_TRANSPORT": "mpi"}
    result = get_lab().mpirun(2, preloaded(argv, **variables), timeout=60, **options)
    assert result.returncode == 0, result.stderr
    assert f"nothing by puts: {why}" in result.stderr


def test_a_misspelt_variable_is_named(get_lab, program):
    argv = [program("examples/spmv/spmv"), "-n", "16", "--exchange", "mpi"]
    result = get_lab().mpirun(2, preloaded(argv, HK_HALO_REPROT="1"), timeout=60)
    assert result.returncode == 0, result.stderr
    line = "there is no variable HK_HALO_REPROT; fix: unset it, or use HK_HALO_REPORT\n"
    assert result.stderr.count(line) == 1


@pytest.mark.parametrize("lacks", [0, 1])
def test_a_rank_without_the_promoter_is_named_and_nothing_hangs(get_lab, program, lacks):
    argv = [program("examples/spmv/spmv"), "-n", "16", "--exchange", "mpi"]
    both = [preloaded(argv), argv] if lacks else [argv, preloaded(argv)]
    result = get_lab().mpirun(1, [*both[0], ":", "-np", "1", *both[1]], timeout=60)
    assert result.returncode == 0, result.stderr
    assert "0 of 4096 elements differ" in result.stdout
    assert f"rank {1 - lacks}: nothing by puts: rank {lacks} has not preloaded" in result.stderr


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_repeated_messages_and_disturbances(get_lab, program, seed):
    argv = [program("tests/mpi/mpi_halo_mixed"), "--seed", str(seed), "--timeout", str(WATCHDOG_S)]
    result = get_lab().mpirun(2, preloaded(argv), timeout=LIMIT_S)
    assert_passed(result, "halo_mixed")
    assert min(shares(result.stderr)) > 0, result.stderr
    assert "the receiver received or probed from any source or tag" in result.stderr


def test_mixed_patterns_under_loss_on_four_ranks(get_lab, program):
    argv = [program("tests/mpi/mpi_halo_mixed"), "--seed", "2", "--rounds", "6"]
    argv += ["--timeout", str(WATCHDOG_S)]
    lab = get_lab(2, "memif", 2)
    result = lab.mpirun(4, with_faults(LOSS, 1, preloaded(argv)), timeout=LIMIT_S)
    assert_passed(result, "halo_mixed")
    assert "a rank of this node" in result.stderr


def test_a_receive_of_any_tag_gets_the_message_that_was_sent_first(get_lab, program):
    argv = [program("tests/mpi/mpi_halo_overtaken"), "--mode", "any", "--timeout", str(WATCHDOG_S)]
    result = get_lab().mpirun(2, preloaded(argv), timeout=LIMIT_S)
    assert_passed(result, "halo_overtaken")
    assert min(shares(result.stderr)) > 0, result.stderr


def test_a_receive_whose_message_a_put_overtook_is_not_cancelled(get_lab, program):
    argv = [program("tests/mpi/mpi_halo_overtaken"), "--mode", "cancel", "--rounds", "5"]
    argv += ["--timeout", str(WATCHDOG_S)]
    few = {"btl_hikyaku_tx_buffers": "64"}  # makes MPI's messages wait for frame buffers
    result = get_lab().mpirun(2, preloaded(argv), mca=few, timeout=LIMIT_S)
    assert_passed(result, "halo_overtaken")
    assert max(shares(result.stderr)) > 0, result.stderr


def test_a_send_that_mpi_refuses_does_not_count_as_a_message(get_lab, program):
    argv = [program("tests/mpi/mpi_halo_overtaken"), "--mode", "refused"]
    argv += ["--timeout", str(WATCHDOG_S)]
    result = get_lab().mpirun(2, preloaded(argv), timeout=LIMIT_S)
    assert_passed(result, "halo_overtaken")
    assert min(shares(result.stderr)) > 0, result.stderr


@pytest.mark.parametrize("mode", ["spawn", "connect"])
def test_communicators_of_spawned_and_connected_jobs_are_freed(get_lab, program, mode):
    """The ranks of each job agree whether they promote. A spawned job may decide differently."""
    argv = [program("tests/mpi/mpi_dynamic"), "--mode", mode, "--timeout", str(WATCHDOG_S)]
    mca = {"rmaps_base_oversubscribe": "1"}
    result = get_lab().mpirun(2, preloaded(argv), mca=mca, timeout=LIMIT_S)
    assert_passed(result, "dynamic")


@pytest.mark.parametrize("mode", ["receive", "ahead", "probe"])
def test_messages_go_by_puts_after_a_set_up_that_receives_from_any_source(get_lab, program, mode):
    argv = [program("tests/mpi/mpi_halo_setup"), "--mode", mode, "--timeout", str(WATCHDOG_S)]
    result = get_lab(2, "memif", 2).mpirun(3, preloaded(argv), timeout=LIMIT_S)
    assert_passed(result, "halo_setup")
    assert max(shares(result.stderr)) > 25, result.stderr


def run_tags(get_lab, program, mode: str, *more: str, **mca: str):
    argv = [program("tests/mpi/mpi_halo_tags"), "--mode", mode, "--timeout", str(WATCHDOG_S), *more]
    result = get_lab().mpirun(2, preloaded(argv), mca=mca, timeout=LIMIT_S)
    assert_passed(result, "halo_tags")
    return result


def test_many_tags_to_a_rank_go_by_puts(get_lab, program):
    assert min(shares(run_tags(get_lab, program, "repeat").stderr)) > 95


def test_messages_of_many_tags_keep_their_order(get_lab, program):
    result = run_tags(get_lab, program, "order", "--rounds", "4")
    assert "messages overtook those of another tag" in result.stderr
    assert min(shares(result.stderr)) > 20


def test_a_put_that_waits_while_thousands_of_messages_pass_keeps_its_order(get_lab, program):
    result = run_tags(get_lab, program, "late")
    assert "many messages of other tags came after its last" in result.stderr
    assert min(shares(result.stderr)) > 95


def test_a_rare_tag_stays_with_puts(get_lab, program):
    result = run_tags(get_lab, program, "seldom")
    assert "many messages of other tags came after its last" not in result.stderr
    assert min(shares(result.stderr)) > 99


def test_a_message_that_waits_for_depth_while_thousands_pass_keeps_its_order(get_lab, program):
    result = run_tags(get_lab, program, "held")
    assert "many messages of other tags came after its last" in result.stderr
    assert min(shares(result.stderr)) > 95


def test_tags_that_are_used_once_are_watched_up_to_a_limit(get_lab, program):
    result = run_tags(get_lab, program, "sequence")
    for rank in range(2):
        line = rf"rank {rank} to rank {1 - rank} of .*: too many tags to this rank \(4096 to a rank"
        assert re.search(line, result.stderr), result.stderr
    assert len(result.stderr.splitlines()) < 90, "thousands of channels are named"
    assert "tags that are not watched" in result.stderr
    assert min(shares(result.stderr)) > 30


def test_many_channels_that_end_at_once_take_little_memory(get_lab, program):
    """With more arguments for DPDK, packet buffers take their memory at the start (ports.md), so
    that the program measures its channels alone."""
    whole = {"btl_hikyaku_eal_args": "--log-level=1"}
    assert min(shares(run_tags(get_lab, program, "ending", **whole).stderr)) > 40


def test_receives_beyond_the_limit_keep_the_order_of_earlier_messages(get_lab, program):
    result = run_tags(get_lab, program, "crowded")
    assert "; the receiver has too many channels" in result.stderr


def test_receives_beyond_the_limit_keep_the_order_of_a_channel_that_ended(get_lab, program):
    run_tags(get_lab, program, "ended")


@pytest.mark.parametrize(
    ("mode", "least", "more"),  # @least: percentage of the messages that go by puts
    [
        ("again", 80, {}),
        ("once", 55, {}),
        ("unused", 0, {"MALLOC_ARENA_MAX": "1"}),  # a second arena would look like a leak
        ("freed", 75, {"MALLOC_PERTURB_": "165"}),  # overwrites freed memory
        ("large", 50, {}),
        ("flood", 99, {}),
    ],
)
def test_rare_calls(get_lab, program, mode, least, more):
    argv = [program("tests/mpi/mpi_halo_edges"), "--mode", mode, "--timeout", str(WATCHDOG_S)]
    result = get_lab().mpirun(2, preloaded(argv, **more), timeout=LIMIT_S)
    assert_passed(result, "halo_edges")
    of_rank_0 = re.search(r"^hikyaku_halo: rank 0: (\d+) of (\d+) messages", result.stderr, re.M)
    assert 100 * int(of_rank_0[1]) > least * int(of_rank_0[2]), result.stderr


def test_fortran_programs_are_promoted(get_lab, program):
    result = get_lab().mpirun(2, preloaded([program("tests/mpi/mpi_halo_plain")]), timeout=60)
    assert result.returncode == 0, result.stderr
    assert "PASS halo_plain" in result.stdout
    assert min(shares(result.stderr)) > 90, result.stderr
