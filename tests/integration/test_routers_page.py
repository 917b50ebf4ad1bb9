# SPDX-License-Identifier: BSD-3-Clause
"""The example of docs/routers.md works as it is printed: packets go through the router."""

import os
import re

from execute import execute
from hikyaku.checkout import ROOT

PAGE = (ROOT / "docs/routers.md").read_text()


def test_the_example_forwards_packets(outputs, lab_name):
    section = PAGE[PAGE.index("## A router in a minute") : PAGE.index("## Modes")]
    (lines,) = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    env = {**os.environ, "HIKYAKU_LAB": lab_name("router")}
    # a file, since the router keeps a pipe open if a later line fails
    script = f"exec >said 2>&1\n{lines}"
    done = execute(["sh", "-euc", script], code=None, timeout=120, cwd=outputs, env=env)
    said = (outputs / "said").read_text()
    assert done.returncode == 0, said
    (counts,) = re.findall(r"^. forwarded +. +(\d+) . +(\d+) .$", said, re.MULTILINE)
    assert all(int(count) >= 3 for count in counts), said
