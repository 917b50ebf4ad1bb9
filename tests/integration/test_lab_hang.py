# SPDX-License-Identifier: BSD-3-Clause
"""mpirun that never ends, since a rank died while it connected to PMIx, is ended by the lab."""

from hikyaku.lab import ranks

# mpirun is stopped while the rank sends its hello, and goes on when the rank is dead. Then it can
# send its first answer, and fails at the second. The rank waits in recvfrom(2), which is call 45.
# It sleeps first, so that the lab sees it.
DIES_WHILE_IT_CONNECTS = """
sleep 0.5
kill -STOP $PPID
"$1" & rank=$!
until grep -q '^45 ' /proc/$rank/syscall; do sleep 0.01; done
kill -KILL $rank
wait $rank
kill -CONT $PPID
exit 3
"""


def test_a_rank_that_dies_while_it_connects(get_lab, program, monkeypatch):
    """Open MPI 4.1.4 with PMIx 4.2.2 hangs; later ones may end by themselves."""
    monkeypatch.setattr(ranks, "AFTER_LAST_RANK_S", 1.5)
    lab = get_lab(2, "memif", 1)
    rank = ["bash", "-c", DIES_WHILE_IT_CONNECTS, "x", program("tests/mpi/mpi_hand_over")]
    done = lab.mpirun(1, rank, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "PMIX ERROR: UNREACHABLE" in done.stderr
    assert "mpirun still ran 1.5 s after its last rank had ended, so the lab" in done.stderr
    assert lab.status()["processes"] == []


def test_mpirun_without_ranks(get_lab, monkeypatch, tmp_path):
    """The agent that should start Open MPI's daemon on node1 does not do it."""
    monkeypatch.setattr(ranks, "NO_RANK_S", 2.0)
    lab = get_lab(2, "memif", 1)
    agent = tmp_path / "agent.sh"
    agent.write_text("#!/bin/sh\nexec sleep 300\n")
    agent.chmod(0o755)
    mca = {"plm_rsh_agent": str(agent)}
    done = lab.mpirun(2, ["hostname"], tcp=True, mca=mca, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "mpirun had no rank for 2 s, so the lab ended it" in done.stderr
    assert lab.status()["processes"] == []


def test_a_job_outlives_its_checks(get_lab, monkeypatch):
    """Its ranks are seen on both nodes, one after the other."""
    monkeypatch.setattr(ranks, "AFTER_LAST_RANK_S", 3.0)  # mpirun may end late on a busy machine
    lab = get_lab(2, "memif", 1)
    script = "sleep $((5 * OMPI_COMM_WORLD_RANK)); hostname"
    done = lab.mpirun(2, ["sh", "-c", script], tcp=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["node0", "node1"]
