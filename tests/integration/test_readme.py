# SPDX-License-Identifier: BSD-3-Clause
"""The README's first commands work as they are printed, and end with a plot or a figure."""

import re

import pytest

from execute import execute
from hikyaku.checkout import ROOT

README = (ROOT / "README.md").read_text()
TABLE = README[README.index("## Which of these am I?") : README.index("## Results")]
COMMANDS = re.findall(r"^\| [^|]+ \| `([^`]+)` \|", TABLE, re.MULTILINE)
WORDS_MAX = 700

pytestmark = pytest.mark.one_core


def marked(commands: list[str]) -> list:
    """Those that measure for longer run with --slow. tests/tree/test_commands.py checks the options
    of all, and the tests of each benchmark run it in a short form."""
    measures = re.compile(r"hikyaku (demo|bench (halo|rtc))\b")
    return [pytest.param(c, marks=pytest.mark.slow if measures.search(c) else ()) for c in commands]


def test_the_first_screen_is_short_and_has_six_users():
    assert len(README.split()) <= WORDS_MAX
    assert len(COMMANDS) == 6


@pytest.mark.parametrize("command", marked(COMMANDS))
def test_each_command_ends_with_a_plot_or_a_figure(outputs, lab_name, command, monkeypatch):
    """As typed, but with labs of another name, and files in another place."""
    monkeypatch.setenv("HIKYAKU_LAB", lab_name("readme"))
    typed = command.replace("./hikyaku learn", f"./hikyaku learn --out {outputs}/out")
    done = execute(["sh", "-euc", typed], timeout=120, cwd=outputs)
    plots = list((outputs / "out").rglob("*.png"))
    assert plots or "million a second" in done.stdout or "saved" in done.stdout
    assert "…" not in done.stdout, "a table is cut"
