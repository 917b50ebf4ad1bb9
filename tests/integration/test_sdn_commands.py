# SPDX-License-Identifier: BSD-3-Clause
"""The first commands of docs/sdn.md work as they are printed.

The lab has a name of its own. HIKYAKU_LAB gives it to the commands of `lab`, whose default is the
lab `default`. The commands of `sdn` have no such default, so the page must name the lab."""

import os
import re

from execute import execute
from hikyaku.checkout import ROOT

PAGE = (ROOT / "docs/sdn.md").read_text()


def test_the_first_commands(outputs, lab_name):
    (lines, *_) = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    name = lab_name("sdn-commands")
    env = {**os.environ, "HIKYAKU_LAB": name}
    end = f"./hikyaku sdn stop --lab {name}\n./hikyaku lab down\n"
    script = lines.replace("--lab default", f"--lab {name}") + end
    script = script.replace("./hikyaku sdn", "env -u HIKYAKU_LAB ./hikyaku sdn")
    done = execute(["sh", "-euc", script], timeout=300, cwd=outputs, env=env)
    assert done.stdout.count('"metric":"bcast_ms"') == 3, "the program of each lab mpirun"
