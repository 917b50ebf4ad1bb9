# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs in a lab over TCP, over tagged TCP and over Hikyaku, and compares their results.

All ways alternate. If a figure differs, the program runs over TCP once more. A figure that changes
by itself now and then is thus not taken for a fault.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..bench.common import machine
from ..bench.common.summary import summary
from ..errors import HikyakuError
from ..lab import Job, Lab, RunResult, down_dead, own_name
from .compare import Outcome, compare
from .program import Program

Progress = Callable[[str, int, int], None]

TCP, TAGGED, HIKYAKU = "tcp", "tcp, tagged", "hikyaku"
NODES = 2
LIMIT_S = 600.0
_CONTROLS = 2  # runs over TCP that say which figures are results
_MORE_CONTROLS = 3  # further ones, where something differs


@dataclass
class Ran:
    seconds: float
    text: str


def _once(lab: Lab, program: Program, way: str) -> Ran:
    with tempfile.TemporaryDirectory() as new:
        place = program.place or Path(new)
        for name, text in program.inputs.items():
            (place / name).write_text(text)
        argv = ["-np", str(program.ranks), "-wdir", str(place), *program.command]
        job = Job(argv, tcp=way != HIKYAKU, tag=way == TAGGED, timeout=LIMIT_S)
        done = lab.launch(job)
        _check(program, way, done)
        written = [(place / name).read_text(errors="replace") for name in program.outputs]
    return Ran(done.seconds, "\n".join([done.stdout, *written]))


def _check(program: Program, way: str, done: RunResult) -> None:
    if done.returncode:
        raise HikyakuError(
            f"{program.name} over {way} ended with status {done.returncode}:\n{done.said(1500)}"
        )


def _there(program: Program) -> bool:
    first = program.command[0]
    if program.place and "/" in first:
        return shutil.which(program.place / first) is not None
    return shutil.which(first) is not None


def try_program(lab: Lab, program: Program, repeats: int, say: Callable[[str], None]) -> dict:
    """The row of @program. @say: what runs now."""
    about = {"name": program.name, "ranks": program.ranks, "command": " ".join(program.command)}
    if not _there(program):
        fix = f"apt-get install {program.package}" if program.package else "build it"
        return {**about, "missing": f"{program.command[0]} is not there; fix: {fix}"}
    runs: dict[str, list[Ran]] = {way: [] for way in (TCP, TAGGED, HIKYAKU)}
    try:
        for repeat in range(repeats):
            for way, ran in runs.items():
                say(f"{program.name} over {way}, run {repeat + 1} of {repeats}")
                ran.append(_once(lab, program, way))
        tcp = [ran.text for ran in runs[TCP]]
        while len(tcp) < _CONTROLS:
            say(f"{program.name} over {TCP}, to know its results")
            tcp.append(_once(lab, program, TCP).text)

        def outcomes() -> dict[str, list[Outcome]]:
            return {
                way: [compare(tcp, ran.text, program.times) for ran in runs[way]]
                for way in (TAGGED, HIKYAKU)
            }

        found = outcomes()
        for _ in range(_MORE_CONTROLS):
            if not any(o.differences for each in found.values() for o in each):
                break
            say(f"{program.name} over {TCP} once more, since a figure differs")
            tcp.append(_once(lab, program, TCP).text)
            found = outcomes()
    except HikyakuError as bad:
        return {**about, "failed": str(bad)}
    return {
        **about,
        "seconds": {way: summary([ran.seconds for ran in each]) for way, each in runs.items()},
        "figures": min(o.figures for each in found.values() for o in each),
        "differences": {
            way: sorted({str(d) for o in each for d in o.differences})
            for way, each in found.items()
        },
    }


def differing(row: dict) -> int:
    """How many figures of @row are other than over TCP."""
    return sum(map(len, row.get("differences", {}).values()))


def run(programs: list[Program], repeats: int, progress: Progress) -> dict:
    """The document: a row for each of @programs."""
    about = machine.describe() | {"repeats": repeats}
    down_dead("bench")
    rows = []
    most = max(-(-program.ranks // NODES) for program in programs)
    with Lab.up(NODES, "memif", most, name=own_name("bench", "trials")) as lab:
        for at, program in enumerate(programs):
            rows.append(
                try_program(
                    lab, program, repeats, lambda text, at=at: progress(text, at, len(programs))
                )
            )
    return {"schema": 1, "machine": about, "rows": rows}
