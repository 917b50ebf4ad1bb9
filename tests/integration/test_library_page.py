# SPDX-License-Identifier: BSD-3-Clause
"""The lines of docs/library.md for two nodes of a lab work as they are printed."""

import os
import re

from execute import execute
from hikyaku.checkout import ROOT, build_dir

PAGE = (ROOT / "docs/library.md").read_text()


def test_hello_on_two_nodes(outputs, lab_name):
    (lines,) = re.findall(r"^```\n(./hikyaku lab down.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    before_down, down = lines.rsplit("./hikyaku lab down", 1)
    (outputs / "hello").symlink_to(build_dir() / "examples/hello/hello")
    env = {**os.environ, "HIKYAKU_LAB": lab_name("library")}
    lines = before_down.replace("/tmp/hello", str(outputs / "wire"))
    script = f"{lines}wait\n./hikyaku lab down{down}"
    done = execute(["sh", "-euc", script], timeout=120, cwd=outputs, env=env)
    assert "put: done\n" in done.stdout
    assert "message: hello\nput: hello by a put\n" in done.stdout
