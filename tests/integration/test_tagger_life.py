# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments are called as the fixtures that are imported)
"""The tagger's life: what ends it, and what stays then; filters, which outlive their process."""

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hikyaku import process
from hikyaku.bench.switch import Programs
from hikyaku.lab import Lab
from hikyaku.lab.run import Job
from hikyaku.sdn.tag import Function
from hikyaku.sdn.tagger import tag_command

from .tagging import (  # noqa: F401 (fixtures)
    SOON,
    TCP,
    Frame,
    busy,
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
    tc,
)


def test_the_commands_end_is_the_taggers(lab: Lab) -> None:
    """Its exit status is the command's; the fixture looks that nothing is left."""
    argv = [*tag_command(interfaces=["tcp0"]), "sh", "-c", "cat /proc/self/cgroup; exit 7"]
    done = subprocess.run(
        lab.exec_argv("node0", argv), capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 7
    assert re.search(r"^0::.*/hikyaku-tag-1-\d+$", done.stdout, re.M)


def test_the_holder_is_killed(lab: Lab, hikyaku: list[str]) -> None:
    """Its programs are gone at once, the command goes on, and the next run sweeps up."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        os.kill(holder(lab, hikyaku), signal.SIGKILL)
        process.wait_until("its programs to go", lambda: status(lab, "node0", hikyaku) == [], SOON)
        assert command.poll() is None
    again = lab.exec_argv("node0", [*tag_command(interfaces=["tcp0"]), "true"])
    subprocess.run(again, check=True, timeout=SOON)


def test_the_holder_is_ended_before_its_job(
    lab: Lab, hikyaku: list[str], nothing_left: Callable[[], bool]
) -> None:
    """The command goes on, in the cgroup that it came from."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        pid = holder(lab, hikyaku)
        assert not nothing_left()
        os.kill(pid, signal.SIGTERM)
        process.wait_until("everything of the tagger to be gone", nothing_left, SOON)
        assert command.poll() is None


# ---- clsact: filters, which outlive their process ------------------------------------------------


def test_tags_by_clsact_beside_other_peoples_filters(clsact: Lab, program) -> None:
    """What is there already is as it was, and the discipline that we made has nothing of ours."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "clsact")
    for number in (["prio", "5"], ["prio", "72", "handle", "1"]):  # ours is 72, too
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
    """It stays, but nothing is tagged from that moment on; status names it, and the next run
    removes it."""
    with endless_job(clsact, program, hikyaku, "--attach", "clsact"):
        found = busy(clsact, hikyaku)
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
            flowing = partial(sent_bytes, clsact, "node0")
            before = flowing()
            process.wait_until("the job to go on", lambda: flowing() > before + 100_000, SOON)
        assert len([f for f in frames if f.protocol == TCP]) > 10
        assert not [f for f in frames if f.tag]
        assert filters(clsact, "node0") == lines
    shown = process.run(clsact.exec_argv("node0", [*hikyaku, "tag", "status"]))
    assert "no job is tagged on this node" in shown
    where = [f"tcp0 {way} (job {found['job']})" for way in ("egress", "ingress")]
    assert f"do nothing any more: {', '.join(where)}; fix: hikyaku tag run" in shown
    for node in ("node1", "node0"):  # its cgroup lies in node0's, since all is one machine here
        again = clsact.exec_argv(node, [*tag_command(interfaces=["ctl0"]), "true"])
        subprocess.run(again, check=True, timeout=SOON)
        assert filters(clsact, node) == []


def sent_bytes(lab: Lab, node: str) -> int:
    argv = lab.exec_argv(node, ["ip", "-json", "-stats", "link", "show", "tcp0"])
    return json.loads(process.run(argv))[0]["stats64"]["tx"]["bytes"]


def test_programs_that_a_benchmark_switches(lab: Lab, program, hikyaku: list[str]) -> None:
    """Off, nothing is tagged while the job goes on; and on again at the end."""

    def sent() -> set[bool]:
        """Whether what leaves is tagged."""
        frames: list[Frame] = []
        with captured(lab, "node0", frames):
            before = sent_bytes(lab, "node0")
            more = partial(lambda b: sent_bytes(lab, "node0") > b + 100_000, before)
            process.wait_until("the job to go on", more, SOON)
        ours = [f for f in frames if f.outgoing and f.protocol == TCP]
        assert len(ours) > 10
        return {f.tag is not None for f in ours}

    with endless_job(lab, program, hikyaku, "--attach", "tcx"):
        busy(lab, hikyaku)
        pids = [status(lab, node, hikyaku)[0]["pid"] for node in ("node0", "node1")]
        with Programs(pids) as programs:
            programs.set(on=False)
            assert sent() == {False}
        assert True in sent()


def test_a_living_ones_filter_is_not_taken(clsact: Lab, hikyaku: list[str]) -> None:
    """Nor its number, by somebody whose run directories are elsewhere."""
    sleep = [*tag_command(interfaces=["tcp0"], attach="clsact"), "sleep", "infinity"]
    with started(clsact, "node0", *sleep):
        pid = holder(clsact, hikyaku)
        lines = filters(clsact, "node0")
        base = f"/tmp/hk-tag-elsewhere-{os.getpid()}"  # short, since a socket lies there
        elsewhere = ["env", f"HIKYAKU_RUNDIR={base}"]
        other = [*elsewhere, *tag_command(interfaces=["tcp0"], job=1, attach="clsact"), "true"]
        text = refused(clsact.exec_argv("node0", other))
        assert f"job 1 is taken on this node, by process {pid} (hk-tagger) of user 0" in text
        free = [*elsewhere, *tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        subprocess.run(clsact.exec_argv("node0", free), check=True, timeout=SOON)
        process.wait_until("the other to go", lambda: filters(clsact, "node0") == lines, SOON)
        process.wait_until("all of it", lambda: not list(Path(base).iterdir()), SOON)
        Path(base).rmdir()


def test_an_interface_that_takes_no_filter(clsact: Lab) -> None:
    """The discipline "ingress" stands where clsact would."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "ingress")
    try:
        argv = [*tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        text = refused(clsact.exec_argv("node0", argv))
        assert not filters(clsact, "node0")
    finally:
        tc(clsact, "node0", "qdisc", "del", "dev", "tcp0", "ingress")
    assert "tcp0 has the queueing discipline 'ingress'" in text
    assert "; fix: have its owner use clsact" in text
