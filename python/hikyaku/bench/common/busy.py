# SPDX-License-Identifier: BSD-3-Clause
"""Whether other work kept the machine busy when a benchmark began, and the words that say so.

The two sides of a comparison run at different moments. Other work slows one and not the other, so a
ratio suffers as much as a time. Tables, goals and plots all ask here.

The load average looks back a minute: it is high just after a build, when nothing runs any more. So
a machine counts as busy only if CPUs were also in use at the start itself. Work that comes and goes
may rest in one sample, so there are several where the load is high.
"""

import os
import shlex
import sys
import time
from pathlib import Path

from rich.console import Console

from ...called import as_typed

SAMPLE_S = 0.3
SAMPLES = 5
MOST_SHARE = 0.25  # of all CPU time during the sample


def _cpu_ticks() -> tuple[int, int]:
    """Ticks that all CPUs spent idle, and all their ticks."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _cpu_share() -> float:
    """The share of all CPU time that was in use during a sample."""
    idle, total = _cpu_ticks()
    time.sleep(SAMPLE_S)
    idle_later, total_later = _cpu_ticks()
    return 1 - (idle_later - idle) / max(total_later - total, 1)


def _loaded(about: dict) -> bool:
    return about["load_at_start"] > about["cores"] / 2


def state() -> dict[str, float]:
    """The members of a benchmark's machine by which busy() decides."""
    about = {
        "cores": len(os.sched_getaffinity(0)),
        "load_at_start": round(os.getloadavg()[0], 2),
    }
    share = max(_cpu_share() for _ in range(SAMPLES if _loaded(about) else 1))
    return about | {"cpu_share_at_start": round(share, 2)}


def busy(about: dict) -> bool:
    """@about: the machine of a document. Documents from before 2026-11-27 have no CPU share."""
    return _loaded(about) and about.get("cpu_share_at_start", 1) > MOST_SHARE


def note(about: dict) -> str:
    """The note of a plot; empty if the machine was quiet."""
    if not busy(about):
        return ""
    return f"busy machine (load {about['load_at_start']:.0f}): do not trust times or ratios"


def warn_if_busy(about: dict, console: Console) -> None:
    if busy(about):
        command = as_typed(f"hikyaku {shlex.join(sys.argv[1:])}")
        console.print(
            f"[yellow]The machine was busy with other work (load {about['load_at_start']}): do not "
            "trust times or ratios; run it again on a quiet machine:[/]"
        )
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
