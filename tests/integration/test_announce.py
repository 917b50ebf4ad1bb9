# SPDX-License-Identifier: BSD-3-Clause
"""A job says by what its ranks talk, or why they do not use Hikyaku."""

import os
import re

import pytest

from hikyaku.lab import Job
from hikyaku.lab.run import crowded

VETH = ("veth", 2, 1)
NO_PORT = {"btl_hikyaku_port": "af_xdp:iface=nope"}
REASON = "there is no interface nope here; fix: use one of "


def lines(text: str) -> list[str]:
    """The lines that are ours: Open MPI prefixes them with node and process."""
    return [line.partition("hikyaku: ")[2] for line in text.splitlines() if "hikyaku: " in line]


# Open MPI's launcher kills the ranks of a job that one of them has ended. Sometimes it closes the
# connection to a rank while an answer is queued there. Then libevent or PMIx warns of it
# (open-mpi/ompi#5520). No rank prints these lines, and no rank can prevent them.
OF_LAUNCHER = re.compile(r"\[warn\] Epoll |\[[^]]+\] PMIX ERROR: ")


def lines_of_ranks(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not OF_LAUNCHER.match(line)]


@pytest.mark.parametrize("mode", ["inline", "daemon"])
def test_the_first_rank_says_by_what_all_talk(run, mode):
    result = run(("veth", 2, 2), "hand_over", mode=mode)
    assert result.returncode == 0, result.stderr
    port = {"inline": "hk{local_rank}", "daemon": "hk0"}[mode]
    assert lines(result.stderr) == [f"4 ranks on 2 nodes, port af_xdp:iface={port}, mode {mode}"]


def test_nothing_is_said_if_nobody_wants_it(run):
    result = run(VETH, "hand_over", mca={"btl_hikyaku_announce": "0"})
    assert result.returncode == 0
    assert lines(result.stderr) == []


def test_a_parameter_that_does_not_exist_is_named(get_lab, program):
    """Once, and the job goes on. Open MPI's own parameters of a BTL exist."""
    wrong = {"OMPI_MCA_btl_hikyaku_prot": "udp:addr=tcp0", "OMPI_MCA_btl_hikyaku_latency": "2"}
    done = get_lab(2, "veth").mpirun(2, [program("tests/mpi/mpi_hand_over")], env=wrong)
    assert done.returncode == 0, done.stderr
    (said, *_) = lines(done.stderr)
    assert said == (
        "there is no parameter 'btl_hikyaku_prot', so it sets nothing; fix: use one of: "
        "ompi_info --level 9 --param btl hikyaku"
    )
    assert len(lines(done.stderr)) == 2


def test_ranks_of_one_node_do_not_measure_the_port(get_lab, program):
    lab = get_lab(2, "veth", 2)
    done = lab.mpirun(2, [program("tests/mpi/mpi_hand_over")], options=["--host", "node0:2"])
    assert done.returncode == 0, done.stderr
    (said,) = lines(done.stderr)
    assert said.startswith("all 2 ranks are on one node: they talk by Open MPI's shared memory, ")


def test_the_reason_of_one_rank_is_the_last_word(get_lab, program):
    """Rank 0 has its port, and does not say that the job uses it. Rank 1 starts when rank 0's port
    is open."""
    lab = get_lab(2, "veth")
    opened = f"ip -n {lab.node('node0').netns} link show dev hk0 | grep -q xdp"
    wrong = "export OMPI_MCA_btl_hikyaku_port=af_xdp:iface=nope"
    script = f"[ $OMPI_COMM_WORLD_RANK = 0 ] || {{ until {opened}; do :; done; {wrong}; }}; exec $0"
    done = lab.mpirun(2, ["sh", "-c", script, program("tests/mpi/mpi_hand_over")], timeout=60)
    assert done.returncode != 0
    (said,) = lines(done.stderr)
    assert REASON in said


@pytest.mark.parametrize("mode", ["inline", "daemon"])
def test_a_job_that_cannot_have_its_port_ends_with_the_reason_alone(run, mode):
    """The lab permits no other BTL between nodes. Open MPI would explain that at length."""
    result = run(VETH, "hand_over", mca=NO_PORT, mode=mode)
    assert result.returncode != 0
    text = lines_of_ranks(result.stderr)
    assert 1 <= len(text) <= 5, result.stderr
    assert all(REASON in line for line in text), result.stderr


def test_a_job_that_other_btls_carried_on_says_so_last(run):
    mca = NO_PORT | {"btl": "self,vader,tcp,hikyaku", "btl_tcp_if_include": "tcp0"}
    result = run(VETH, "hand_over", mca=mca)
    assert result.returncode == 0, result.stderr
    said = lines(result.stderr)
    assert len(said) == 4, "once at the start and once at the end on each node"
    assert all(REASON in line for line in said)
    assert all(line.startswith("this job did not use Hikyaku: port ") for line in said[2:])
    assert result.stderr.splitlines()[-1].startswith("hikyaku: this job did not use Hikyaku")


def test_more_ranks_than_cores_are_told(get_lab, monkeypatch):
    topology = get_lab(2, "veth").topology
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    def said(ranks: int | None, *options: str, **given: str) -> str | None:
        return crowded(topology, Job([]), list(options), ranks, given)

    assert "8 ranks take turns on 2 cores" in said(8)
    assert said(8).endswith(": -np 2")
    assert said(2) is said(None) is None, "each has a core"
    assert said(8, "--mca", "btl_hikyaku_announce", "0") is None
    assert said(8, OMPI_MCA_btl_hikyaku_announce="false") is None
