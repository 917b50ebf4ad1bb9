# SPDX-License-Identifier: BSD-3-Clause
"""outcome.py: what became of a test of somebody else that ran as one job in a lab. Scripts import
it when they have put our package into sys.path."""

from collections.abc import Callable

from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult

PASSED = "passed"
SAID = 1500  # characters of a failed test's last lines


def outcome(job: Callable[[], RunResult], limit: float, says: str = "") -> str:
    """Runs @job. PASSED if it ends with status 0 and prints @says; else what was wrong. @limit: the
    job's, in seconds."""
    try:
        done = job()
    except HikyakuError as e:
        return f"did not end within {limit:g} s: {e.args[0]}"
    if done.returncode == 0 and says in done.stdout:
        return PASSED
    return f"status {done.returncode}\n{(done.stdout + done.stderr).strip()[-SAID:]}"
