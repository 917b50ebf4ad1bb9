# SPDX-License-Identifier: BSD-3-Clause
"""Errors look the same wherever they come from: "what happened; fix: what to do", in one line."""

import os
import re
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.errors import HikyakuError

ROOT = Path(__file__).resolve().parents[2]


def test_texts_in_c_have_one_form():
    """Each piece of text that names a fix, with the pieces of a literal put together."""
    texts = []
    for path in sorted(
        p for part in ("src", "plugins", "systems", "tools") for p in (ROOT / part).rglob("*.[ch]")
    ):
        source = re.sub(r'"\s*\n\s*"', "", path.read_text()).replace("prefix: ", "")
        texts += [(path.name, line) for line in source.splitlines() if "fix: " in line]
    assert len(texts) > 100
    odd = [(name, line) for name, line in texts if line.count("fix: ") != line.count("; fix: ")]
    assert not odd


def test_python_has_the_same():
    error = HikyakuError("no wire", "add one")
    assert str(error) == "no wire; fix: add one"
    again = HikyakuError.said(str(error), "lab: ")
    assert (again.what, again.fix) == ("lab: no wire", "add one")
    assert HikyakuError.said("no wire").fix is None
    with pytest.raises(HikyakuError, match=r"no wire$"):
        raise HikyakuError.said("no wire")


def test_a_program_that_does_not_answer_is_named_without_our_environment(monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "not for the terminal")
    with pytest.raises(HikyakuError) as caught:
        process.run(["sleep", "300"], timeout=0.05, env=dict(os.environ))
    assert str(caught.value).startswith("'sleep 300' did not end within 0.05 s; fix: try again")


@pytest.mark.parametrize(
    ("words", "cause", "fix"),
    [
        ("--nics a,b", "--pop is missing", "add --pop none"),
        ("--pop none", "--nics is missing", "add the addresses of two NICs"),
        ("--pop none --nics a", "NIC a has no partner", "as in --nics a,0000:00:04.0"),
        ("--pop none --nics a,b,c", "NIC c has no partner", "add another NIC"),
        ("--pop none --nics a,b c", "'c' is not an option", "leave it out"),
    ],
)
def test_words_that_hk_devmem_forward_lacks(program, words, cause, fix):
    argv = [program("systems/devmem/tool/hk_devmem"), "forward", *words.split()]
    assert re.search(f"{cause}.*; fix: .*{fix}", execute(argv, code=2).stderr)
