# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C at each stage of the commands that start something: nothing stays.

A terminal sends SIGINT to the whole process group. A test sends it when the command has reached a
stage, which the test sees from outside.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.lab import Lab, all_names, down, lab_id, network
from hikyaku.lab.names import lab_directory
from hikyaku.sdn.store import Store

REACHED_S = 30
ENDED_S = 30
LINES = 5  # of ours, at most

Stage = Callable[[], bool]


def start(argv: list[str], out: Path) -> subprocess.Popen:
    """Starts @argv in a process group of its own. It prints to the file @out."""
    with out.open("w") as file:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


def interrupt(tool: subprocess.Popen, at: Stage, out: Path) -> bool:
    """Sends SIGINT to @tool and its children when the stage @at is reached. Returns whether the
    command had ended before: its effect then stays."""
    end = time.monotonic() + REACHED_S
    while not at() and tool.poll() is None:
        assert time.monotonic() < end, out.read_text()
        time.sleep(0.001)
    had_ended = tool.poll() is not None
    if not had_ended:
        os.killpg(tool.pid, signal.SIGINT)
    tool.wait(ENDED_S)
    said = out.read_text()
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if line.startswith("hikyaku:")]) <= LINES
    if had_ended or tool.returncode == 0:
        assert tool.returncode == 0, said
        return True
    # where Python starts or ends, the signal ends it without a message
    assert tool.returncode in (130, -signal.SIGINT), said
    return tool.returncode < 0 and (" is up" in said or " is ready" in said)


def runs(lab: str, *words: str) -> bool:
    """Does a process of @lab run whose command line has one of @words?"""
    found = process.find(tag=f"HIKYAKU_LAB_ID={lab_id(lab)}")
    return any(word in process.command_line(pid) for pid in found for word in words)


def at_once() -> bool:
    return True


def left(lab: str) -> list[str]:
    """Processes, namespaces and the directory of @lab, which is not up."""
    found = process.find(tag=f"HIKYAKU_LAB_ID={lab_id(lab)}")
    rest = [process.command_line(pid) for pid in found]
    rest += network.namespaces(lab_id(lab) + "-")
    return rest + [str(lab_directory(lab))] * lab_directory(lab).exists()


# ---- a command that starts -----------------------------------------------------------------------


@pytest.mark.parametrize("late_ms", range(24))
def test_python_starts(hikyaku, tmp_path, late_ms):
    """Python itself starts in 10 to 20 ms. The command would end without a message of its own."""
    said = tmp_path / "said"
    tool = start([*hikyaku, "--version"], said)

    def reached() -> bool:
        if "python" not in process.command_line(tool.pid).split(" ")[0]:
            return False
        time.sleep(late_ms / 1000)
        return True

    interrupt(tool, reached, said)


# ---- a lab that comes up -------------------------------------------------------------------------

UP = {
    "it loads": lambda lab: at_once,
    "its directory is made": lambda lab: lab_directory(lab).exists,
    "its first namespace is made": lambda lab: lambda: network.namespaces(lab_id(lab) + "-"),
    "its namespaces are made": lambda lab: lambda: len(network.namespaces(lab_id(lab) + "-")) == 4,
    "its database runs": lambda lab: lambda: runs(lab, "ovsdb-server"),
    "its switches run": lambda lab: lambda: runs(lab, "ovs-vswitchd"),
}


@pytest.mark.parametrize("stage", UP)
def test_a_lab_comes_up(lab_name, hikyaku, tmp_path, stage):
    lab = lab_name("interrupted")
    argv = [*hikyaku, "lab", "up", "--lab", lab, "--wire", "ovs", "--topology", "leaf-spine:1x2x1"]
    said = tmp_path / "said"
    if interrupt(start(argv, said), UP[stage](lab), said):
        assert Lab.find(lab).topology.wire == "ovs"
        down(lab)
    assert left(lab) == []


# ---- a lab that goes down ------------------------------------------------------------------------

DOWN = {
    "it loads": lambda lab: at_once,
    "its switches have ended": lambda lab: lambda: not runs(lab, "ovs-vswitchd"),
    "a namespace is gone": lambda lab: lambda: len(network.namespaces(lab_id(lab) + "-")) < 4,
    "its namespaces are gone": lambda lab: lambda: not network.namespaces(lab_id(lab) + "-"),
}


@pytest.mark.parametrize("stage", DOWN)
def test_a_lab_goes_down(lab_name, hikyaku, tmp_path, stage):
    """The next command removes the rest."""
    lab = lab_name("leaving")
    with Lab.up(wire="ovs", switches="leaf-spine:1x2x1", name=lab):
        said, argv = tmp_path / "said", [*hikyaku, "lab", "down", "--lab", lab]
        interrupt(start(argv, said), DOWN[stage](lab), said)
        done = process.run(argv)
        assert "Traceback" not in done
        assert left(lab) == []


# ---- a job ---------------------------------------------------------------------------------------

JOB = {
    "it loads": lambda lab: at_once,
    "its directory is made": lambda lab: lambda: any((lab.directory / "runs").iterdir()),
    "mpirun runs": lambda lab: lambda: runs(lab.name, "mpirun"),
    "it runs on both nodes": lambda lab: lambda: runs(lab.name, "orted", "prted"),
    "its ranks run": lambda lab: lambda: runs(lab.name, "sleep 300"),
}


@pytest.mark.parametrize("stage", JOB)
def test_a_job_runs(get_lab, hikyaku, tmp_path, stage):
    lab = get_lab(2, "memif")
    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2", "sleep", "300"]
    said = tmp_path / "said"
    assert not interrupt(start(argv, said), JOB[stage](lab), said)
    status = lab.status()
    assert (status["processes"], status["stale"]) == ([], [])
    assert list((lab.directory / "runs").iterdir()) == []


# ---- a benchmark ---------------------------------------------------------------------------------

STEPS = ["memif: tcp", "memif: hikyaku", "memif: raw"]
BENCH = [("", False), *((step, runs) for step in STEPS for runs in (False, True))]


@pytest.mark.parametrize(("step", "runs_job"), BENCH)
def test_a_benchmark_runs(hikyaku, tmp_path, step, runs_job):
    """At the begin of @step, or when its job runs. The first step is that it loads."""
    said, saved = tmp_path / "said", tmp_path / "bench.json"
    argv = [*hikyaku, "bench", "mpi", "--metrics", "latency_us", "--sizes", "8"]
    argv += ["--wire", "memif", "--repeats", "9", "--json", str(saved)]
    tool = start(argv, said)

    def labs() -> list[str]:
        return [name for name in all_names() if name.startswith(f"bench-{tool.pid}-")]

    def reached() -> bool:
        if step not in said.read_text():
            return False
        return not runs_job or any(runs(lab, "mpi_bench", "raw_") for lab in labs())

    assert not interrupt(tool, reached, said)
    assert labs() == []
    assert not saved.exists()


# ---- a demo --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "program"), [("halo", "halo/heat"), ("sdn", "sdn run"), ("sdn", "mpi_bcast")]
)
def test_a_demo_runs(hikyaku, tmp_path, monkeypatch, name, program):
    """When its program runs. Two threads wait for Bcasts."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    said = tmp_path / "said"
    tool = start([*hikyaku, "demo", name, "--out", str(tmp_path / "out")], said)
    lab = f"demo-{tool.pid}-{name}"
    assert not interrupt(tool, lambda: runs(lab, program), said)
    assert left(lab) == []
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "out").iterdir()) == []


# ---- a controller in the background --------------------------------------------------------------


@pytest.fixture
def silent(lab_name) -> Iterator[Lab]:
    """A lab whose switches have no controller."""
    with Lab.up(wire="ovs", switches="leaf-spine:1x2x1", name=lab_name("silent")) as lab:
        yield lab


def log_of(lab: Lab) -> str:
    log = lab.directory / "sdn/log"
    return log.read_text() if log.exists() else ""


SDN = {
    "it loads": lambda lab: at_once,
    "its directory is made": lambda lab: (lab.directory / "sdn").exists,
    "the controller starts": lambda lab: (lab.directory / "sdn/log").exists,
    "the controller listens": lambda lab: lambda: "switches: " in log_of(lab),
    "a switch is connected": lambda lab: lambda: "is connected" in log_of(lab),
}


@pytest.mark.parametrize("stage", SDN)
def test_a_controller_starts(silent, hikyaku, tmp_path, stage):
    argv = [*hikyaku, "sdn", "run", "--background", "--lab", silent.name]
    said = tmp_path / "said"
    assert not interrupt(start(argv, said), SDN[stage](silent), said)
    assert not runs(silent.name, "sdn run")
    state = silent.directory / "sdn"
    assert not state.exists() or Store(state).owner() is None


# ---- hikyakud ------------------------------------------------------------------------------------


def commands(lab: Lab) -> str:
    return "\n".join(each["command"] for each in lab.status()["processes"])


DAEMON = {
    "it loads": lambda lab, run: at_once,
    "hikyakud starts": lambda lab, run: lambda: "hikyakud" in commands(lab),
    "hikyakud is in the background": lambda lab, run: lambda: commands(lab).count("hikyakud") > 1,
    "hikyakud has its lock": lambda lab, run: (run / "default/lock").exists,
    "hikyakud listens": lambda lab, run: (run / "default/control").exists,
}


@pytest.mark.parametrize("stage", DAEMON)
def test_a_daemon_starts(get_lab, hikyaku, tmp_path, stage):
    lab = get_lab(2, "veth", 1, huge_mb=256)
    own = lab.node_directory("node0")
    argv = [*hikyaku, "daemon", "start", "--slots", "1", "--port", "af_packet:iface=hk0"]
    said = tmp_path / "said"
    tool = start(lab.exec_argv("node0", argv), said)
    if interrupt(tool, DAEMON[stage](lab, own / "run"), said):
        process.run(lab.exec_argv("node0", [*hikyaku, "daemon", "stop"]))
    assert commands(lab) == ""
    assert list((own / "run").iterdir()) == []
    assert list((own / "huge").iterdir()) == []
