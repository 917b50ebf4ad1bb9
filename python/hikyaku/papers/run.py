# SPDX-License-Identifier: BSD-3-Clause
"""Measures what figures need: each measurement is a command of hikyaku, in a process of its own.

A measurement leaves a file with the command, the commit and the results, or the reason why there
are none. With `resume`, a file of the same command and commit takes the place of a new run. A
failed one does not, and neither does one of another commit: the page has no old values.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..checkout import ROOT
from . import Figure
from .figure import Measurement

STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")  # what a benchmark prints for each step
SAID = 2000  # characters of a failure's output

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Result:
    """@document: what the command saved; None: it failed, and @failure says why."""

    command: list[str]
    commit: str | None
    seconds: float
    document: dict | None
    failure: str = ""


def needed(figures: Iterable[Figure]) -> list[Measurement]:
    """The measurements of @figures, each once, in their order."""
    found = {f.measurement.name: f.measurement for f in figures if f.measurement}
    return list(found.values())


def measure(
    figures: list[Figure],
    directory: Path,
    progress: Progress,
    *,
    commit: str | None,
    quick: bool,
    resume: bool,
) -> dict[str, Result]:
    """The results by name. Each is saved in @directory at once, so an interrupted run can go on.
    @commit: the one of this run."""
    directory.mkdir(parents=True, exist_ok=True)
    todo = needed(figures)
    results = {}
    for done, each in enumerate(todo):
        argv, path = each.argv(quick), directory / f"{each.name}.json"
        found = load(path) if resume else None
        if not found or (found.command, found.commit) != (argv, commit) or not found.document:

            def step(text: str, done: int = done) -> None:
                progress(text, done, len(todo))

            step(f"hikyaku {' '.join(argv)}")
            path.unlink(missing_ok=True)
            found = _run(argv, commit, directory, step)
            path.write_text(json.dumps(asdict(found)) + "\n")
        results[each.name] = found
    progress("done", len(todo), len(todo))
    return results


def load(path: Path) -> Result | None:
    """A measurement that was saved; None: there is none, or it is damaged."""
    try:
        return Result(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _run(
    argv: list[str], commit: str | None, directory: Path, step: Callable[[str], None]
) -> Result:
    """Runs a benchmark that saves its results by --json."""
    out = directory / f"running-{os.getpid()}.json"
    started = time.monotonic()
    try:
        status, said = _said([str(ROOT / "hikyaku"), *argv, "--json", str(out)], step)
        document = json.loads(out.read_text()) if status == 0 else None
    except (OSError, ValueError) as why:
        document, said = None, str(why)
    finally:
        out.unlink(missing_ok=True)
    seconds = round(time.monotonic() - started, 1)
    failure = "" if document else said.strip()[-SAID:] or "it failed, and printed no reason"
    return Result(argv, commit, seconds, document, failure)


def _said(argv: list[str], step: Callable[[str], None]) -> tuple[int, str]:
    """The exit status of @argv, and its output without the lines that are steps."""
    said = []
    name = argv[2] if argv[1] == "bench" else argv[1]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as tool:
        try:
            for line in tool.stdout or ():
                if match := STEP.match(line):
                    step(f"{name}: {match[3]} ({match[1]} of {match[2]})")
                else:
                    said.append(line)
        except BaseException:  # Ctrl-C reaches the tool as well, and it cleans up
            tool.wait()
            raise
    return tool.returncode, "".join(said)
