# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/routers.md work as they are printed: packets go through the router."""

import os
import re

import pytest

from execute import execute
from hikyaku.checkout import ROOT

PAGE = (ROOT / "docs/routers.md").read_text()
START = re.compile(r"^\./hikyaku lab exec node1 .*?&$", re.MULTILINE | re.DOTALL)


def block(since: str, until: str) -> str:
    section = PAGE[PAGE.index(since) : PAGE.index(until)]
    (lines,) = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return lines


def bounce() -> str:
    return block("## A router in a minute", "## Modes")


def p2p() -> str:
    """The same lines, with the changes that the page names."""
    (start,) = START.findall(block("To try mode p2p", "## The route file"))
    up = "./hikyaku lab up --wire veth --nodes 3 --ports 2"
    assert "add `--huge 64` to its `lab up`" in PAGE
    assert up in bounce()
    return START.sub(lambda _: start, bounce().replace(up, f"{up} --huge 64"))


@pytest.mark.parametrize("lines", [bounce, p2p])
def test_the_example_forwards_packets(outputs, lab_name, lines):
    env = {**os.environ, "HIKYAKU_LAB": lab_name("router")}
    # a file, since the router keeps a pipe open if a later line fails
    script = f"exec >said 2>&1\n{lines()}"
    done = execute(["sh", "-euc", script], code=None, timeout=120, cwd=outputs, env=env)
    said = (outputs / "said").read_text()
    assert done.returncode == 0, said
    assert f" {lines.__name__}: " in said
    (counts,) = re.findall(r"^. forwarded +. +(\d+) . +(\d+) .$", said, re.MULTILINE)
    assert all(int(count) >= 3 for count in counts), said
