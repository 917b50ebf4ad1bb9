# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/mpi: in which labs they run, limits and checks. The fixture `run` runs
them."""

import re
from dataclasses import replace

import pytest

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


PROGRAMS = [
    "p2p_modes",
    "p2p_match",
    "p2p_outstanding",
    "p2p_persistent",
    "p2p_random --rounds 10",
    "rma_random --rounds 8",
    "rma_passive",
    "datatypes",
    "coll_move",
    "coll_reduce",
    "coll_neighbor",
    "coll_inter",
    "comm_manage",
    "threads",
    "compute_gap --rounds 2",
    "dynamic --mode connect",
    "hand_over --rounds 10",
]

# wire, nodes, ranks per node
LABS = [
    ("memif", 2, 1),
    ("memif", 4, 1),
    ("veth", 2, 1),
    ("memif", 2, 2),
    ("veth", 2, 2),
    ("veth", 4, 1),
    ("udp", 2, 2),
]

FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"


def lab_id(value: tuple[str, int, int]) -> str:
    wire, nodes, ranks = value
    return f"{wire}-{nodes}x{ranks}"


def matrix(labs: list, all_program_labs: list, everywhere: set[str]) -> list:
    """Each program in each of @labs. Those not named by the other arguments are slow tests."""
    cases = []
    for lab in labs:
        for command in PROGRAMS:
            always = lab in all_program_labs or command.split()[0] in everywhere
            marks = [] if always else [pytest.mark.slow]
            name = command.replace(" --mode ", "-").replace(" --rounds ", "-")
            cases.append(pytest.param(lab, command, marks=marks, id=f"{lab_id(lab)}-{name}"))
    return cases


def assert_passed(result: RunResult, command: str) -> None:
    name = command.split(maxsplit=1)[0]
    assert result.returncode == 0, f"{command}: status {result.returncode}\n{result.stderr}"
    assert re.search(rf"^PASS {name} \(\d+ checks\)$", result.stdout, re.M), (
        f"{command}: no PASS line\n{result.stdout}\n{result.stderr}"
    )


def digests_of(result: RunResult) -> list[str]:
    assert_passed(result, "digest")
    found = re.findall(r"^DIGEST ([0-9a-f]{16})$", result.stdout, re.M)
    assert found, result.stdout
    return found


def digest_of(result: RunResult) -> str:
    (found,) = digests_of(result)
    return found


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
