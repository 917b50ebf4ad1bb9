# SPDX-License-Identifier: BSD-3-Clause
"""The machine of a benchmark: enough to know which figures may be compared."""

import os
import platform
import subprocess
import time
from pathlib import Path

from ... import __version__
from ...checkout import ROOT
from .busy import state


def first_line(argv: list[str]) -> str | None:
    """The first line that a program prints; None if it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=20, check=False, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def open_mpi_version() -> str | None:
    line = first_line(["mpirun", "--version"])
    return line.rpartition(" ")[2] if line else None


def describe() -> dict:
    commit = first_line(["git", "rev-parse", "--short=12", "HEAD"])
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return {
        "cpu": _cpu(),
        "memory_MB": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "os": platform.freedesktop_os_release()["PRETTY_NAME"],
        "kernel": platform.release(),
        "open_mpi": open_mpi_version(),
        "dpdk": first_line(["pkg-config", "--modversion", "libdpdk"]),
        "hikyaku": __version__,
        "commit": commit and commit + ("+changes" if changed else ""),
        **state(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
