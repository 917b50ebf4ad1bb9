# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program, and checks how it ends."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

# The start of a command line whose processes poll. Commands beside it get most of the core.
BEHIND = ("nice", "-n", "10")


def execute(
    argv: Sequence[str | Path], *, code: int | None = 0, timeout: float = 60, **more: object
) -> subprocess.CompletedProcess[str]:
    """Runs @argv, and returns its output and its exit status, which must be @code; None: any."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout, check=False, **more
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done
