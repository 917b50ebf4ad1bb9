# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/sdn.md work as they are printed.

The lab has a name of its own. HIKYAKU_LAB gives it to the commands of `lab`, whose default is the
lab `default`. The commands of `sdn` have no such default, so the page must name the lab."""

import os
import re
import subprocess
from pathlib import Path

from execute import execute
from hikyaku.checkout import ROOT
from hikyaku.lab import Lab

PAGE = (ROOT / "docs/sdn.md").read_text()


BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def execute_in(name: str, lines: str, directory: Path) -> subprocess.CompletedProcess:
    """Executes @lines of the page, whose lab is `default`, with the lab @name."""
    script = lines.replace("--lab default", f"--lab {name}")
    script = script.replace("./hikyaku sdn", "env -u HIKYAKU_LAB ./hikyaku sdn")
    env = {**os.environ, "HIKYAKU_LAB": name}
    return execute(["sh", "-euc", script], timeout=300, cwd=directory, env=env)


def test_the_first_commands(outputs, lab_name):
    name = lab_name("sdn-commands")
    end = "./hikyaku sdn stop --lab default\n./hikyaku lab down\n"
    done = execute_in(name, BLOCKS[0] + end, outputs)
    assert done.stdout.count('"metric":"bcast_ms"') == 3, "the program of each lab mpirun"


def test_links_with_a_limit(outputs, lab_name):
    (script,) = [block for block in BLOCKS if '"mbit"' in block]
    name = lab_name("sdn-limits")
    execute_in(name, script, outputs)
    topology = Lab.find(name).topology
    rates = {link.name: link.mbit for link in (*topology.wiring.links, *topology.wiring.access)}
    assert rates == {"a-b": 100, "node0-a": 0, "node1-b": 50}
    limits = execute(["ip", "netns", "exec", topology.switch_netns, "tc", "qdisc", "show"]).stdout
    assert sorted(re.findall(r"tbf .* rate (\d+)Mbit", limits)) == ["100", "100", "50", "50"]
