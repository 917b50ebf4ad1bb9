# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/mpi with hikyakud: modes hybrid, daemon and split."""

import re

import pytest

from hikyaku.errors import HikyakuError
from mpi_programs import FAULTS, HUGE_MB, assert_passed, digest_of, lab_id, matrix

pytestmark = pytest.mark.one_core

# Labs for mode hybrid: hikyakud's poller is the progress proxy of ranks that compute.
HYBRID_LABS = [("memif", 2, 1), ("memif", 2, 2), ("memif", 3, 1)]
HYBRID_EVERYWHERE = {"p2p_random", "coll_move", "rma_random", "threads", "compute_gap"}


@pytest.mark.parametrize(
    ("lab", "command"), matrix(HYBRID_LABS, HYBRID_LABS[:1], HYBRID_EVERYWHERE)
)
def test_program_in_hybrid(assert_passes, lab, command):
    assert_passes(lab, command, mode="hybrid")


DAEMON_LABS = [*HYBRID_LABS, ("veth", 2, 2)]


@pytest.mark.parametrize(("lab", "command"), matrix(DAEMON_LABS, [], {"p2p_random", "threads"}))
def test_program_in_daemon_mode(assert_passes, lab, command):
    """Only hikyakud polls the port. It moves frames to and from the ranks by pipes."""
    assert_passes(lab, command, mode="daemon")


SPLIT_EVERYWHERE = {"p2p_random", "coll_move", "threads", "compute_gap"}


@pytest.mark.parametrize(("lab", "command"), matrix(HYBRID_LABS, [], SPLIT_EVERYWHERE))
def test_program_in_split(assert_passes, lab, command):
    """Messages go by hikyakud, bulk by queues of the ranks."""
    assert_passes(lab, command, mode="split")


@pytest.mark.parametrize("mode", ["hybrid", "split"])
@pytest.mark.parametrize("lab", HYBRID_LABS, ids=lab_id)
def test_results_with_hikyakud_equal_those_over_tcp(run, digest_over_tcp, lab, mode):
    assert digest_of(run(lab, "digest", mode=mode)) == digest_over_tcp(lab)


@pytest.mark.parametrize("mode", ["hybrid", "daemon", "split"])
def test_one_sided_on_loaded_cores(run, burners, mode):
    """Under faults, so that also the poller resends."""
    command = "rma_random --rounds 3"
    crc = {"btl_hikyaku_protection": "crc"}
    burners(2)
    result = run(("memif", 2, 1), command, mode=mode, faults=FAULTS, mca=crc)
    assert_passed(result, command)


@pytest.mark.parametrize(("mode", "queues"), [("daemon", "1"), ("split", "1"), ("split", "3")])
def test_eager_queues(run, mode, queues):
    """With fewer eager queues than ranks, and with more, each rank gets its frames."""
    command = "p2p_random"
    mca = {"btl_hikyaku_eager_queues": queues}
    assert_passed(run(("memif", 2, 2), command, mode=mode, mca=mca), command)


@pytest.mark.parametrize("mode", ["hybrid", "split"])
def test_mode_is_refused_where_ranks_cannot_poll_queues(run, mode):
    port = {"btl_hikyaku_port": "af_xdp:iface=hk{local_rank}"}
    result = run(("veth", 2, 2), "digest", mode=mode, mca=port, limit=60)
    assert result.returncode != 0
    assert re.search(
        rf"mode {mode}: ranks cannot poll queues of port af_xdp:iface=\S+: its sockets and "
        r"rings belong to the process that opened it",
        result.stderr,
    ), result.stderr
    assert "fix: use mode daemon" in result.stderr


COUNTS = {"btl_hikyaku_verbose": "5"}


@pytest.mark.parametrize(
    ("mode", "seed", "rounds"), [("hybrid", 1, 100), ("hybrid", 2, 100), ("split", 1, 10)]
)
def test_hand_over_between_rank_and_poller(run, mode, seed, rounds):
    """Two hundred thousand messages. The counters show that the poller took over many times. In
    split it does for almost every message, so there a tenth of them makes more of these."""
    command = f"hand_over --rounds {rounds} --seed {seed}"
    result = run(HYBRID_LABS[0], command, mode=mode, mca=COUNTS)
    assert_passed(result, command)
    counters = re.findall(r"hikyaku: proxy_(polls|backlogged) (\d+)", result.stderr)
    polls = [int(n) for name, n in counters if name == "polls"]
    backlogged = [int(n) for name, n in counters if name == "backlogged"]
    assert len(polls) == len(backlogged) == 2, result.stderr
    assert min(polls) > 100
    assert min(backlogged) > 100
    bulk = [int(n) for n in re.findall(r"hikyaku: tx_bulk (\d+)", result.stderr)]
    assert len(bulk) == (2 if mode == "split" else 0), result.stderr
    assert all(n > 100 for n in bulk)


@pytest.mark.parametrize("mode", ["hybrid", "split"])
def test_hand_over_of_long_messages(run, mode):
    """Messages have up to 1 MB. Their receivers get them from the memory of a rank that enters and
    leaves MPI."""
    command = "hand_over --mode 1000000 --rounds 4"
    result = run(HYBRID_LABS[0], command, mode=mode, mca=COUNTS)
    assert_passed(result, command)
    served = [int(n) for n in re.findall(r"hikyaku: gets_served (\d+)", result.stderr)]
    assert len(served) == 2, result.stderr
    assert min(served) > 10


def test_long_messages_go_from_rank_to_rank_in_split(get_lab, program):
    """All their frames go by the ranks' queues, including the messages that announce them. So
    hikyakud does not have to run meanwhile."""
    lab = get_lab(2, "memif", 1, HUGE_MB, 1)
    bench = [program("bench/mpi_bench"), "--sizes", "1000000", "--metrics", "bandwidth_MBps"]
    result = lab.mpirun(2, [*bench, "--sample-ms", "1"], mca=COUNTS, mode="split")
    assert result.returncode == 0, result.stderr
    count = {
        name: int(re.findall(rf"\[node0:\d+\] hikyaku: {name} (\d+)", result.stderr)[0])
        for name in ("tx_packets", "tx_bulk", "gets_served")
    }
    assert count["gets_served"] > 150  # three windows of 64 messages, however slow
    assert count["tx_packets"] - count["tx_bulk"] < count["gets_served"] / 2


@pytest.mark.parametrize("mode", ["hybrid", "split"])
def test_hand_over_under_faults(run, mode):
    """Rank and poller use one generator of faults for each queue, which lies in shared memory."""
    command = "hand_over --rounds 20"
    mca = COUNTS | {"btl_hikyaku_protection": "crc"}
    heavy = "drop=0.05,dup=0.05,reorder=0.05,corrupt=0.01,delay=0.01"
    result = run(HYBRID_LABS[0], command, mode=mode, faults=heavy, mca=mca)
    assert_passed(result, command)
    resends = [int(n) for n in re.findall(r"hikyaku: tx_resends (\d+)", result.stderr)]
    assert len(resends) == 2, result.stderr
    assert min(resends) > 100


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["hybrid", "split"])
@pytest.mark.parametrize("lab", HYBRID_LABS, ids=lab_id)
def test_hand_over_of_millions(run, lab, mode):
    _, nodes, ranks = lab
    count = nodes * ranks
    command = f"hand_over --rounds {2_000_000 // (1000 * count * (count - 1))}"
    result = run(lab, command, mode=mode, watchdog=900, limit=960)
    assert_passed(result, command)


@pytest.mark.parametrize("mode", ["hybrid", "split"])
def test_a_rank_that_computes_for_long_is_not_given_up_with_hikyakud(run, mode):
    command = "compute_gap --mode 1500 --rounds 1"
    timeout = {"btl_hikyaku_peer_timeout_ms": "1000"}
    assert_passed(run(HYBRID_LABS[0], command, mode=mode, mca=timeout), command)


def test_hybrid_needs_huge_pages(get_lab):
    lab = get_lab()
    for mode in ("hybrid", "split", "daemon"):
        with pytest.raises(HikyakuError, match="this lab has no huge pages"):
            lab.mpirun(2, ["true"], mode=mode)
    with pytest.raises(HikyakuError, match="--tcp does not use the BTL"):
        lab.mpirun(2, ["true"], mode="hybrid", tcp=True)


@pytest.mark.parametrize("lab", [("memif", 3, 1), ("memif", 4, 1)], ids=lab_id)
@pytest.mark.parametrize("mode", ["inline", "hybrid", "daemon", "split"])
def test_a_rank_that_waits_for_a_lock_gets_it(run, lab, mode):
    """Ranks that yield run in step with each other, so one that asked again and again could come
    too late each time. The owner grants the lock in the order of requests."""
    mca = {"mpi_yield_when_idle": "1"}
    command = "rma_locks --rounds 20"
    assert_passed(run(lab, command, mode=mode, mca=mca), command)
