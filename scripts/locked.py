#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""locked.py FILE.in: prints the part of requirements.txt that FILE.in and its packages need.

pip-compile notes below each package which files and packages require it.
"""

import re
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "requirements.txt"
PACKAGE = re.compile(r"^([\w.-]+)==.*\n(?: .*\n)*", re.MULTILINE)


def part(lock: str, name: str) -> str:
    packages = {found[1]: found[0] for found in PACKAGE.finditer(lock)}
    because = {
        package: set(re.findall(r"^ +# +(?:via )?(\S.*)$", text, re.MULTILINE))
        for package, text in packages.items()
    }
    needed = {f"-r {name}"}
    while more := {p for p, why in because.items() if why & needed} - needed:
        needed |= more
    return "".join(text for package, text in packages.items() if package in needed)


if __name__ == "__main__":
    sys.stdout.write(part(LOCK.read_text(), Path(sys.argv[1]).name))
