# SPDX-License-Identifier: BSD-3-Clause
"""Labs that another installation of the same user made: they are shown, and not used."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execute import execute
from hikyaku import doctor, process
from hikyaku.checkout import LAUNCHER, ROOT, build_dir
from hikyaku.lab import Lab, all_names, network, other_labs


@pytest.fixture
def other(tmp_path) -> Path:
    """The launcher of a second installation. It has the package, and our Python environment."""
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=lambda *_: ["__pycache__"])
    shutil.copy2(LAUNCHER, tmp_path)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    return tmp_path / "hikyaku"


def say(launcher: Path, *arguments: str, code: int = 0) -> str:
    done = execute([launcher, *arguments], code=code)
    return done.stdout + done.stderr


@pytest.fixture
def theirs(other, lab_name) -> Iterator[str]:
    """The name of a lab of the second installation."""
    name = lab_name("theirs")
    try:
        say(other, "lab", "up", "--lab", name)
        yield name
    finally:
        if other.exists():
            say(other, "lab", "down", "--lab", name)


def findings(name: str) -> list[doctor.Finding]:
    return [found for found in doctor.network.labs() if f"'{name}'" in found.text]


def test_a_lab_of_another_installation_is_shown(theirs, other):
    assert theirs not in all_names()
    shown = json.loads(say(LAUNCHER, "lab", "status", "--lab", theirs, "--json"))
    assert shown == json.loads(say(other, "lab", "status", "--lab", theirs, "--json"))
    assert shown["launcher"] == str(other)
    said = say(LAUNCHER, "lab", "status", "--lab", theirs)
    assert said.startswith(f"lab '{theirs}' belongs to {other}\n")
    (found,) = findings(theirs)
    assert (found.state, found.fix) == ("ok", None)
    assert found.text == f"lab '{theirs}' of {other} is up: 2 nodes, memif"


@pytest.mark.one_core
def test_stats_of_a_lab_of_another_installation(theirs, other, program):
    argv = [other, "lab", "mpirun", "--lab", theirs, "-np", "2"]
    argv += [program("tests/mpi/mpi_hand_over"), "--rounds", "100000", "--timeout", "100"]
    env = {**os.environ, "HIKYAKU_BUILD": str(build_dir())}
    job = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stats = [LAUNCHER, "stats", "--lab", theirs, "--json"]

    def ranks() -> list[int]:
        done = execute(stats, code=None)
        found = json.loads(done.stdout)["ranks"] if done.returncode == 0 else []
        return [rank["endpoint"] & 0xFFFFF for rank in found]

    try:
        process.wait_until("both ranks to answer", lambda: ranks() == [0, 1], 30)
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=40)
    nobody = say(LAUNCHER, "stats", "--lab", theirs, code=1)
    assert "no hikyakud and no rank of Open MPI runs in lab" in nobody


USES: list[Callable[[str], list[str]]] = [
    lambda name: ["lab", "mpirun", "--lab", name, "-np", "2", "true"],
    lambda name: ["lab", "exec", "--lab", name, "node0", "true"],
    lambda name: ["lab", "kill", "wire", "--lab", name, "node0"],
    lambda name: ["capture", "--lab", name, "--node", "node0"],
    lambda name: ["reach", "--lab", name, "--port", "af_xdp:iface=hk0"],
]


@pytest.mark.parametrize("use", USES, ids=lambda use: " ".join(use("NAME")))
def test_a_lab_of_another_installation_is_not_used(theirs, other, use):
    refused = say(LAUNCHER, *use(theirs), code=1)
    assert refused == (
        f"hikyaku: lab '{theirs}' belongs to another installation; fix: run the same command with "
        f"{other}, or make a lab here: {LAUNCHER} lab up --lab {theirs}\n"
    )


def test_labs_of_one_name_do_not_disturb_each_other(theirs, other):
    """As two checkouts test at the same time: `lab down` of one leaves the other's lab, and does
    not fail because of it."""
    with Lab.up(name=theirs) as ours:
        assert json.loads(say(LAUNCHER, "lab", "status", "--lab", theirs, "--json")) == (
            ours.status()
        )
        assert say(LAUNCHER, "lab", "exec", "--lab", theirs, "node1", "hostname") == "node1\n"
    for _ in range(2):
        said = say(LAUNCHER, "lab", "down", "--lab", theirs)
        assert f"{other} lab down --lab {theirs}" in said
    assert say(other, "lab", "exec", "--lab", theirs, "node1", "hostname") == "node1\n"
    assert say(other, "lab", "down", "--lab", theirs).startswith("removed namespace")
    assert findings(theirs) == []


def test_a_lab_of_another_release_is_left_to_it(theirs, other):
    """Doctor does not advise to end a lab whose state this release cannot read."""
    (known,) = other_labs(theirs)
    state = known.state.read_text()
    data = json.loads(state)
    data["topology"]["of_a_later_release"] = 1
    known.state.write_text(json.dumps(data))
    fix = f"run the same command with {other}"
    refused = say(LAUNCHER, "lab", "status", "--lab", theirs, code=1)
    assert refused == f"hikyaku: lab '{theirs}' is of another release; fix: {fix}\n"
    (found,) = findings(theirs)
    assert (found.state, found.fix) == ("warn", fix)
    known.state.write_text(state)


def test_a_lab_of_an_installation_that_is_gone_can_be_removed(theirs, other):
    (known,) = other_labs(theirs)
    lab = Lab.read(known)
    other.unlink()
    (found,) = findings(theirs)
    assert (found.state, found.fix) == ("warn", f"hikyaku lab down --lab {theirs}")
    refused = say(LAUNCHER, "lab", "exec", "--lab", theirs, "node0", "true", code=1)
    assert "belongs to an installation that is gone; fix: " in refused
    say(LAUNCHER, "lab", "down", "--lab", theirs)
    assert network.namespaces(known.checkout) == []
    assert process.find(tag=f"HIKYAKU_LAB_ID={lab.topology.lab_id}") == []
    assert not known.state.parents[2].exists(), "the state directory of the other installation"


def test_a_directory_of_another_user_is_not_read(tmp_path, monkeypatch):
    from hikyaku.lab import others

    state = tmp_path / f"{others._PREFIX}hk000000"
    (state / "labs/trap").mkdir(parents=True)
    (state / "labs/trap/lab.json").write_text(json.dumps({"launcher": "/bin/false"}))
    monkeypatch.setattr(others, "STATE_DIR", tmp_path / "own")
    state.chmod(0o700)
    assert [lab.name for lab in other_labs()] == ["trap"]
    state.chmod(0o777)
    assert other_labs() == []
