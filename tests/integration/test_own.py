# SPDX-License-Identifier: BSD-3-Clause
"""Which labs and guests are those of a dead process (own.py)."""

import os
import subprocess
from pathlib import Path

import pytest

from hikyaku import own, process


@pytest.fixture
def other():
    """Another process, which runs until the test ends it."""
    running = subprocess.Popen(["sleep", "600"])
    yield running
    running.kill()
    running.wait()


def removed(pid: int, directory: Path) -> list[str]:
    names: list[str] = []
    own.remove_dead("x", [(f"x-{pid}-lab", directory)], names.append)
    return names


@pytest.mark.parametrize("maker", ["itself", "a command", "nobody yet"])
def test_a_lab_lives_as_long_as_the_process_in_its_name(other, maker, tmp_path):
    file = tmp_path / own.MAKER
    if maker == "itself":
        file.write_text(f"{other.pid} {process.started(other.pid)}\n")
    elif maker == "a command":  # such as `lab up`, which has ended
        command = subprocess.Popen(["true"])
        command.wait()
        file.write_text(f"{command.pid} 1\n")
    assert removed(other.pid, tmp_path) == []
    other.kill()
    other.wait()
    assert removed(other.pid, tmp_path) == [f"x-{other.pid}-lab"]


def test_a_former_process_had_our_number(tmp_path):
    (tmp_path / own.MAKER).write_text(f"{os.getpid()} 1\n")
    assert removed(os.getpid(), tmp_path) == [f"x-{os.getpid()}-lab"]
