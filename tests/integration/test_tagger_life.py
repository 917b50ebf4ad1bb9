# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments have the names of imported fixtures)
"""The end of a tagger, by itself and by signals, and filters of tc, which stay if it is killed."""

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from execute import execute
from hikyaku import process
from hikyaku.bench.sdn.switching import Programs
from hikyaku.lab import Lab
from hikyaku.lab.job import Job
from hikyaku.sdn.tag import Function
from hikyaku.sdn.tagger import tag_command

from .tagging import (  # noqa: F401 (fixtures)
    SOON,
    TCP,
    Frame,
    captured,
    clsact,
    endless_job,
    filters,
    holder,
    lab,
    nothing_left,
    refused,
    started,
    status,
    status_of_busy_job,
    tc,
)


def test_the_tagger_ends_with_its_command(lab: Lab) -> None:
    """It returns the exit status of the command. The fixture checks that nothing is left."""
    argv = [*tag_command(interfaces=["tcp0"]), "sh", "-c", "cat /proc/self/cgroup; exit 7"]
    done = execute(lab.exec_argv("node0", argv), code=7, timeout=SOON)
    assert re.search(r"^0::.*/hikyaku-tag-1-\d+$", done.stdout, re.M)


def test_the_holder_is_killed(lab: Lab, hikyaku: list[str]) -> None:
    """The kernel removes its eBPF programs at once, and the command goes on. The next run removes
    the cgroup."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        os.kill(holder(lab, hikyaku), signal.SIGKILL)
        process.wait_until("its programs to go", lambda: status(lab, "node0", hikyaku) == [], SOON)
        assert command.poll() is None
    again = lab.exec_argv("node0", [*tag_command(interfaces=["tcp0"]), "true"])
    subprocess.run(again, check=True, timeout=SOON)


def test_the_holder_is_ended_before_its_job(
    lab: Lab, hikyaku: list[str], nothing_left: Callable[[], bool]
) -> None:
    """The holder moves the command back to its former cgroup, where it goes on."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        pid = holder(lab, hikyaku)
        assert not nothing_left()
        os.kill(pid, signal.SIGTERM)
        process.wait_until("the tagger's programs and cgroups to be gone", nothing_left, SOON)
        assert command.poll() is None


# ---- clsact: filters, which stay if their process is killed --------------------------------------


def test_tags_by_clsact_beside_filters_of_others(clsact: Lab, program) -> None:
    """node0 has filters of another program, which stay as they are. On node1 the tagger makes the
    discipline clsact, and leaves no filter in it."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "clsact")
    for number in (["prio", "5"], ["prio", "72", "handle", "1"]):  # the tagger's prio is 72 too
        passes = ["bpf", "bytecode", "1,6 0 0 0"]
        tc(clsact, "node0", "filter", "add", "dev", "tcp0", "egress", *number, *passes)
    before = filters(clsact, "node0")
    assert before
    frames: list[Frame] = []
    argv = ["-np", "2", program("tests/mpi/mpi_functions"), "--mode", "bcast", "--rounds", "20"]
    with captured(clsact, "node0", frames):
        done = clsact.launch(Job(argv, tcp=True, tag=True, attach="clsact"))
    assert done.returncode == 0, done.stderr
    assert "PASS functions" in done.stdout
    seen = Counter((f.outgoing, f.tag.source, f.tag.function) for f in frames if f.tag)
    assert seen[True, 0, Function.BCAST] >= 10, seen
    assert {key[:2] for key in seen} == {(True, 0), (False, 1)}
    assert filters(clsact, "node0") == before
    assert filters(clsact, "node1") == []


def test_a_filter_whose_holder_was_killed(clsact: Lab, program, hikyaku: list[str]) -> None:
    """The filter stays, but it tags no more frames. `hikyaku tag status` names it, and the next run
    removes it."""
    with endless_job(clsact, program, hikyaku, "--attach", "clsact"):
        found = status_of_busy_job(clsact, hikyaku)
        assert found["attach"] == "clsact"
        assert found["failed"] == 0
        lines = filters(clsact, "node0")
        assert sum("hk_egress_jump" in line for line in lines) == 1
        assert sum("hk_ingress_jump" in line for line in lines) == 1
        for node in ("node0", "node1"):
            (job,) = status(clsact, node, hikyaku)
            os.kill(job["pid"], signal.SIGKILL)
            gone = partial(lambda node: status(clsact, node, hikyaku) == [], node)
            process.wait_until("the holder to go", gone, SOON)
        frames: list[Frame] = []
        with captured(clsact, "node0", frames):
            total = partial(sent_bytes, clsact, "node0")
            before = total()
            process.wait_until("the job to go on", lambda: total() > before + 100_000, SOON)
        assert len([f for f in frames if f.protocol == TCP]) > 10
        assert not [f for f in frames if f.tag]
        assert filters(clsact, "node0") == lines
    shown = process.run(clsact.exec_argv("node0", [*hikyaku, "tag", "status"]))
    assert "this node has no tagged job" in shown
    where = [f"tcp0 {direction} (job {found['job']})" for direction in ("egress", "ingress")]
    assert f"do nothing any more: {', '.join(where)}; fix: hikyaku tag run" in shown
    # node1 first: in the lab, which is one machine, its cgroup is inside of node0's
    for node in ("node1", "node0"):
        again = clsact.exec_argv(node, [*tag_command(interfaces=["ctl0"]), "true"])
        subprocess.run(again, check=True, timeout=SOON)
        assert filters(clsact, node) == []


def sent_bytes(lab: Lab, node: str) -> int:
    argv = lab.exec_argv(node, ["ip", "-json", "-stats", "link", "show", "tcp0"])
    return json.loads(process.run(argv))[0]["stats64"]["tx"]["bytes"]


def test_programs_that_a_benchmark_switches(lab: Lab, program, hikyaku: list[str]) -> None:
    """With the programs switched off, frames have no tags while the job goes on. At the end of the
    block the programs are on again."""

    def tagged() -> set[bool]:
        """Whether frames that node0 sends have tags."""
        frames: list[Frame] = []
        with captured(lab, "node0", frames):
            before = sent_bytes(lab, "node0")
            more = partial(lambda b: sent_bytes(lab, "node0") > b + 100_000, before)
            process.wait_until("the job to go on", more, SOON)
        ours = [f for f in frames if f.outgoing and f.protocol == TCP]
        assert len(ours) > 10
        return {f.tag is not None for f in ours}

    with endless_job(lab, program, hikyaku, "--attach", "tcx"):
        status_of_busy_job(lab, hikyaku)
        pids = [status(lab, node, hikyaku)[0]["pid"] for node in ("node0", "node1")]
        with Programs(pids) as programs:
            programs.set(on=False)
            assert tagged() == {False}
        assert True in tagged()


def test_the_filter_of_a_running_tagger_is_kept(clsact: Lab, hikyaku: list[str]) -> None:
    """A second tagger, with another run directory, cannot use the job number, and does not remove
    the filters of the first."""
    sleep = [*tag_command(interfaces=["tcp0"], attach="clsact"), "sleep", "infinity"]
    with started(clsact, "node0", *sleep):
        pid = holder(clsact, hikyaku)
        lines = filters(clsact, "node0")
        base = f"/tmp/hk-tag-elsewhere-{os.getpid()}"  # a short path, for a socket
        elsewhere = ["env", f"HIKYAKU_RUNDIR={base}"]
        other = [*elsewhere, *tag_command(interfaces=["tcp0"], job=1, attach="clsact"), "true"]
        text = refused(clsact.exec_argv("node0", other))
        assert f"job 1 is in use on this node, by process {pid} (hk-tagger) of user 0" in text
        free = [*elsewhere, *tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        subprocess.run(clsact.exec_argv("node0", free), check=True, timeout=SOON)
        process.wait_until("its filters to go", lambda: filters(clsact, "node0") == lines, SOON)
        process.wait_until("its files to go", lambda: not list(Path(base).iterdir()), SOON)
        Path(base).rmdir()


def test_an_interface_with_another_discipline(clsact: Lab) -> None:
    """An interface with the discipline "ingress" cannot have clsact."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "ingress")
    try:
        argv = [*tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        text = refused(clsact.exec_argv("node0", argv))
        assert not filters(clsact, "node0")
    finally:
        tc(clsact, "node0", "qdisc", "del", "dev", "tcp0", "ingress")
    assert "tcp0 has the queueing discipline 'ingress'" in text
    assert "; fix: have its owner use clsact" in text
