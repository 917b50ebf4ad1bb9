# SPDX-License-Identifier: BSD-3-Clause
"""Host modes hybrid and split, when something dies: a rank, hikyakud, its poller, at any moment of
a job's life.

Whatever dies, the job ends soon or goes on well, what it prints says why, and nothing is left: no
process, nothing in the run directory, in DPDK's, or in the hugetlbfs. The moments are drawn from a
seed; --life-seconds says how long to go on killing (each kind).
"""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.checkout import built
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, RunResult, kill, network
from slots import slots_of

SOON = 30  # seconds, on a machine that does much else


@pytest.fixture
def seconds(request) -> float:
    return request.config.getoption("--life-seconds")


# ---- a job, and what is left of it ---------------------------------------------------------------


class Job:
    """An mpirun in the background."""

    def __init__(self, tool: subprocess.Popen, place: Path):
        self.tool = tool
        self.place = place

    def end(self) -> tuple[int, str]:
        """Waits for its end: status, and all that it printed."""
        self.tool.wait(timeout=SOON)
        return self.tool.returncode, self.said()

    def said(self) -> str:
        return (self.place / "said").read_text(errors="replace")


@pytest.fixture
def mode() -> str:
    """The host mode; in_modes gives a test several."""
    return "hybrid"


in_modes = pytest.mark.parametrize("mode", ["hybrid", "split"])


@pytest.fixture
def start(lab, hikyaku, program, tmp_path, mode) -> Iterator[Callable[..., Job]]:
    """start("hand_over", "--rounds", "5") starts that program on two ranks."""
    # The lab ends a run's processes by a tag when mpirun has ended. Daemons shall end by
    # themselves, so they go without it.
    daemon = tmp_path / "hikyakud"
    daemon.write_text(f'#!/bin/sh\nunset HIKYAKU_RUN\nexec {built("host/daemon/hikyakud")} "$@"\n')
    daemon.chmod(0o755)
    jobs = []

    def go(name: str, *options: str) -> Job:
        place = tmp_path / str(len(jobs))
        place.mkdir()
        argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--host", mode, "-np", "2"]
        argv += [program(f"tests/mpi/mpi_{name}"), *options]
        with (place / "said").open("wb") as said:
            tool = subprocess.Popen(
                argv,
                stdout=said,
                stderr=said,
                env={**os.environ, "HIKYAKU_DAEMON": str(daemon)},
            )
        jobs.append(Job(tool, place))
        return jobs[-1]

    yield go
    for job in jobs:
        job.tool.send_signal(signal.SIGTERM)
        job.tool.wait(timeout=40)


def hikyakuds(lab: Lab) -> list[tuple[int, str]]:
    """Processes of hikyakud in the lab's nodes: daemons, pollers, cleaners."""
    found = []
    for node in lab.topology.nodes:
        inode = network.namespace_inode(node.netns)
        for pid in process.find(namespaces=[inode]):
            with suppress(OSError):
                if Path(f"/proc/{pid}/exe").readlink().name == "hikyakud":
                    found.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return found


def left_over(lab: Lab) -> list[str]:
    """What is in the nodes' directories but the directories themselves, and who runs there."""
    found = [f"process {pid} ({name})" for pid, name in hikyakuds(lab)]
    for node in lab.topology.nodes:
        base = lab.node_directory(node.name)
        # os.walk() goes on when a directory vanishes meanwhile, which is what is waited for
        for directory, subdirectories, files in os.walk(base):
            found += [str(Path(directory) / name) for name in subdirectories + files]
        for expected in ("run", "huge", "dpdk", "wires"):
            with suppress(ValueError):
                found.remove(str(base / expected))
    return found


def nothing_is_left(lab: Lab) -> None:
    try:
        process.wait_until("nothing to be left", lambda: not left_over(lab), SOON)
    except HikyakuError:
        pytest.fail("left over: " + "\n".join(left_over(lab)))


@contextmanager
def explained(job: Job, seed: int, at: float) -> Iterator[None]:
    """A failure says with which seed and moment, and what the job had printed."""
    try:
        yield
    except (AssertionError, subprocess.TimeoutExpired, HikyakuError) as bad:
        pytest.fail(f"seed {seed}, killed after {at:.3f} s: {bad}\nthe job said:\n{job.said()}")


def moments(seconds: float, longest: float) -> Iterator[tuple[int, float]]:
    """A seed and a moment, again and again for so long; three times at least."""
    end = time.monotonic() + seconds
    seed = 1
    while seed <= 3 or time.monotonic() < end:
        yield seed, random.Random(seed).uniform(0, longest)
        seed += 1


LONG = ("hand_over", "--rounds", "100000", "--timeout", "100")


# ---- ranks ---------------------------------------------------------------------------------------


@in_modes
def test_nothing_is_left_of_a_job_that_ends_well(lab, start):
    job = start("hand_over", "--rounds", "2")
    status, said = job.end()
    assert status == 0, said
    nothing_is_left(lab)


@in_modes
def test_rank_killed_at_any_moment(lab, start, seconds):
    for seed, at in moments(seconds, 1.5):
        job = start(*LONG)
        with explained(job, seed, at):
            process.wait_until("ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
            time.sleep(at)  # the moment, not a condition
            victim = kill.kill_rank(lab.topology, seed % 2)
            status, said = job.end()
            assert status != 0
            assert re.search(rf"rank {seed % 2} .* on node {victim.node} exited on signal 9", said)
            nothing_is_left(lab)


@in_modes
def test_stopped_rank_is_not_answered_for(lab, start, monkeypatch):
    """A rank that computes is answered for by the poller. A stopped one will not go on: its peers
    must hear nothing, as if it polled alone."""
    monkeypatch.setenv("OMPI_MCA_btl_hikyaku_peer_timeout_ms", "3000")
    job = start("peer_loss", "--mode", "stop", "--timeout", "40")
    status, said = job.end()
    assert status != 0
    assert re.search(r"rank 1 on node1 has not answered for 3 s", said), said


# ---- hikyakud ------------------------------------------------------------------------------------


def living(lab: Lab, node: str) -> dict[str, int]:
    return kill.daemons(lab.node(node), lab.node_directory(node) / "run")


def attached(lab: Lab, node: str) -> bool:
    """Has a daemon of the node gone so far that its rank has a wire? Its log tells."""
    logs = (lab.node_directory(node) / "run").glob("*/log")
    said = []
    for log in logs:
        with suppress(OSError):  # it has just gone
            said.append(log.read_text())
    return any("is up: port" in text for text in said)


@in_modes
def test_daemon_killed_under_way(lab, start, seconds):
    for seed, at in moments(seconds, 1.0):
        node = f"node{seed % 2}"
        job = start(*LONG)
        with explained(job, seed, at):
            process.wait_until("the wire to be up", lambda n=node: attached(lab, n), SOON)
            time.sleep(at)
            kill.kill_daemon(lab.node(node), lab.node_directory(node) / "run")
            status, said = job.end()
            assert status != 0
            assert re.search(rf"hikyakud 'job-\w+-{node}' of this node has died", said)
            nothing_is_left(lab)


def test_daemon_killed_at_the_start(lab, start, seconds):
    """Its rank may find another one started in its place, and all goes well; or it says what
    happened."""
    for seed, at in moments(seconds / 2, 0.15):
        node = f"node{seed % 2}"
        job = start("hand_over", "--rounds", "2")
        with explained(job, seed, at):
            process.wait_until("the daemon", lambda n=node: bool(living(lab, n)), SOON)
            time.sleep(at)
            with suppress(HikyakuError):  # it has just ended
                kill.kill_daemon(lab.node(node), lab.node_directory(node) / "run")
            status, said = job.end()
            assert status == 0 or "hikyakud" in said
            nothing_is_left(lab)


# ---- the poller ----------------------------------------------------------------------------------


def pollers(lab: Lab) -> list[int]:
    return [pid for pid, name in hikyakuds(lab) if name == "hk-poller"]


@in_modes
def test_poller_killed_at_any_moment(lab, start, mode, seconds):
    """Another takes its place; only if it was killed inside of a rank's memory, the rank is lost,
    since nobody knows what it left there half done."""
    rounds = {"hybrid": "100", "split": "40"}[mode]  # alike long: in split messages pass hikyakud
    went_on = 0
    for seed, at in moments(seconds, 1.0):
        job = start("hand_over", "--rounds", rounds, "--seed", str(seed))
        with explained(job, seed, at):
            process.wait_until("the wire to be up", lambda: attached(lab, "node0"), SOON)
            time.sleep(at)
            for pid in pollers(lab)[:1]:
                process.send_signal(pid, signal.SIGKILL)
            status, said = job.end()
            if status == 0:
                assert "PASS hand_over" in said
                went_on += 1
            else:
                assert "the poller died in this rank's memory" in said
            nothing_is_left(lab)
    assert went_on


# ---- two jobs on the same nodes ------------------------------------------------------------------


def test_one_of_two_jobs_is_killed(lab, start):
    """They share nodes, run directory and huge pages, and nothing else."""
    one = start(*LONG)
    process.wait_until("its wire to be up", lambda: attached(lab, "node1"), SOON)
    process.wait_until("its ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
    first = kill.ranks(lab.topology)[0].run
    other = start("hand_over", "--rounds", "150", "--timeout", "100")
    process.wait_until("both", lambda: len(kill.ranks(lab.topology)) == 4, SOON)
    process.wait_until("four daemons", lambda: len(living(lab, "node0")) == 2, SOON)
    assert other.tool.poll() is None
    kill.kill_rank(lab.topology, 1, first)
    status, said = one.end()
    assert status != 0
    assert "exited on signal 9" in said
    status, said = other.end()
    assert status == 0, said
    assert "PASS hand_over" in said
    nothing_is_left(lab)


def test_one_of_two_daemons_is_killed(lab, start):
    one = start(*LONG)
    process.wait_until("its wire to be up", lambda: attached(lab, "node0"), SOON)
    (name,) = living(lab, "node0")
    other = start("hand_over", "--rounds", "150", "--timeout", "100")
    process.wait_until("two daemons", lambda: len(living(lab, "node0")) == 2, SOON)
    kill.kill_daemon(lab.node("node0"), lab.node_directory("node0") / "run", name)
    status, said = one.end()
    assert status != 0
    assert f"hikyakud '{name}' of this node has died" in said
    status, said = other.end()
    assert status == 0, said
    nothing_is_left(lab)


# ---- a rank gone mad -----------------------------------------------------------------------------


@pytest.fixture
def administrators_daemons(lab, tmp_path) -> None:
    """One on each node, for two ranks of any job; named mad-NODE."""
    for node in lab.topology.nodes:
        argv = [str(built("host/daemon/hikyakud")), "--name", f"mad-{node.name}", "--background"]
        argv += ["--slots", "2", "--port", f"memif:dir={tmp_path}"]
        argv += ["--huge-dir", str(lab.node_directory(node.name) / "huge")]
        subprocess.run(lab.exec_argv(node.name, argv), check=True, timeout=60)


@pytest.mark.usefixtures("administrators_daemons")
def test_rank_that_scribbles_over_its_memory_is_cut_off_and_no_other(lab, program):
    """The poller dies in the garbage, or is lost in it, again and again; a job that shares daemon
    and poller with the scribbler goes on, and so does the daemon."""
    hand_over = [program("tests/mpi/mpi_hand_over"), "--rounds", "300", "--timeout", "100"]
    victim = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=mad-$(hostname) exec "$@"', "sh", *hand_over]
    results: list[RunResult] = []
    runner = threading.Thread(
        target=lambda: results.append(lab.mpirun(2, victim, host="hybrid", timeout=120))
    )
    runner.start()
    try:
        process.wait_until("the wire to be up", lambda: attached(lab, "node0"), SOON)
        cut = []
        while runner.is_alive() or len(cut) < 3:
            seed = len(cut) + 1
            mad = [program("tests/integration/scribbler"), "mad-node0", str(seed), "20"]
            done = subprocess.run(
                lab.exec_argv("node0", mad), capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
            assert "READY\nCUT OFF: the poller died in this rank's memory" in done.stdout
            cut.append(seed)
    finally:
        runner.join()
    (result,) = results
    assert result.returncode == 0, result.stderr
    assert "PASS hand_over" in result.stdout
    log = (lab.node_directory("node0") / "run" / "mad-node0" / "log").read_text()
    assert log.count("is cut off") == len(cut), log
    assert set(living(lab, "node0")) == {"mad-node0"}
    for node in lab.topology.nodes:  # no job's end is theirs
        for pid in living(lab, node.name).values():
            process.send_signal(pid, signal.SIGTERM)
    nothing_is_left(lab)


@pytest.mark.usefixtures("administrators_daemons")
def test_rank_killed_while_its_memory_is_lent(lab, hikyaku, program):
    """Frames of long messages point into the rank's own memory. Who polls for it never follows
    them, also when it is dead and nobody knows yet; and its buffers are good for the next who has
    the slot."""
    long = [program("tests/mpi/mpi_hand_over"), "--mode", "1000000", "--timeout", "100"]
    job = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=mad-$(hostname) exec "$@"', "sh", *long]

    def run(rounds: int) -> RunResult:
        return lab.mpirun(2, [*job, "--rounds", str(rounds)], host="hybrid", timeout=120)

    before = hikyakuds(lab)
    with ThreadPoolExecutor(1) as pool:
        for _, at in moments(0, 1.0):
            ended = pool.submit(run, 100000)
            process.wait_until(
                "a rank", lambda: "served" in slots_of(lab, hikyaku, "node0", "mad-node0"), SOON
            )
            time.sleep(at)  # the moment, not a condition
            kill.kill_rank(lab.topology, 0)
            assert ended.result(SOON).returncode != 0
            process.wait_until(
                "the slots to come back",
                lambda: set(slots_of(lab, hikyaku, "node0", "mad-node0")) == {"free"},
                SOON,
            )
        done = pool.submit(run, 3).result(120)
    assert done.returncode == 0, done.stderr
    assert "PASS hand_over" in done.stdout
    assert hikyakuds(lab) == before, "a poller has died with a rank that it served"
    for node in lab.topology.nodes:  # no job's end is theirs
        for pid in living(lab, node.name).values():
            process.send_signal(pid, signal.SIGTERM)
    nothing_is_left(lab)


# ---- the lab -------------------------------------------------------------------------------------


def test_lab_down_ends_daemons(lab_name):
    """Also one that has lost its job and does not know."""
    name = lab_name("orphan")
    lab = Lab.up(2, "memif", 1, name=name, huge_mb=128)
    home = lab.node_directory("node0")
    argv = [str(built("host/daemon/hikyakud")), "--name", "left", "--port", f"memif:dir={home}"]
    argv += ["--slots", "1", "--rx-buffers", "256", "--tx-buffers", "256", "--background"]
    argv += ["--huge-dir", str(home / "huge")]
    done = subprocess.run(
        lab.exec_argv("node0", argv),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (pid,) = kill.daemons(lab.node("node0"), home / "run").values()
    lab.down()
    assert not process.alive(pid)
    assert not lab.directory.exists()
