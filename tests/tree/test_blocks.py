# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of a page work one after another, and when another page was tried before."""

import re
from collections.abc import Iterator

from hikyaku.checkout import ROOT

BLOCK = re.compile(r"^```\w*\n(.*?)^```$|((?:^    .*\n|^\n(?=    ))+)", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str]]:
    """The name of a page and a block of it, for each."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        for fenced, indented in BLOCK.findall(path.read_text()):
            yield path.name, fenced or indented


def test_a_block_that_makes_a_lab_removes_the_one_before():
    """`lab up` refuses while a lab of that name is up. Another page may have left one."""
    found = [
        f"{page}: {first[0]}"
        for page, block in blocks()
        if (first := re.search(r"^ *\./hikyaku lab (up|down).*", block, re.MULTILINE))
        and first[1] == "up"
        and "--lab" not in first[0]
    ]
    assert not found


def test_commands_for_a_lab_are_those_of_the_checkout():
    """A lab is made in a checkout, where `hikyaku` is not in PATH."""
    found = [
        f"{page}: {line}"
        for page, block in blocks()
        for line in block.splitlines()
        if re.match(r" *hikyaku .*--lab\b", line)
    ]
    assert not found
