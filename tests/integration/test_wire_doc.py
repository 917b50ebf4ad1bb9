# SPDX-License-Identifier: BSD-3-Clause
"""The worked examples of docs/wire.md are what the codec writes, byte for byte."""

import re

from execute import execute
from hikyaku.checkout import ROOT

PAGE = ROOT / "docs/wire.md"
# offset, bytes, two or more spaces, explanation
LINE = re.compile(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?")


def examples() -> dict[str, str]:
    """The hex blocks of the page by the heading that they stand under."""
    found: dict[str, str] = {}
    heading, inside = "", False
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            heading = line.removeprefix("### ").strip()
        elif line == "```hex":
            inside = True
            found[heading] = ""
        elif line.startswith("```"):
            inside = False
        elif inside:
            match = LINE.fullmatch(line)
            assert match, f"{heading}: not a line of bytes: {line!r}"
            at = len(found[heading]) // 2
            assert int(match[1], 16) == at, f"{heading}: offset {match[1]} should be {at:04x}"
            found[heading] += match[2].replace(" ", "")
    return found


def test_examples_are_what_the_codec_writes(program):
    done = execute([program("tests/support/specimen_tool"), "hex"])
    written = dict(line.split() for line in done.stdout.splitlines())
    assert examples() == written
