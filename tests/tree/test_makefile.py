# SPDX-License-Identifier: BSD-3-Clause
"""The Makefile: `make help`, and variables that are misspelt."""

import subprocess

import pytest

from hikyaku.checkout import ROOT


def make(*words: str) -> subprocess.CompletedProcess[str]:
    argv = ["make", "--no-print-directory", "-n", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_help_lists_the_commands():
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = shown.splitlines()
    assert all(line.startswith("make ") for line in lines)
    assert {line.split()[1] for line in lines} >= {"demo", "check", "install", "help"}


@pytest.mark.parametrize("word", ["PREFX=/x", "DESDIR=/x", "prefix=/x"])
def test_a_misspelt_variable_is_refused(word):
    done = make("uninstall", word)
    assert done.returncode == 2
    assert f"there is no variable {word.partition('=')[0]}; fix: use some of: " in done.stderr
    assert "PREFIX" in done.stderr


@pytest.mark.parametrize(
    "words", [["PREFIX=/x", "DESTDIR=/y z"], ["ARGS=--sample 100 --foo=bar", "JOBS=1"], ["CC=gcc"]]
)
def test_known_variables_are_taken(words):
    done = make("uninstall", *words)
    assert done.returncode == 0, done.stderr
