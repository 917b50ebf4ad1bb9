# SPDX-License-Identifier: BSD-3-Clause
"""The part of requirements.txt that `make demo` installs."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def names(text: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)(?:==.*)?$", text, re.MULTILINE))


def test_a_part_has_what_its_packages_need_and_no_more():
    argv = [str(ROOT / "scripts/locked.py"), "requirements-demo.in"]
    part = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
    asked = names((ROOT / "requirements-demo.in").read_text())
    assert {"click", "matplotlib"} <= asked
    assert asked | {"contourpy", "mdurl"} <= names(part)  # mdurl: of markdown-it-py, of rich
    assert not {"aiohttp", "mpi4py"} & names(part)
    assert len(re.findall("--hash=", part)) >= len(names(part))
