# SPDX-License-Identifier: BSD-3-Clause
"""README.ja.md says what README.md says: its commands, its figures and its links."""

import re

from hikyaku.checkout import ROOT

ENGLISH, JAPANESE = ((ROOT / name).read_text() for name in ("README.md", "README.ja.md"))
OWN = {"./hikyaku papers --quick"}  # README.md has no section on the papers


def commands(text: str) -> set[str]:
    """In listings and tables, without comments."""
    blocks = re.findall(r"```\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    listed = {re.sub(r"\s+", " ", re.sub(r"\s+#.*", "", line)).strip() for line in lines}
    inline = set(re.findall(r"`(\./hikyaku [^`]+|make [a-z]+)`", text))
    return {each for each in listed | inline if each.startswith(("./", "make", "eval", "mpirun"))}


def figures(text: str) -> list[str]:
    """Those of the table of results."""
    table = re.search(r"\| \| TCP \| Hikyaku \|.*?\n\n", text, re.DOTALL)[0]
    return re.findall(r"[\d.]+ (?:µs|GB/s)|[−\d.]+ ?[%×]", table)


def test_commands():
    assert commands(JAPANESE) - OWN == commands(ENGLISH) - OWN


def test_figures():
    assert figures(JAPANESE) == figures(ENGLISH) and len(figures(ENGLISH)) == 18


def test_links_exist():
    for link in re.findall(r"\]\(([^)#]+)", JAPANESE):
        assert (ROOT / link).exists(), link
