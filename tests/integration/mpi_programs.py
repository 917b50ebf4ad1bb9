# SPDX-License-Identifier: BSD-3-Clause
"""Limits and checks for the programs of tests/mpi. The fixture `run` runs these programs."""

import re
from dataclasses import replace

from hikyaku.lab import RunResult
from hikyaku.lab.openmpi import promoter_settings

# Over shared loopback TCP each program takes one or two seconds, so the limit is for a hang. The
# program's own watchdog expires earlier, and reports for which operation each rank waits.
WATCHDOG_S = 100
LIMIT_S = 130

HUGE_MB = 192  # huge pages for each rank of a node

# These start MPI with MPI_THREAD_MULTIPLE, the other programs with MPI_THREAD_SINGLE.
THREADED = {"first_contact", "rma_threads", "threads"}
THEN = " + "  # between programs of one job


def lab_id(value: tuple[str, int, int]) -> str:
    wire, nodes, ranks = value
    return f"{wire}-{nodes}x{ranks}"


def assert_passed(result: RunResult, command: str) -> None:
    name = command.split(maxsplit=1)[0]
    assert result.returncode == 0, f"{command}: status {result.returncode}\n{result.stderr}"
    assert re.search(rf"^PASS {name} \(\d+ checks\)$", result.stdout, re.M), (
        f"{command}: no PASS line\n{result.stdout}\n{result.stderr}"
    )


def results_of_each(result: RunResult, commands: list[str]) -> list[RunResult]:
    """Splits @result of a job that ran @commands one after the other. The list ends with the first
    one that failed, since those behind it did not run."""
    each = []
    start = 0
    for command in commands:
        passed = re.compile(r"^PASS .*\n", re.M).search(result.stdout, start)
        if not passed or command is commands[-1]:
            job = f"in the job '{THEN.join(commands)}':\n"
            each.append(replace(result, stdout=result.stdout[start:], stderr=job + result.stderr))
            break
        each.append(replace(result, returncode=0, stdout=result.stdout[start : passed.end()]))
        start = passed.end()
    return each


def preloaded(argv: list[str], **variables: str) -> list[str]:
    settings = promoter_settings() | {"HK_HALO_REPORT": "1"} | variables
    return ["env", *(f"{name}={value}" for name, value in settings.items()), *argv]


def counters(stderr: str, name: str) -> list[int]:
    """Of each rank that prints it (btl_hikyaku_verbose 5)."""
    return [int(n) for n in re.findall(rf"hikyaku: {name} (\d+)", stderr)]
