# SPDX-License-Identifier: BSD-3-Clause
"""Who comes after whom, or beside: an administrator's hikyakud that was killed and is started
again between two jobs, and two jobs on one node at once, in each mode."""

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hikyaku import process
from hikyaku.checkout import built
from hikyaku.lab import Lab, RunResult, kill
from mpi_programs import assert_passed
from slots import slots_of

SOON = 30
MODES = ["hybrid", "daemon", "split"]


@pytest.fixture
def administrators(lab: Lab, tmp_path) -> Iterator[Callable[[str, str], None]]:
    """administrators("node0", "split") starts that node's hikyakud, named after it."""

    def start(node: str, mode: str) -> None:
        argv = [str(built("host/daemon/hikyakud")), "--name", f"again-{node}", "--background"]
        argv += ["--mode", mode, "--slots", "2", "--port", f"memif:dir={tmp_path}"]
        argv += ["--huge-dir", str(lab.node_directory(node) / "huge")]
        done = subprocess.run(
            lab.exec_argv(node, argv), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    yield start
    for node in lab.topology.nodes:
        for name, pid in living(lab, node.name).items():
            if name.startswith("again-"):
                process.end_all(lambda pid=pid: [pid] if process.alive(pid) else [], grace=10)


def living(lab: Lab, node: str) -> dict[str, int]:
    return kill.daemons(lab.node(node), lab.node_directory(node) / "run")


@pytest.mark.parametrize(
    ("mode", "victim"), [("hybrid", "node0"), ("daemon", "node1"), ("split", "node0")]
)
def test_restarted_daemon_takes_no_old_frames_for_new(
    lab, hikyaku, program, administrators, mode, victim
):
    """Frames of the first job are under way in the wire, in the other node's pipes and pools, when
    one hikyakud is killed. The next job has the same slots, queues and endpoints, and numbers its
    packets from 0 as well: it checks each message, and none may be the first one's."""
    hand_over = [program("tests/mpi/mpi_hand_over"), "--timeout", "100"]
    job = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=again-$(hostname) exec "$@"', "sh", *hand_over]

    def run(*options: str) -> RunResult:
        return lab.mpirun(2, [*job, *options], host=mode, timeout=120)

    def slots(node: str) -> list[str]:
        return slots_of(lab, hikyaku, node, f"again-{node}")

    for node in lab.topology.nodes:
        administrators(node.name, mode)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, "--rounds", "100000", "--seed", "1")
        for node in lab.topology.nodes:
            process.wait_until(
                f"the rank of {node.name}", lambda n=node.name: "served" in slots(n), SOON
            )
        kill.kill_daemon(lab.node(victim), lab.node_directory(victim) / "run", f"again-{victim}")
        result = first.result(120)
    assert result.returncode != 0
    assert f"hikyakud 'again-{victim}' of this node has died" in result.stderr
    administrators(victim, mode)
    assert_passed(run("--rounds", "4", "--seed", "2"), "hand_over")


@pytest.mark.parametrize("mode", ["inline", *MODES])
def test_two_jobs_on_the_same_nodes(lab, program, mode):
    """At once, each with daemons of its own, on nodes and cores that they share."""
    argv = [program("tests/mpi/mpi_hand_over"), "--rounds", "8", "--timeout", "100"]
    at_once = threading.Event()

    def jobs(seed: int) -> list[RunResult]:
        """One after the other, since one may have ended when the other begins."""
        results = []
        while not results or not at_once.is_set():
            run = lab.mpirun(2, [*argv, "--seed", str(seed)], host=mode, timeout=120)
            results.append(run)
        return results

    def both() -> bool:
        names = living(lab, "node0")
        assert all(re.fullmatch(r"job-\w+-node0", name) for name in names)
        return len(names) == 2

    with ThreadPoolExecutor(2) as pool:
        rows = [pool.submit(jobs, seed) for seed in (1, 2)]
        try:
            if mode != "inline":
                process.wait_until("both daemons", both, SOON)
        finally:
            at_once.set()
        results = [result for row in rows for result in row.result(130)]
    for result in results:
        assert_passed(result, "hand_over")
