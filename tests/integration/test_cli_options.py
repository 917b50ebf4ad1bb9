# SPDX-License-Identifier: BSD-3-Clause
"""The command line without a lab: help that teaches, and bad input that is named."""

import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from execute import execute
from hikyaku import called
from hikyaku.checkout import ROOT
from hikyaku.cli.main import main
from hikyaku.errors import HikyakuError
from hikyaku.lab import openmpi
from hikyaku.lab.built_for import check_built_for
from hikyaku.lab.job import Job, check


def call(command: list[str], *arguments: str, **more: object) -> subprocess.CompletedProcess:
    return execute([*command, *arguments], code=None, **more)


def commands(command: click.Command, path: list[str]) -> list[list[str]]:
    if not isinstance(command, click.Group):
        return [path]
    below = [(name, command.commands[name]) for name in sorted(command.commands)]
    return [path, *(more for name, one in below for more in commands(one, [*path, name]))]


COMMANDS = commands(main, [])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: "-".join(c) or "top")
def test_help_teaches(hikyaku, command):
    done = call(hikyaku, *command, "--help")
    assert done.returncode == 0
    assert "Usage: hikyaku" in done.stdout
    assert done.stderr == ""


def synopsis(path: list[str]) -> str:
    """The lines of the manual's synopsis that name the command @path."""
    page = (ROOT / "docs/man/hikyaku.1.md").read_text()
    forms = page[page.index("# SYNOPSIS") : page.index("# DESCRIPTION")].split("\n\n")
    words = {"hikyaku", *path}
    return "\n".join(f for f in forms if words <= set(re.findall(r"[\w-]+", f.split("[")[0])))


def test_the_manual_has_every_command():
    assert [" ".join(path) for path in COMMANDS if path and not synopsis(path)] == []


def test_the_manual_has_every_option():
    missing = []
    for path in COMMANDS:
        command = main
        for word in path:
            command = command.commands[word]
        form = synopsis(path)
        if isinstance(command, click.Group) or "[*more" in form:  # "[*more, see* **--help**]"
            continue
        given = set(re.findall(r"--?[a-z][\w-]*", form))
        missing += [
            f"{' '.join(path)} {param.opts[0]}"
            for param in command.params
            if isinstance(param, click.Option) and not given & set(param.opts)
        ]
    assert missing == []


@pytest.mark.parametrize(
    "command", [["lab"], ["lab", "up"], ["lab", "mpirun"], ["bench", "mpi"], ["reach"], ["sim"]]
)
def test_help_has_examples(hikyaku, command):
    done = call(hikyaku, *command, "--help")
    assert "Example" in done.stdout
    assert f"  {hikyaku[0]} " + " ".join(command) in done.stdout
    bare = re.findall(r"^ +(?:\S+=\S+ )*hikyaku .*", done.stdout, re.MULTILINE)
    assert bare == [], "these do not work in a checkout"


def test_examples_of_sdn_name_the_lab(hikyaku):
    """Without --lab, a command of `sdn` asks the machine's own controller, which knows no node0."""
    for path in [path for path in COMMANDS if path[:1] == ["sdn"]]:
        said = call(hikyaku, *path, "--help").stdout
        examples = re.findall(rf"^ +{re.escape(hikyaku[0])} sdn .*", said, re.MULTILINE)
        of_a_lab = [line for line in examples if " --lab " in line]
        elsewhere = re.compile(r" --openflow | (?:[0-9a-f]{2}:){5}| sdn entries\b")
        rest = [line for line in examples if not elsewhere.search(line)]
        assert [line for line in rest if line not in of_a_lab] == []


def test_launcher_without_environment_says_make(hikyaku, tmp_path):
    """A fresh clone, before `make`; and an installed one, of which the environment is gone."""
    copy = tmp_path / "hikyaku"
    shutil.copy(hikyaku[0], copy)
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")  # without click
    (tmp_path / "python3").chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = call([str(copy)], env=path)
    assert done.returncode == 1
    assert "run 'make install' again" in done.stderr
    (tmp_path / "meson.build").touch()
    done = call([str(copy)], env=path)
    assert done.returncode == 1
    assert f"run 'make' in {tmp_path}" in done.stderr


def test_launcher_by_symbolic_link(hikyaku, tmp_path):
    link = tmp_path / "hk"
    link.symlink_to(hikyaku[0])
    assert call([str(link)], "--version", cwd=tmp_path).returncode == 0


# ---- printed commands ----------------------------------------------------------------------------

DOWN = "hikyaku lab down --all"
WRITE = "echo 1 > /proc/x"


@pytest.mark.parametrize(
    ("uid", "sudo", "under_sudo", "command", "printed"),
    [
        (0, True, False, DOWN, "./hikyaku lab down --all"),
        (0, True, True, DOWN, "sudo ./hikyaku lab down --all"),
        (0, True, True, WRITE, "sudo sh -c 'echo 1 > /proc/x'"),
        (0, True, False, WRITE, WRITE),
        (7, True, False, DOWN, "sudo ./hikyaku lab down --all"),
        (7, True, False, f"{DOWN} && {DOWN}", f"sudo sh -c './{DOWN} && ./{DOWN}'"),
        (7, False, False, DOWN, "as root: ./hikyaku lab down --all"),
    ],
)
def test_a_command_of_root_is_printed_for_this_user(
    monkeypatch, uid, sudo, under_sudo, command, printed
):
    """Under sudo this process is root, and the user's shell is not."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(
        shutil, "which", lambda name: "/bin/sudo" if sudo and name == "sudo" else None
    )
    monkeypatch.setenv("HIKYAKU_COMMAND", "./hikyaku")
    monkeypatch.setenv("SUDO_COMMAND", "./hikyaku doctor" if under_sudo else "/bin/sh")
    assert called.as_typed(called.as_root(command)) == printed


def test_the_same_command_line_as_root_keeps_our_settings(monkeypatch):
    """sudo clears the environment, where HIKYAKU_LAB names the lab."""
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/sudo" if name == "sudo" else None)
    for name in [name for name in os.environ if name.startswith("HIKYAKU_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HIKYAKU_COMMAND", "./hikyaku")
    monkeypatch.setenv("HIKYAKU_LAB", "mine")
    monkeypatch.setattr(sys, "argv", ["hikyaku", "lab", "status", "--json"])
    assert called.as_typed(called.again_as_root()) == (
        "sudo env HIKYAKU_LAB=mine ./hikyaku lab status --json"
    )


# ---- mpirun's arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tcp", "lab", "rest"),
    [
        ("-np 2 ring", False, None, "-np 2 ring"),
        ("--tcp -np 2 ring", True, None, "-np 2 ring"),
        ("-np 2 --tcp ring", True, None, "-np 2 ring"),
        ("-np 2 ring --tcp --lab x", False, None, "-np 2 ring --tcp --lab x"),
        ("--lab a -n 3 ring", False, "a", "-n 3 ring"),
        ("--mca btl --tcp --lab=b ring", False, "b", "--mca btl --tcp ring"),
        ("--map-by slot --tcp -x A=1 ring -h", True, None, "--map-by slot -x A=1 ring -h"),
        ("--host node0:2,node1 --tag-output ring", False, None, None),
    ],
)
def test_lab_options_are_taken_before_the_program_only(text, tcp, lab, rest):
    flags, left = openmpi.take_lab_options(text.split())
    assert (flags.tcp, flags.lab, flags.help) == (tcp, lab, False)
    assert " ".join(left) == (text if rest is None else rest)


@pytest.mark.parametrize(
    ("text", "mode", "rest"),
    [
        ("-np 2 ring", None, "-np 2 ring"),
        ("--mode hybrid -np 2 ring", "hybrid", "-np 2 ring"),
        ("-np 2 --mode inline ring", "inline", "-np 2 ring"),
        ("--host node1 --mode auto ring", "auto", "--host node1 ring"),
        ("--mode daemon ring", "daemon", "ring"),
        ("--host hybrid ring", None, "--host hybrid ring"),
        ("ring --mode hybrid", None, "ring --mode hybrid"),
    ],
)
def test_mode_is_told_from_a_list_of_hosts(text, mode, rest):
    flags, left = openmpi.take_lab_options(text.split())
    assert flags.mode == mode
    assert " ".join(left) == rest


def test_unknown_mode_is_refused():
    with pytest.raises(HikyakuError, match="no mode 'sideways'; fix: --mode inline, hybrid"):
        openmpi.take_lab_options(["--mode", "sideways", "ring"])


@pytest.mark.parametrize(
    ("text", "options", "ranks"),
    [
        ("-np 2 ring -np 7", 2, 2),
        ("ring", 0, None),
        ("--mca a b -c 4 ring", 5, 4),
        ("-x NP=3 -n 3 ./ring", 4, 3),
        ("--display-map -np 1 a : -np 3 b", 3, 1),
    ],
)
def test_program_is_found_behind_mpiruns_options(text, options, ranks):
    head, program = openmpi.split_command(text.split())
    assert len(head) == options
    assert program == text.split()[options:]
    assert openmpi.rank_count(head) == ranks


@pytest.mark.parametrize("text", ["-np", "-np 2 --mca btl", "--map-by"])
def test_option_without_value_is_refused(text):
    with pytest.raises(HikyakuError, match="lacks its value"):
        openmpi.split_command(text.split())


def test_rank_count_must_be_a_number():
    with pytest.raises(HikyakuError, match="positive number"):
        openmpi.rank_count(["-np", "two"])


def test_component_path_keeps_open_mpis_own():
    """Without the default directory every other component would vanish."""
    path = openmpi.default_component_path()
    assert "openmpi" in path
    assert "hikyaku" not in path


@pytest.mark.parametrize("mode", ["hybrid", "split", "daemon"])
def test_ranks_behind_a_daemon_are_not_tagged_by_switches(mode):
    facts = {"wire": "ovs", "wiring": object(), "ports": 1, "data_ports": 1, "huge_mb": 512}
    lab = SimpleNamespace(**facts, by_sockets=False)
    with pytest.raises(HikyakuError, match="leave out --tag"):
        check(lab, Job([], mode=mode, tag=True), named=True)
    check(lab, Job([], mode=mode), named=True)


def test_examples_of_help_are_as_the_user_calls_it(hikyaku):
    said = execute([*hikyaku, "sdn", "--help"]).stdout
    assert f"{hikyaku[0]} sdn status --lab default" in said


@pytest.mark.parametrize(
    ("needs", "name", "refused"),
    [
        (b"libmpi.so.40", "mpich", "build it with $("),
        (b"libmpi.so.40", "impi", "mpi install mpich)/bin/mpicc, or leave out --mpi impi"),
        (b"libmpi.so.12", None, "lab mpirun --mpi mpich"),
        (b"libmpich.so.12", "openmpi5", "lab mpirun --mpi mpich"),
        (b"libmpi.so.40", None, None),
        (b"libmpi.so.40", "openmpi-ofi", None),
        (b"libmpi.so.12", "impi", None),
        (b"libm.so.6", "mpich", None),
    ],
)
def test_a_program_of_another_mpi_is_refused(tmp_path, needs, name, refused):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" + bytes(60) + b"libc.so.6\0" + needs + b"\0")
    program.chmod(0o755)
    job = Job([str(program)], mpi=name)
    if refused is None:
        check_built_for(job, str(program))
        return
    with pytest.raises(HikyakuError) as raised:
        check_built_for(job, str(program))
    assert refused in str(raised.value)


def test_a_script_is_for_any_mpi(tmp_path):
    script = tmp_path / "script"
    script.write_bytes(b"#!/bin/sh\n# libmpi.so.12\0\0libmpi.so.12\0")
    script.chmod(0o755)
    check_built_for(Job([str(script)]), str(script))
