# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab kill`: it kills the right process or link, and no other, in the lab or outside."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from execute import execute
from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, kill, network


def ask(hikyaku: list[str], *argv: str) -> subprocess.CompletedProcess[str]:
    return execute([*hikyaku, "lab", "kill", *argv], code=None)


@contextmanager
def job(hikyaku: list[str], lab: Lab, ranks: int, script: str) -> Iterator[subprocess.Popen]:
    """`mpirun sh -c @script` in @lab, until the block ends."""
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", str(ranks)]
    tool = subprocess.Popen(
        [*command, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield tool
    finally:
        tool.send_signal(signal.SIGTERM)
        tool.communicate(timeout=40)


def wait_for_ranks(lab: Lab, count: int) -> list[kill.Rank]:
    """Waits until @count ranks run the program `sleep`, and returns them."""

    def sleeping() -> list[kill.Rank]:
        return [r for r in kill.ranks(lab.topology) if r.command.startswith("sleep")]

    process.wait_until(f"{count} ranks to run", lambda: len(sleeping()) == count, 30)
    return sorted(sleeping(), key=lambda r: (r.run, r.number))


# ---- ranks ---------------------------------------------------------------------------------------


def test_kill_rank(get_lab, hikyaku):
    """Kills rank 2 of four, which is on node0 with rank 0. mpirun reports rank and signal."""
    lab = get_lab(2, "memif", 1)
    with job(hikyaku, lab, 4, "exec sleep 300") as tool:
        ranks = wait_for_ranks(lab, 4)
        assert [(r.number, r.node) for r in ranks] == [
            (0, "node0"),
            (1, "node1"),
            (2, "node0"),
            (3, "node1"),
        ]
        done = ask(hikyaku, "rank", "2", "--lab", lab.name)
        assert done.stdout == f"killed process {ranks[2].pid} on node0: sleep 300\n", done.stderr
        _, stderr = tool.communicate(timeout=40)
        assert tool.returncode != 0
        assert re.search(r"rank 2 .* on node node0 exited on signal 9", stderr), stderr


def test_the_processes_of_a_rank(get_lab, hikyaku):
    """The rank's child is killed with it. A daemon that the rank started has the same environment,
    but is not killed."""
    lab = get_lab(2, "memif", 1)
    script = "sleep 301 & setsid sleep 302 & exec sleep 300"

    def sleeper(seconds: int) -> set[int]:
        return {p["pid"] for p in lab.status()["processes"] if p["command"] == f"sleep {seconds}"}

    with job(hikyaku, lab, 1, script):
        (rank,) = wait_for_ranks(lab, 1)
        process.wait_until("child and daemon", lambda: bool(sleeper(301) and sleeper(302)), 30)
        assert {rank.pid} == sleeper(300)
        family = kill._family(rank, lab.topology.nodes[0])
        assert set(family) == sleeper(300) | sleeper(301)


def test_ranks_outside_of_the_lab_are_not_killed(get_lab):
    """Ranks of another lab, or of an mpirun outside of labs."""
    lab = get_lab(2, "memif", 1)
    env = {**os.environ, "HIKYAKU_LAB_ID": lab.topology.lab_id}
    script = "OMPI_COMM_WORLD_RANK=1 sleep 300 & echo $!; wait"
    outside = subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE, text=True)
    rank = int(outside.stdout.readline())
    try:
        assert kill.ranks(lab.topology) == []
        with pytest.raises(HikyakuError, match="no program of Open MPI runs"):
            kill.kill_rank(lab.topology, 1)
        assert process.alive(rank)
    finally:
        os.kill(rank, signal.SIGKILL)
        outside.communicate(timeout=20)


def test_a_rank_that_does_not_run(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    with job(hikyaku, lab, 2, "exec sleep 300") as tool:
        wait_for_ranks(lab, 2)
        done = ask(hikyaku, "rank", "7", "--lab", lab.name)
        assert done.returncode == 1
        assert "no rank 7 runs in this lab; there are: 0, 1" in done.stderr
        assert tool.poll() is None


def test_with_two_runs_the_option_run_is_needed(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    with job(hikyaku, lab, 2, "exec sleep 300") as one, job(hikyaku, lab, 2, "exec sleep 300"):
        ranks = wait_for_ranks(lab, 4)
        assert [r.number for r in ranks] == [0, 1, 0, 1]
        done = ask(hikyaku, "rank", "1", "--lab", lab.name)
        assert "say which by --run" in done.stderr
        assert all(process.alive(r.pid) for r in ranks)
        chosen = ranks[3]
        done = ask(hikyaku, "rank", "1", "--lab", lab.name, "--run", chosen.run)
        assert f"killed process {chosen.pid} on node1" in done.stdout
        process.wait_until("that run to end", lambda: len(kill.ranks(lab.topology)) == 2, 40)
        assert {r.run for r in kill.ranks(lab.topology)} == {ranks[0].run}
        assert one.pid


def test_the_first_rank_of_a_number_is_killed_before_a_spawned_one(get_lab):
    """MPI_Comm_spawn makes another rank 1 in a run. The test uses simulated ranks, because real
    ranks of one run end together."""
    lab = get_lab(2, "memif", 1)
    rank = (
        "OMPI_COMM_WORLD_RANK=1 HIKYAKU_RUN=lab-run OMPI_MCA_ess_base_jobid={} sleep 300 & echo $!;"
    )
    script = rank.format(7 << 16 | 2) + rank.format(7 << 16 | 1) + "wait"
    parent = subprocess.Popen(
        lab.exec_argv("node1", ["sh", "-c", script]), stdout=subprocess.PIPE, text=True
    )
    spawned, own = (int(parent.stdout.readline()) for _ in range(2))
    process.wait_until("both to run", lambda: len(kill.ranks(lab.topology)) == 2, 20)
    assert kill.kill_rank(lab.topology, 1).pid == own
    process.wait_until("it to end", lambda: not process.alive(own), 20)
    assert process.alive(spawned)
    assert kill.kill_rank(lab.topology, 1).pid == spawned
    parent.communicate(timeout=20)


def test_a_pid_that_now_belongs_to_another_process_is_not_killed(get_lab):
    """A process may end between the search and the signal, and another one may get its PID."""
    other = subprocess.Popen(["sleep", "300"])
    try:
        assert not kill._kill(other.pid, lambda: False)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert not kill._kill(other.pid, lambda: True)


# ---- daemons -------------------------------------------------------------------------------------

# A fake hikyakud. It locks its directory until it ends, and its child inherits the open file.
FAKE_DAEMON = """
import fcntl, os, subprocess, sys, time
home = os.environ["HIKYAKU_RUNDIR"] + "/" + sys.argv[1]
os.makedirs(home, 0o700, exist_ok=True)
lock = open(home + "/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "300"], pass_fds=[lock.fileno()])
print(os.getpid(), child.pid, file=lock, flush=True)
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def fake_daemon(get_lab) -> Iterator[Callable[[str, str], subprocess.Popen]]:
    """fake_daemon("node0", "default") starts a fake hikyakud of that name on that node."""
    lab = get_lab(2, "memif", 1)
    started = []

    def start(node: str, name: str) -> subprocess.Popen:
        argv = lab.exec_argv(node, ["/usr/bin/python3", "-c", FAKE_DAEMON, name])
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for node in lab.topology.nodes:
        inode = network.namespace_inode(node.netns)
        process.end_all(lambda inode=inode: process.find(namespaces=[inode]))
        for old in (lab.node_directory(node.name) / "run").glob("*/lock"):
            old.unlink()
            old.parent.rmdir()
    for each in started:
        each.communicate(timeout=20)


def test_kill_daemon(get_lab, hikyaku, fake_daemon):
    lab = get_lab(2, "memif", 1)
    first = fake_daemon("node0", "job-0000beef-node0")
    second = fake_daemon("node1", "job-0000beef-node1")
    done = ask(hikyaku, "daemon", "node0", "--lab", lab.name)
    assert done.stdout == f"killed process {first.pid} on node0: job-0000beef-node0\n", done.stderr
    assert first.wait(timeout=20) == -signal.SIGKILL
    assert second.poll() is None
    # it counts as dead although its directory exists and its child still has the lock file open
    again = ask(hikyaku, "daemon", "node0", "--lab", lab.name)
    assert again.returncode == 1
    assert "no hikyakud runs on node0" in again.stderr


def test_pid_in_a_stale_directory_is_not_killed(get_lab, hikyaku, fake_daemon):
    """The directory of a dead daemon contains a PID that now belongs to another process."""
    lab = get_lab(2, "memif", 1)
    alive = fake_daemon("node0", "default")
    stale = lab.node_directory("node0") / "run" / "job-1-node0"
    stale.mkdir()
    bystander = subprocess.Popen(lab.exec_argv("node0", ["sleep", "300"]))
    (stale / "lock").write_text(f"{bystander.pid}\n")
    assert kill.daemons(lab.node("node0"), stale.parent) == {"default": alive.pid}
    done = ask(hikyaku, "daemon", "node0", "--lab", lab.name, "--name", "job-1-node0")
    assert "no daemon 'job-1-node0' runs on node0; running: default" in done.stderr
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_with_two_daemons_the_option_name_is_needed(get_lab, hikyaku, fake_daemon):
    lab = get_lab(2, "memif", 1)
    one, two = fake_daemon("node1", "default"), fake_daemon("node1", "job-2-node1")
    done = ask(hikyaku, "daemon", "node1", "--lab", lab.name)
    assert "2 daemons run on node1: default, job-2-node1" in done.stderr
    assert "--name" in done.stderr
    done = ask(hikyaku, "daemon", "node1", "--lab", lab.name, "--name", "default")
    assert "default" in done.stdout
    assert one.wait(timeout=20) == -signal.SIGKILL
    assert two.poll() is None


# ---- wires ---------------------------------------------------------------------------------------


def up_links(lab: Lab, node: str) -> set[str]:
    return {link["name"] for link in network.links(lab.node(node).netns) if link["up"]}


ALL = {"ctl0", "tcp0", "hk0", "hk1"}


def test_wire_comes_back_by_itself(get_lab, hikyaku):
    lab = get_lab(2, "veth", 2)
    tool = subprocess.Popen(
        [*hikyaku, "lab", "kill", "wire", "node1", "--seconds", "2", "--lab", lab.name],
        stdout=subprocess.PIPE,
        text=True,
    )
    process.wait_until("the wire to go", lambda: up_links(lab, "node1") == {"ctl0", "tcp0"}, 20)
    assert up_links(lab, "node0") == ALL
    out, _ = tool.communicate(timeout=40)
    assert out == "node1: hk0, hk1 down for 2 s\nnode1: hk0, hk1 up\n"
    assert tool.returncode == 0
    assert up_links(lab, "node1") == ALL


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_wire_comes_back_when_interrupted(get_lab, hikyaku, signum):
    lab = get_lab(2, "veth", 2)
    tool = subprocess.Popen(
        [*hikyaku, "lab", "kill", "wire", "node1", "--seconds", "300", "--lab", lab.name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.wait_until("the wire to go", lambda: up_links(lab, "node1") == {"ctl0", "tcp0"}, 20)
    tool.send_signal(signum)
    tool.communicate(timeout=40)
    assert up_links(lab, "node1") == ALL


def test_printed_command_brings_a_wire_back(get_lab, hikyaku):
    lab = get_lab(2, "veth", 2)
    done = ask(hikyaku, "wire", "node0", "--link", "hk1", "--lab", lab.name)
    assert up_links(lab, "node0") == ALL - {"hk1"}
    (command,) = re.findall(r"^  (.* lab exec .*)$", done.stdout, re.MULTILINE)
    subprocess.run(command, shell=True, check=True, timeout=30)
    assert up_links(lab, "node0") == ALL


def test_a_memif_wire_cannot_be_cut(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    done = ask(hikyaku, "wire", "node0", "--lab", lab.name)
    assert done.returncode == 1
    assert "memory that two processes share" in done.stderr
    assert "fix: use a lab of wire veth" in done.stderr
    assert (
        "no link 'hk0'" in ask(hikyaku, "wire", "node0", "--link", "hk0", "--lab", lab.name).stderr
    )
    done = ask(hikyaku, "wire", "node0", "--link", "tcp0", "--seconds", "0", "--lab", lab.name)
    assert done.stdout.splitlines()[-1] == "node0: tcp0 up"


@pytest.mark.one_core
def test_a_job_survives_a_cut_of_its_wire(get_lab, program):
    """Workers resend lost packets. They give a peer up only after a much longer time."""
    lab = get_lab(2, "veth", 1)
    node = lab.node("node1")
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "60", "--timeout", "100"]
    results = []
    runner = threading.Thread(target=lambda: results.append(lab.mpirun(2, argv, timeout=130)))
    runner.start()

    def open_ports() -> int:
        every = [link for n in lab.topology.nodes for link in network.links(n.netns)]
        return sum(link["xdp_program"] is not None for link in every)

    try:
        process.wait_until("both ports to be open", lambda: open_ports() == 2, 60)
        kill.cut_wire(lab.topology, node, kill.wire_links(lab.topology, node), 0.3)
        assert results == [], "the job ended before its wire was back, so the test shows nothing"
    finally:
        runner.join(timeout=150)
    assert results[0].returncode == 0, results[0].stderr
    assert "PASS p2p_random" in results[0].stdout
