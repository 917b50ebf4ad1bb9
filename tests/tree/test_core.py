# SPDX-License-Identifier: BSD-3-Clause
"""tests/core.txt: each test that `make quick` runs exists."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_named_test_exists():
    lines = (ROOT / "tests/core.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", *names]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
