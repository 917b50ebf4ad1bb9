# SPDX-License-Identifier: BSD-3-Clause
"""Several jobs on the same nodes, in each mode.

In one test, an administrator's hikyakud is killed, and started again for the next job. In the
other, two jobs run on the nodes at once.
"""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from execute import execute
from hikyaku import process
from hikyaku.checkout import built
from hikyaku.lab import Lab, RunResult, kill
from mpi_programs import assert_passed
from slots import slots_of

pytestmark = pytest.mark.one_core

SOON = 30
MODES = ["hybrid", "daemon", "split"]


@pytest.fixture
def administrators(lab: Lab, short_path) -> Iterator[Callable[[str, str], None]]:
    """administrators("node0", "split") starts a hikyakud named "again-node0" on that node."""

    def start(node: str, mode: str) -> None:
        argv = [str(built("src/hikyakud")), "--name", f"again-{node}", "--background"]
        argv += ["--mode", mode, "--slots", "2", "--port", f"memif:dir={short_path}"]
        argv += ["--huge-dir", str(lab.node_directory(node) / "huge")]
        execute(lab.exec_argv(node, argv))

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
def test_old_frames_do_not_reach_the_next_job_of_a_restarted_daemon(
    lab, program, administrators, mode, victim
):
    """One hikyakud is killed while frames of the first job are in the wire, and in the other node's
    pipes and pools. The next job has the same slots, queues and endpoints, and its packet numbers
    begin at 0 too. It checks each message, so it would notice a message of the first job."""
    hand_over = [program("tests/mpi/mpi_hand_over"), "--timeout", "100"]
    job = ["sh", "-c", 'OMPI_MCA_btl_hikyaku_daemon=again-$(hostname) exec "$@"', "sh", *hand_over]

    def run(*options: str) -> RunResult:
        return lab.mpirun(2, [*job, *options], mode=mode, timeout=120)

    def joined(node: str) -> bool:
        assert not first.done(), first.result()
        return "ready" in slots_of(lab, node, f"again-{node}")

    for node in lab.topology.nodes:
        administrators(node.name, mode)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, "--rounds", "100000", "--seed", "1")
        for node in lab.topology.nodes:
            process.wait_until(f"the rank of {node.name}", lambda n=node.name: joined(n), SOON)
        kill.kill_daemon(lab.node(victim), lab.node_directory(victim) / "run", f"again-{victim}")
        result = first.result(120)
    assert result.returncode != 0
    assert f"hikyakud 'again-{victim}' of this node has died" in result.stderr
    administrators(victim, mode)
    assert_passed(run("--rounds", "4", "--seed", "2"), "hand_over")


@pytest.mark.parametrize("mode", ["inline", *MODES])
def test_two_jobs_on_the_same_nodes(lab, program, mode):
    """At once, on shared cores. In modes with hikyakud, each job starts daemons of its own."""
    argv = [program("tests/mpi/mpi_hand_over"), "--rounds", "8", "--timeout", "100"]
    at_once = threading.Event()

    def jobs(seed: int) -> list[RunResult]:
        """Repeats the job until both jobs have run at once: one may end before the other begins."""
        results = []
        while not results or not at_once.is_set():
            run = lab.mpirun(2, [*argv, "--seed", str(seed)], mode=mode, timeout=120)
            results.append(run)
        return results

    def both() -> bool:
        names = living(lab, "node0")
        assert all(re.fullmatch(r"job-\w+-node0", name) for name in names)
        return len(names) == 2

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(jobs, seed) for seed in (1, 2)]
        try:
            if mode != "inline":
                process.wait_until("both daemons", both, SOON)
        finally:
            at_once.set()
        results = [result for each in running for result in each.result(130)]
    for result in results:
        assert_passed(result, "hand_over")
