# SPDX-License-Identifier: BSD-3-Clause
"""docs/library.md walks through examples/hello/hello.c: its listings are lines of that program."""

import re

from hikyaku.checkout import ROOT

PAGE = (ROOT / "docs/library.md").read_text()
PROGRAM = [line.strip() for line in (ROOT / "examples/hello/hello.c").read_text().splitlines()]


def test_each_line_of_a_listing_is_one_of_the_program():
    lines = [line.strip() for line in re.findall(r"^    (.+)$", PAGE, re.MULTILINE)]
    listed = [line for line in lines if not line.startswith("-Wl")]  # of the build's command
    assert len(listed) > 15
    assert [line for line in listed if line not in PROGRAM] == []


def test_the_page_explains_each_field_without_a_default():
    header = (ROOT / "include/hikyaku/protocol.h").read_text()
    (fields,) = re.findall(r"every field except ([\w, ]+)\.", header)
    for field in re.findall(r"\w+", fields.replace(" and ", " ")):
        assert f"| `engine.{field}` |" in PAGE
    table = re.findall(r"^\| (?:field|`engine\.\w+`) \|.*$", PAGE, re.MULTILINE)
    assert " if it is not set " in table[0]
    assert {row.count(" | ") for row in table} == {4}
