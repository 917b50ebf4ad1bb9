# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/mpi over the fabric: every lab, every program, with and without faults.

Each program checks all content by itself and prints `PASS name (N checks)`. Here it is decided
where they run: wires, nodes, ranks a node. Options of a program that make it long are for --slow.
"""

import re

import pytest

from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult
from mpi_programs import HUGE_MB, assert_passed, lab_id

PROGRAMS = [
    "p2p_modes",
    "p2p_match",
    "p2p_outstanding",
    "p2p_persistent",
    "p2p_random",
    "rma_random --rounds 8",
    "rma_passive",
    "datatypes",
    "coll_move",
    "coll_reduce",
    "coll_neighbor",
    "coll_inter",
    "comm_manage",
    "threads",
    "compute_gap",
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
]

# Programs that say most about a lab; the others run in the first labs only, unless --slow.
TELLING = {"p2p_random", "coll_move", "comm_manage", "rma_random"}
THOROUGH_LABS = LABS[:3]

# Ranks that share hikyakud's memory, and are served by its poller while they compute.
HYBRID_LABS = [("memif", 2, 1), ("memif", 2, 2), ("memif", 3, 1)]
HYBRID_TELLING = {"p2p_random", "coll_move", "rma_random", "threads", "compute_gap"}

FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"
FAULTY_PROGRAMS = ["p2p_match", "p2p_random", "rma_random", "coll_reduce", "threads"]


def matrix(labs: list, thorough: list, telling: set[str]) -> list:
    cases = []
    for lab in labs:
        for command in PROGRAMS:
            short = lab in thorough or command.split()[0] in telling
            marks = [] if short else [pytest.mark.slow]
            name = command.replace(" --mode ", "-").replace(" --rounds ", "-")
            cases.append(pytest.param(lab, command, marks=marks, id=f"{lab_id(lab)}-{name}"))
    return cases


def digest_of(result: RunResult) -> str:
    assert_passed(result, "digest")
    match = re.search(r"^DIGEST ([0-9a-f]{16})$", result.stdout, re.M)
    assert match, result.stdout
    return match[1]


@pytest.mark.parametrize(("lab", "command"), matrix(LABS, THOROUGH_LABS, TELLING))
def test_program_over_the_fabric(run, lab, command):
    assert_passed(run(lab, command), command)


def test_a_spawned_process_talks_with_those_of_its_node(run):
    """Open MPI's shared memory serves the ranks of one job alone."""
    mca = {"rmaps_base_oversubscribe": "1"}
    assert_passed(run(LABS[0], "dynamic --mode spawn", mca=mca), "dynamic")


@pytest.mark.parametrize("lab", LABS, ids=lab_id)
def test_results_equal_those_over_tcp(run, lab):
    """The digest of a mixed workload, and that it depends on the seed at all."""
    over_tcp = digest_of(run(lab, "digest", tcp=True))
    assert digest_of(run(lab, "digest")) == over_tcp
    assert digest_of(run(lab, "digest --seed 2")) != over_tcp


@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_results_equal_those_over_tcp_under_faults(run, lab):
    over_tcp = digest_of(run(lab, "digest --rounds 8", tcp=True))
    crc = {"btl_hikyaku_crc": "1"}
    assert digest_of(run(lab, "digest --rounds 8", faults=FAULTS, mca=crc)) == over_tcp


def test_one_sided_target_that_is_stopped_is_named(run):
    mca = {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(LABS[0], "rma_passive --mode stop", mca=mca, limit=60, watchdog=40)
    assert result.returncode != 0
    assert "rank 1 on node1 has not answered for 1.5 s" in result.stderr, result.stderr


@pytest.mark.parametrize("lab", [("memif", 3, 1), ("memif", 4, 1)], ids=lab_id)
@pytest.mark.parametrize("host", ["inline", "hybrid", "daemon", "split"])
def test_who_waits_for_a_lock_gets_it(run, lab, host):
    """Ranks that yield are in step with each other, and one that waits came too late for ever."""
    mca = {"mpi_yield_when_idle": "1"}
    command = "rma_locks --rounds 40"
    assert_passed(run(lab, command, host=host, mca=mca), command)


@pytest.mark.parametrize("command", FAULTY_PROGRAMS)
@pytest.mark.parametrize("lab", LABS[:1], ids=lab_id)
def test_program_under_faults(run, lab, command):
    assert_passed(run(lab, command, faults=FAULTS, mca={"btl_hikyaku_crc": "1"}), command)


@pytest.mark.slow
@pytest.mark.parametrize("command", PROGRAMS[:-1])
@pytest.mark.parametrize("lab", LABS[1:3], ids=lab_id)
def test_program_under_heavy_faults(run, lab, command):
    heavy = "drop=0.05,dup=0.05,reorder=0.05,corrupt=0.05"
    assert_passed(run(lab, command, faults=heavy, mca={"btl_hikyaku_crc": "1"}), command)


@pytest.mark.parametrize("seed", [2, 3])
def test_random_traffic_with_other_seeds(run, seed):
    command = f"p2p_random --seed {seed} --rounds 15"
    assert_passed(run(("memif", 4, 1), command), command)


@pytest.mark.parametrize("lab", [LABS[0], LABS[2]], ids=lab_id)
def test_long_computing_is_not_taken_for_death(run, lab):
    """Away from MPI for longer than the time after which a silent peer is declared dead."""
    command = "compute_gap --mode 2500 --rounds 1"
    assert_passed(run(lab, command, mca={"btl_hikyaku_peer_timeout_ms": "1000"}), command)


@pytest.mark.parametrize("lab", [("veth", 4, 4), ("memif", 4, 1)], ids=lab_id)
def test_first_contact_in_many_threads(run, lab):
    """Sixteen ranks, so that with endpoints made in the wrong place some rank locks up each time;
    with eight it was one run of three."""
    # Hundreds of threads: on a loaded machine some rank may not be heard of for half a minute.
    patient = {"btl_hikyaku_peer_timeout_ms": "120000"}
    assert_passed(run(lab, "first_contact", mca=patient), "first_contact")


# ---- hybrid: the polling process takes the place of ranks that compute --------------------------


@pytest.mark.parametrize(("lab", "command"), matrix(HYBRID_LABS, HYBRID_LABS[:1], HYBRID_TELLING))
def test_program_in_hybrid(run, lab, command):
    assert_passed(run(lab, command, host="hybrid"), command)


DAEMON_LABS = [*HYBRID_LABS, ("veth", 2, 2)]


@pytest.mark.parametrize(("lab", "command"), matrix(DAEMON_LABS, [], {"p2p_random", "threads"}))
def test_program_in_daemon_mode(run, lab, command):
    """hikyakud alone polls, and hands frames on."""
    assert_passed(run(lab, command, host="daemon"), command)


SPLIT_TELLING = {"p2p_random", "coll_move", "threads", "compute_gap"}


@pytest.mark.parametrize(("lab", "command"), matrix(HYBRID_LABS, [], SPLIT_TELLING))
def test_program_in_split(run, lab, command):
    """Messages pass hikyakud, bulk goes by queues of the ranks."""
    assert_passed(run(lab, command, host="split"), command)


@pytest.mark.parametrize("host", ["hybrid", "split"])
@pytest.mark.parametrize("lab", HYBRID_LABS, ids=lab_id)
def test_results_with_hikyakud_equal_those_over_tcp(run, lab, host):
    assert digest_of(run(lab, "digest", host=host)) == digest_of(run(lab, "digest", tcp=True))


@pytest.mark.parametrize("host", ["daemon", "split"])
def test_one_sided_with_hikyakud(run, host):
    """A target that computes is served by a thread of its own, which hikyakud wakes."""
    assert_passed(run(("memif", 2, 1), "rma_passive", host=host), "rma_passive")


@pytest.mark.parametrize("host", ["hybrid", "daemon", "split"])
def test_one_sided_beside_load(run, burners, host):
    """… and with faults, where the port may have them: it is hikyakud's alone."""
    faulty = {"faults": FAULTS, "mca": {"btl_hikyaku_crc": "1"}} if host == "daemon" else {}
    command = "rma_random --rounds 3"
    burners(2)
    assert_passed(run(("memif", 2, 1), command, host=host, **faulty), command)


@pytest.mark.parametrize("host", ["inline", "hybrid"])
def test_one_sided_in_many_threads(run, host):
    assert_passed(run(("memif", 2, 1), "rma_threads", host=host), "rma_threads")


@pytest.mark.parametrize(("host", "queues"), [("daemon", "1"), ("split", "1"), ("split", "3")])
def test_eager_queues(run, host, queues):
    """As many as ranks, less, more: each rank's frames find their way."""
    command = "p2p_random"
    mca = {"btl_hikyaku_eager_queues": queues}
    assert_passed(run(("memif", 2, 2), command, host=host, mca=mca), command)


@pytest.mark.parametrize("host", ["hybrid", "split"])
def test_mode_is_refused_where_ranks_cannot_poll_queues(run, host):
    result = run(("veth", 2, 2), "digest", host=host, limit=60)
    assert result.returncode != 0
    assert re.search(
        rf"host mode {host}: ranks cannot poll queues of port af_xdp:iface=\S+: its sockets and "
        r"rings belong to the process that opened it",
        result.stderr,
    ), result.stderr
    assert "fix: host mode daemon" in result.stderr


COUNTS = {"btl_hikyaku_verbose": "5"}


@pytest.mark.parametrize(("host", "seed"), [("hybrid", 1), ("hybrid", 2), ("split", 1)])
def test_hand_over_between_rank_and_poller(run, host, seed):
    """Two hundred thousand messages, and thousands of times the poller really took over."""
    command = f"hand_over --rounds 100 --seed {seed}"
    result = run(HYBRID_LABS[0], command, host=host, mca=COUNTS)
    assert_passed(result, command)
    said = re.findall(r"hikyaku: async_(polls|kept) (\d+)", result.stderr)
    polls = [int(n) for what, n in said if what == "polls"]
    kept = [int(n) for what, n in said if what == "kept"]
    assert len(polls) == len(kept) == 2, result.stderr
    assert min(polls) > 100
    assert min(kept) > 100
    bulk = [int(n) for n in re.findall(r"hikyaku: tx_bulk (\d+)", result.stderr)]
    assert len(bulk) == (2 if host == "split" else 0), result.stderr
    assert all(n > 100 for n in bulk)


@pytest.mark.parametrize("host", ["hybrid", "split"])
def test_hand_over_of_long_messages(run, host):
    """Of up to a megabyte: got from the memory of a rank that comes and goes."""
    command = "hand_over --mode 1000000 --rounds 4"
    result = run(HYBRID_LABS[0], command, host=host, mca=COUNTS)
    assert_passed(result, command)
    served = [int(n) for n in re.findall(r"hikyaku: gets_served (\d+)", result.stderr)]
    assert len(served) == 2, result.stderr
    assert min(served) > 10


def test_long_messages_go_from_rank_to_rank_in_split(get_lab, program):
    """All of them, so that hikyakud need not run while they move: their announcements, too."""
    lab = get_lab(2, "memif", 1, HUGE_MB, 1)
    bench = [program("bench/mpi_bench"), "--sizes", "1000000", "--metrics", "bandwidth_MBps"]
    result = lab.mpirun(2, [*bench, "--sample-ms", "200"], mca=COUNTS, host="split")
    assert result.returncode == 0, result.stderr
    count = {
        name: int(re.findall(rf"\[node0:\d+\] hikyaku: {name} (\d+)", result.stderr)[0])
        for name in ("tx_packets", "tx_bulk", "gets_served")
    }
    assert count["gets_served"] > 200
    assert count["tx_packets"] - count["tx_bulk"] < count["gets_served"] / 2


@pytest.mark.slow
@pytest.mark.parametrize("host", ["hybrid", "split"])
@pytest.mark.parametrize("lab", HYBRID_LABS, ids=lab_id)
def test_hand_over_of_millions(run, lab, host):
    _, nodes, ranks = lab
    count = nodes * ranks
    command = f"hand_over --rounds {2_000_000 // (1000 * count * (count - 1))}"
    result = run(lab, command, host=host, watchdog=900, limit=960)
    assert_passed(result, command)


@pytest.mark.parametrize("host", ["hybrid", "split"])
def test_long_computing_with_hikyakud_is_not_taken_for_death(run, host):
    command = "compute_gap --mode 2500 --rounds 1"
    timeout = {"btl_hikyaku_peer_timeout_ms": "1000"}
    assert_passed(run(HYBRID_LABS[0], command, host=host, mca=timeout), command)


@pytest.mark.parametrize("host", ["hybrid", "split"])
def test_faults_are_refused_on_shared_queues(run, host):
    result = run(HYBRID_LABS[0], "digest", host=host, faults="drop=0.1", limit=60)
    assert result.returncode != 0
    assert re.search(r"port memif:\S*faults=drop=0.1\S*: \S.* cannot be shared", result.stderr)


def test_hybrid_needs_huge_pages(get_lab):
    lab = get_lab()
    for host in ("hybrid", "split", "daemon"):
        with pytest.raises(HikyakuError, match="this lab has no huge pages"):
            lab.mpirun(2, ["true"], host=host)
    with pytest.raises(HikyakuError, match="--tcp that it is not used"):
        lab.mpirun(2, ["true"], host="hybrid", tcp=True)


# ---- ranks that go away --------------------------------------------------------------------------


def assert_noticed(result: RunResult, mode: str) -> None:
    assert "LEAVING rank" in result.stderr, result.stderr
    assert result.returncode != 0, f"{mode}: the job counts as a success"
    # The watchdog's line, not its status: mpirun reports the first status that it sees.
    assert "WATCHDOG" not in result.stderr, f"{mode}: nobody noticed\n{result.stderr}"


@pytest.mark.parametrize("mode", ["kill", "exit"])
@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_job_ends_when_a_rank_is_gone(run, lab, mode):
    assert_noticed(run(lab, f"peer_loss --mode {mode}", limit=60, watchdog=40), mode)


@pytest.mark.parametrize("lab", LABS[:3], ids=lab_id)
def test_silent_rank_is_named_with_its_host(run, lab):
    """A stopped process: the launcher sees nothing wrong, the fabric alone can tell."""
    _, nodes, ranks = lab
    victim = nodes * ranks - 1
    timeout = {"btl_hikyaku_peer_timeout_ms": "3000"}
    result = run(lab, "peer_loss --mode stop", mca=timeout, limit=60, watchdog=40)
    assert_noticed(result, "stop")
    assert re.search(rf"rank {victim} on node{nodes - 1}\b", result.stderr), result.stderr


# ---- can these tests fail? -----------------------------------------------------------------------


def test_corruption_without_checksums_is_found_by_the_programs(run):
    """With bit errors and no CRC, wrong bytes must reach the programs and be reported by place.
    Where one hits Open MPI's own header, a message matches nothing and the watchdog ends the
    program: then another seed has to show it."""
    said = []
    for seed in range(1000, 1050, 10):
        errors = {"faults": "corrupt=0.2", "seed": seed}
        result = run(LABS[0], "digest --rounds 20", **errors, limit=30, watchdog=10)
        assert result.returncode != 0
        said.append(result.stderr)
        if re.search(
            r"FAIL digest: rank \d+ of 2: .* peer \d+, size \d+, offset \d+: expected "
            r"0x[0-9a-f]{2}, found 0x[0-9a-f]{2}",
            result.stderr,
        ):
            return
    pytest.fail("\n".join(said))


def test_tags_beside_operations_within_a_node(run):
    """What goes to a rank of the own node leaves in no frame, so nothing of it is tagged."""
    command = "rma_random --rounds 1"
    assert_passed(run(("memif", 2, 2), command, mca={"btl_hikyaku_tag": "5"}), command)
