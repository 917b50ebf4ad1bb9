# SPDX-License-Identifier: BSD-3-Clause
"""How the user called `hikyaku`, so that printed commands work when they are pasted."""

import os
import re
import shutil
from pathlib import Path

_COMMAND = re.compile(r"(?<![\w./-])hikyaku (?=[a-z])")


def called() -> str:
    """`hikyaku` if PATH has this launcher, else the launcher's path as the user typed it."""
    launcher = os.environ.get("HIKYAKU_COMMAND", "hikyaku")
    found = shutil.which("hikyaku")
    same = found and Path(launcher).exists() and Path(found).samefile(launcher)
    return "hikyaku" if same else launcher


def as_typed(text: str) -> str:
    """@text, in which the commands of hikyaku are written as the user calls it."""
    return _COMMAND.sub(lambda _: f"{called()} ", text)
