# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/mpi over the fabric, in several labs, with and without faults.

Each program checks all content by itself and prints `PASS name (N checks)`. This file chooses the
labs: wires, nodes, ranks per node. Combinations that take long run only with --slow.
"""

import re
from collections.abc import Callable

import pytest

from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult
from mpi_programs import HUGE_MB, THEN, assert_passed, lab_id, results_of_each

pytestmark = pytest.mark.alone

PROGRAMS = [
    "p2p_modes",
    "p2p_match",
    "p2p_outstanding",
    "p2p_persistent",
    "p2p_random --rounds 10",
    "rma_random --rounds 8",
    "rma_passive",
    "datatypes",
    "coll_move",
    "coll_reduce",
    "coll_neighbor",
    "coll_inter",
    "comm_manage",
    "threads",
    "compute_gap --rounds 2",
    "dynamic --mode connect",
    "hand_over --rounds 10",
]

# wire, nodes, ranks per node
LABS = [
    ("memif", 2, 1),
    ("memif", 4, 1),
    ("veth", 2, 1),
    ("memif", 2, 2),
    ("veth", 2, 2),
    ("veth", 4, 1),
    ("udp", 2, 2),
]

# Without --slow, these programs run in every lab, and the others only in ALL_PROGRAM_LABS.
EVERYWHERE = {"p2p_random", "coll_move", "comm_manage", "rma_random"}
ALL_PROGRAM_LABS = LABS[:3]

# Labs for mode hybrid: hikyakud's poller is the progress proxy of ranks that compute.
HYBRID_LABS = [("memif", 2, 1), ("memif", 2, 2), ("memif", 3, 1)]
HYBRID_EVERYWHERE = {"p2p_random", "coll_move", "rma_random", "threads", "compute_gap"}

FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"
FAULTY_PROGRAMS = ["p2p_match", "p2p_random", "rma_random", "coll_reduce", "threads"]


def matrix(labs: list, all_program_labs: list, everywhere: set[str]) -> list:
    """Each program in each of @labs. Those not named by the other arguments are slow tests."""
    cases = []
    for lab in labs:
        for command in PROGRAMS:
            always = lab in all_program_labs or command.split()[0] in everywhere
            marks = [] if always else [pytest.mark.slow]
            name = command.replace(" --mode ", "-").replace(" --rounds ", "-")
            cases.append(pytest.param(lab, command, marks=marks, id=f"{lab_id(lab)}-{name}"))
    return cases


def digests_of(result: RunResult) -> list[str]:
    assert_passed(result, "digest")
    found = re.findall(r"^DIGEST ([0-9a-f]{16})$", result.stdout, re.M)
    assert found, result.stdout
    return found


def digest_of(result: RunResult) -> str:
    (found,) = digests_of(result)
    return found


@pytest.fixture(scope="module")
def over_tcp() -> dict[tuple[int, str], str]:
    """Digests over TCP, which depend on the number of ranks only, and on the command."""
    return {}


@pytest.fixture
def digest_over_tcp(run, over_tcp) -> Callable[..., str]:
    def get(lab: tuple[str, int, int], command: str = "digest") -> str:
        _, nodes, ranks = lab
        key = nodes * ranks, command
        if key not in over_tcp:
            over_tcp[key] = digest_of(run(lab, command, tcp=True))
        return over_tcp[key]

    return get


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


@pytest.mark.parametrize("command", ["p2p_outstanding", "rma_random --rounds 8", "compute_gap"])
def test_program_with_grants(assert_passes, command):
    assert_passes(("veth", 4, 1), command, mca=GRANTS)


def test_stopped_target_of_one_sided_calls_is_named(run):
    mca = {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(LABS[0], "rma_passive --mode stop", mca=mca, limit=60, watchdog=40)
    assert result.returncode != 0
    assert "rank 1 on node1 has not answered for 1.5 s; fix: " in result.stderr, result.stderr
    assert re.search(r"hikyaku reach --port '\S+' node0 node1$", result.stderr, re.M), result.stderr


@pytest.mark.parametrize("lab", [("memif", 3, 1), ("memif", 4, 1)], ids=lab_id)
@pytest.mark.parametrize("mode", ["inline", "hybrid", "daemon", "split"])
def test_a_rank_that_waits_for_a_lock_gets_it(run, lab, mode):
    """Ranks that yield run in step with each other. Without deferred compare-and-swaps, a waiting
    rank could miss the lock each time."""
    mca = {"mpi_yield_when_idle": "1"}
    command = "rma_locks --rounds 20"
    assert_passed(run(lab, command, mode=mode, mca=mca), command)


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


# ---- with hikyakud: modes hybrid, daemon and split -----------------------------------------------


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


@pytest.mark.parametrize("mode", ["daemon", "split"])
def test_one_sided_with_hikyakud(run, mode):
    """While a target computes, its RMA proxy serves the requests. hikyakud signals that thread."""
    assert_passed(run(("memif", 2, 1), "rma_passive", mode=mode), "rma_passive")


@pytest.mark.parametrize("mode", ["hybrid", "daemon", "split"])
def test_one_sided_on_loaded_cores(run, burners, mode):
    """Under faults, so that also the poller resends."""
    command = "rma_random --rounds 3"
    crc = {"btl_hikyaku_protection": "crc"}
    burners(2)
    result = run(("memif", 2, 1), command, mode=mode, faults=FAULTS, mca=crc)
    assert_passed(result, command)


@pytest.mark.parametrize("mode", ["inline", "hybrid"])
def test_one_sided_in_many_threads(run, mode):
    assert_passed(run(("memif", 2, 1), "rma_threads", mode=mode), "rma_threads")


@pytest.mark.parametrize(("mode", "queues"), [("daemon", "1"), ("split", "1"), ("split", "3")])
def test_eager_queues(run, mode, queues):
    """With fewer eager queues than ranks, and with more, each rank gets its frames."""
    command = "p2p_random"
    mca = {"btl_hikyaku_eager_queues": queues}
    assert_passed(run(("memif", 2, 2), command, mode=mode, mca=mca), command)


@pytest.mark.parametrize("mode", ["hybrid", "split"])
def test_mode_is_refused_where_ranks_cannot_poll_queues(run, mode):
    result = run(("veth", 2, 2), "digest", mode=mode, limit=60)
    assert result.returncode != 0
    assert re.search(
        rf"mode {mode}: ranks cannot poll queues of port af_xdp:iface=\S+: its sockets and "
        r"rings belong to the process that opened it",
        result.stderr,
    ), result.stderr
    assert "fix: use mode daemon" in result.stderr


COUNTS = {"btl_hikyaku_verbose": "5"}


@pytest.mark.parametrize(("mode", "seed"), [("hybrid", 1), ("hybrid", 2), ("split", 1)])
def test_hand_over_between_rank_and_poller(run, mode, seed):
    """Two hundred thousand messages. The counters show that the poller took over many times."""
    command = f"hand_over --rounds 100 --seed {seed}"
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
    program. The test then tries another seed."""
    outputs = []
    for seed in range(1000, 1150, 10):
        errors = {"faults": "corrupt=0.2", "seed": seed}
        result = run(LABS[0], "digest --rounds 20", **errors, limit=30, watchdog=5)
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
