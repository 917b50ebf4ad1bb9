# SPDX-License-Identifier: BSD-3-Clause
"""Modes hybrid and split, if a rank, hikyakud or its poller dies at any moment of a job.

The job then ends soon and prints the reason, or it goes on without errors. In both cases nothing is
left: no process, and no file in the run directory, in DPDK's directory or in the hugetlbfs. The
moments are drawn from seeds. --kills is the number of jobs for each test.
"""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.checkout import built
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, RunResult, kill, network
from slots import slots_of

pytestmark = pytest.mark.one_core

SOON = 30  # seconds, on a busy machine


@pytest.fixture
def kills(request) -> int:
    return request.config.getoption("--kills")


# ---- a job, and its leftovers --------------------------------------------------------------------


class Job:
    """An mpirun in the background."""

    def __init__(self, tool: subprocess.Popen, place: Path):
        self.tool = tool
        self.place = place

    def end(self) -> tuple[int, str]:
        """Waits for its end, and returns its exit status and its output."""
        self.tool.wait(timeout=SOON)
        return self.tool.returncode, self.output()

    def output(self) -> str:
        return (self.place / "output").read_text(errors="replace")


@pytest.fixture
def mode() -> str:
    """The polling mode. The mark in_modes gives a test several."""
    return "hybrid"


in_modes = pytest.mark.parametrize("mode", ["hybrid", "split"])


@pytest.fixture
def start(lab, hikyaku, program, tmp_path, mode) -> Iterator[Callable[..., Job]]:
    """start("hand_over", "--rounds", "5") starts that program on two ranks."""
    # When mpirun has ended, the lab kills all processes with the environment variable HIKYAKU_RUN
    # of the run. These tests check that daemons end by themselves, so daemons do not get it.
    daemon = tmp_path / "hikyakud"
    daemon.write_text(f'#!/bin/sh\nunset HIKYAKU_RUN\nexec {built("src/hikyakud")} "$@"\n')
    daemon.chmod(0o755)
    jobs = []

    def go(name: str, *options: str) -> Job:
        place = tmp_path / str(len(jobs))
        place.mkdir()
        argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--mode", mode, "-np", "2"]
        argv += [program(f"tests/mpi/mpi_{name}"), *options]
        with (place / "output").open("wb") as output:
            tool = subprocess.Popen(
                argv,
                stdout=output,
                stderr=output,
                env={**os.environ, "HIKYAKU_DAEMON": str(daemon)},
            )
        jobs.append(Job(tool, place))
        return jobs[-1]

    yield go
    for job in jobs:
        job.tool.send_signal(signal.SIGTERM)
        job.tool.wait(timeout=40)


def hikyakuds(lab: Lab) -> list[tuple[int, str]]:
    """The processes of hikyakud in the lab's nodes: daemons, pollers and janitors."""
    found = []
    for node in lab.topology.nodes:
        inode = network.namespace_inode(node.netns)
        for pid in process.find(namespaces=[inode]):
            with suppress(OSError):
                if Path(f"/proc/{pid}/exe").readlink().name == "hikyakud":
                    found.append((pid, Path(f"/proc/{pid}/comm").read_text().strip()))
    return found


def left_over(lab: Lab) -> list[str]:
    """The processes of hikyakud on the nodes, and the files in the nodes' directories."""
    found = [f"process {pid} ({name})" for pid, name in hikyakuds(lab)]
    for node in lab.topology.nodes:
        base = lab.node_directory(node.name)
        # os.walk() does not fail if a directory vanishes meanwhile
        for directory, subdirectories, files in os.walk(base):
            found += [str(Path(directory) / name) for name in subdirectories + files]
        for expected in ("run", "huge", "dpdk", "wires"):
            with suppress(ValueError):
                found.remove(str(base / expected))
    return found


def nothing_is_left(lab: Lab) -> None:
    try:
        process.wait_until("all processes and files to be gone", lambda: not left_over(lab), SOON)
    except HikyakuError:
        pytest.fail("left over: " + "\n".join(left_over(lab)))


@contextmanager
def explained(job: Job, seed: int, at: float) -> Iterator[None]:
    """Adds the seed, the moment and the job's output to a failure."""
    try:
        yield
    except (AssertionError, subprocess.TimeoutExpired, HikyakuError) as bad:
        pytest.fail(
            f"seed {seed}, killed after {at:.3f} s: {bad}\nthe job's output:\n{job.output()}"
        )


def moments(kills: int, longest: float) -> Iterator[tuple[int, float]]:
    """A seed for each kill, and a moment drawn from it, in seconds."""
    for seed in range(1, kills + 1):
        yield seed, random.Random(seed).uniform(0, longest)


LONG = ("hand_over", "--rounds", "100000", "--timeout", "100")


# ---- ranks ---------------------------------------------------------------------------------------


@in_modes
def test_nothing_is_left_of_a_job_that_ends_well(lab, start):
    job = start("hand_over", "--rounds", "2")
    status, said = job.end()
    assert status == 0, said
    nothing_is_left(lab)


@in_modes
def test_rank_killed_at_any_moment(lab, start, kills):
    for seed, at in moments(kills, 1.5):
        job = start(*LONG)
        with explained(job, seed, at):
            process.wait_until("ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
            time.sleep(at)  # until the drawn moment
            victim = kill.kill_rank(lab.topology, seed % 2)
            status, said = job.end()
            assert status != 0
            died = rf"rank {seed % 2} .* on node {victim.node} exited on\s+signal 9"
            assert re.search(died, said)
            nothing_is_left(lab)


@in_modes
def test_poller_does_not_answer_for_a_stopped_rank(lab, start, monkeypatch):
    """The poller answers for a rank that computes. It must not answer for a rank that is stopped,
    so that its peers give it up as they do in mode inline."""
    monkeypatch.setenv("OMPI_MCA_btl_hikyaku_peer_timeout_ms", "1500")
    # the poller may have acknowledged everything, so that only a keepalive remains
    monkeypatch.setenv("OMPI_MCA_btl_hikyaku_keepalive_ms", "500")
    job = start("peer_loss", "--mode", "stop", "--timeout", "40")
    status, said = job.end()
    assert status != 0
    assert re.search(r"rank 1 on node1 has not answered for 1.5 s", said), said


# ---- hikyakud ------------------------------------------------------------------------------------


def living(lab: Lab, node: str) -> dict[str, int]:
    return kill.daemons(lab.node(node), lab.node_directory(node) / "run")


def attached(lab: Lab, node: str) -> bool:
    """Whether a daemon of the node has a wire for its rank, according to its log."""
    logs = (lab.node_directory(node) / "run").glob("*/log")
    texts = []
    for log in logs:
        with suppress(OSError):  # the daemon has just ended
            texts.append(log.read_text())
    return any("is up: port" in text for text in texts)


@in_modes
def test_daemon_killed_while_its_job_runs(lab, start, kills):
    for seed, at in moments(kills, 1.0):
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


def test_daemon_killed_at_the_start(lab, start, kills):
    """Its rank may start another daemon, so that the job succeeds. Otherwise the job's output names
    hikyakud."""
    for seed, at in moments(kills, 0.15):
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


def test_the_janitor_waits_for_the_poller(lab, start):
    """The janitor reads a pipe that the poller holds open. A poller that was just starting has made
    DPDK's directory again after the janitor had removed it."""
    start("hand_over", "--rounds", "100")
    process.wait_until("the wire to be up", lambda: attached(lab, "node0"), SOON)
    pipes = {
        name: {Path(fd).readlink() for fd in Path(f"/proc/{pid}/fd").iterdir()}
        for pid, name in hikyakuds(lab)
        if network.namespace_inode(lab.node("node0").netns) == process.net_namespace(pid)
    }
    (read,) = pipes["hk-janitor"]
    assert read in pipes["hk-poller"]


# ---- the poller ----------------------------------------------------------------------------------


def pollers(lab: Lab) -> list[int]:
    return [pid for pid, name in hikyakuds(lab) if name == "hk-poller"]


@in_modes
def test_poller_killed_at_any_moment(lab, start, mode, kills):
    """hikyakud starts another poller. But if the poller was in a rank's memory when it died,
    hikyakud cuts the rank off, because that memory may be inconsistent."""
    # jobs of about the same length: in mode split, messages go by hikyakud
    rounds = {"hybrid": "100", "split": "8"}[mode]
    survived = 0
    for seed, at in moments(kills, 1.0):
        job = start("hand_over", "--rounds", rounds, "--seed", str(seed))
        with explained(job, seed, at):
            process.wait_until(
                "the wire to be up, or the job's end",
                lambda running=job.tool: attached(lab, "node0") or running.poll() is not None,
                SOON,
            )
            time.sleep(at)
            for pid in pollers(lab)[:1]:
                process.send_signal(pid, signal.SIGKILL)
            status, said = job.end()
            if status == 0:
                assert "PASS hand_over" in said
                survived += 1
            else:
                assert "the poller died in this rank's memory" in said
            nothing_is_left(lab)
    assert survived


# ---- two jobs on the same nodes ------------------------------------------------------------------


def test_one_of_two_jobs_is_killed(lab, start):
    """They share only nodes, run directories and huge pages."""
    one = start(*LONG)
    process.wait_until("its wire to be up", lambda: attached(lab, "node1"), SOON)
    process.wait_until("its ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
    first = kill.ranks(lab.topology)[0].run
    other = start("hand_over", "--rounds", "150", "--timeout", "100")
    process.wait_until("the ranks of both", lambda: len(kill.ranks(lab.topology)) == 4, SOON)
    process.wait_until("two daemons on node0", lambda: len(living(lab, "node0")) == 2, SOON)
    assert other.tool.poll() is None
    kill.kill_rank(lab.topology, 1, first)
    status, said = one.end()
    assert status != 0
    assert re.search(r"exited on\s+signal 9", said)
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


# ---- a rank that corrupts its memory, or is killed while frames refer to it ----------------------


@pytest.fixture
def administrators_daemons(lab, short_path) -> None:
    """A daemon on each node, for two ranks of any job, named shared-NODE."""
    for node in lab.topology.nodes:
        argv = [str(built("src/hikyakud")), "--name", f"shared-{node.name}", "--background"]
        argv += ["--slots", "2", "--port", f"memif:dir={short_path}"]
        argv += ["--huge-dir", str(lab.node_directory(node.name) / "huge")]
        subprocess.run(lab.exec_argv(node.name, argv), check=True, timeout=60)


@pytest.mark.alone  # on one core, a poller that hangs at real-time priority holds up the lab
@pytest.mark.usefixtures("administrators_daemons")
def test_only_the_rank_that_corrupts_its_memory_is_cut_off(lab, program):
    """The poller crashes or hangs in the corrupted memory, again and again. A job that shares the
    daemon and its poller with that rank goes on, and so does the daemon."""
    job = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=shared-$(hostname) exec "$@"', "sh"]
    job += [program("tests/mpi/mpi_hand_over"), "--rounds", "300", "--timeout", "100"]
    results: list[RunResult] = []
    runner = threading.Thread(
        target=lambda: results.append(lab.mpirun(2, job, mode="hybrid", timeout=120))
    )
    runner.start()
    try:
        process.wait_until(
            "the wire to be up, or the job's end",
            lambda: attached(lab, "node0") or not runner.is_alive(),
            SOON,
        )
        cut_off = 0
        while runner.is_alive() or cut_off < 3:
            seed = cut_off + 1
            argv = [program("tests/integration/corrupt_rank"), "shared-node0", str(seed), "50"]
            done = execute(lab.exec_argv("node0", argv), code=None)
            assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
            assert "READY\nCUT OFF: the poller died in this rank's memory" in done.stdout
            cut_off += 1
    finally:
        runner.join()
    (result,) = results
    assert result.returncode == 0, result.stderr
    assert "PASS hand_over" in result.stdout
    log = (lab.node_directory("node0") / "run" / "shared-node0" / "log").read_text()
    assert log.count("is cut off") == cut_off, log
    assert set(living(lab, "node0")) == {"shared-node0"}
    for node in lab.topology.nodes:  # these daemons do not end with a job
        for pid in living(lab, node.name).values():
            process.send_signal(pid, signal.SIGTERM)
    nothing_is_left(lab)


@pytest.mark.usefixtures("administrators_daemons")
def test_rank_killed_while_frames_refer_to_its_memory(lab, program):
    """Frames of long messages refer to the rank's own memory. The poller must not access that
    memory, not even before it knows that the rank is dead. The frame buffers of the slot must work
    for its next rank."""
    job = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=shared-$(hostname) exec "$@"', "sh"]
    job += [program("tests/mpi/mpi_hand_over"), "--mode", "1000000", "--timeout", "100"]

    def run(rounds: int) -> RunResult:
        return lab.mpirun(2, [*job, "--rounds", str(rounds)], mode="hybrid", timeout=120)

    def slots() -> list[str]:
        return slots_of(lab, "node0", "shared-node0")

    def joined(running: Future[RunResult]) -> bool:
        assert not running.done(), running.result()
        return "ready" in slots()

    before = hikyakuds(lab)
    with ThreadPoolExecutor(1) as pool:
        for _, at in moments(3, 1.0):
            ended = pool.submit(run, 100000)
            process.wait_until("a rank", lambda running=ended: joined(running), SOON)
            time.sleep(at)  # until the drawn moment
            assert not ended.done(), ended.result()
            kill.kill_rank(lab.topology, 0)
            assert ended.result(SOON).returncode != 0
            process.wait_until("the slots to be free", lambda: set(slots()) == {"free"}, SOON)
        done = pool.submit(run, 3).result(120)
    assert done.returncode == 0, done.stderr
    assert "PASS hand_over" in done.stdout
    assert hikyakuds(lab) == before, "a poller has died together with a rank"
    for node in lab.topology.nodes:  # these daemons do not end with a job
        for pid in living(lab, node.name).values():
            process.send_signal(pid, signal.SIGTERM)
    nothing_is_left(lab)


# ---- the lab -------------------------------------------------------------------------------------


def test_lab_down_ends_daemons(lab_name):
    """Also a daemon that is not used by any job."""
    name = lab_name("orphan")
    lab = Lab.up(2, "memif", 1, name=name, huge_mb=128)
    home = lab.node_directory("node0")
    argv = [str(built("src/hikyakud")), "--name", "left", "--port", f"memif:dir={home}"]
    argv += ["--slots", "1", "--rx-buffers", "256", "--tx-buffers", "256", "--background"]
    argv += ["--huge-dir", str(home / "huge")]
    execute(lab.exec_argv("node0", argv))
    (pid,) = kill.daemons(lab.node("node0"), home / "run").values()
    lab.down()
    assert not process.alive(pid)
    assert not lab.directory.exists()
