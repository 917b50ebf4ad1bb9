# SPDX-License-Identifier: BSD-3-Clause
"""Builds two commits and runs `bench mpi` of each in turn.

Each commit gets a work tree and a build of its own below the build directory. They are kept, so
the next comparison with that commit starts at once. Each commit's own command line runs the
benchmark, so commits with other names inside can be compared.
"""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ...checkout import INSTALLED, ROOT, build_dir
from ...errors import HikyakuError
from ...process import option_words
from ...process import run as call
from ..common.machine import describe

BUILD_S = 1800
RUN_S = 600


@dataclass
class Plan:
    revisions: tuple[str, str]
    rounds: int
    sizes: str
    metrics: str
    wire: str
    sample_ms: int


@dataclass
class Series:
    """The samples of one metric and size, by revision in the order of the plan."""

    metric: str
    size: int
    samples: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _limited(argv: list[str], where: Path, limit: float, env: dict[str, str]) -> None:
    """Runs a program of a commit; its output follows only if it fails."""
    done = subprocess.run(
        argv,
        cwd=where,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise HikyakuError(f"'{' '.join(argv)}' failed in {where}:\n{tail}")


def find(revision: str) -> str:
    """The commit of @revision."""
    try:
        commit = call(["git", "-C", str(ROOT), "rev-parse", "--verify", f"{revision}^{{commit}}"])
    except HikyakuError:
        raise HikyakuError(
            f"there is no revision '{revision}' here",
            f"use one of these: git -C {shlex.quote(str(ROOT))} log --oneline",
        ) from None
    return commit.strip()


def checkout(revision: str, commit: str) -> Path:
    """The work tree of @commit, which the user calls @revision, built."""
    place = build_dir() / "compare" / commit[:12]
    if not place.exists():
        argv = ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(place), commit]
        call(argv, timeout=120)
    venv = place / ".venv"
    if not venv.exists():
        venv.symlink_to(ROOT / ".venv")
    _say(f"building {revision} in {place}")
    if not (place / "build/build.ninja").exists():
        _limited(["meson", "setup", "build"], place, BUILD_S, {})
    _limited(["ninja", "-C", "build"], place, BUILD_S, {})
    return place


def _sample(place: Path, plan: Plan, out: Path) -> list[dict]:
    """One run of the benchmark by the commit in @place: its rows that have a sample."""
    options = option_words(
        transports="hikyaku",
        repeats=1,
        sizes=plan.sizes,
        metrics=plan.metrics,
        wire=plan.wire,
        sample_ms=plan.sample_ms,
        json=out,
    )
    _limited(["./hikyaku", "bench", "mpi", *options], place, RUN_S, {"HIKYAKU_BUILD": "build"})
    return [row for row in json.loads(out.read_text())["rows"] if row["hikyaku"]]


def compare(plan: Plan) -> dict:
    """Runs the plan. The commit that begins changes from round to round."""
    if INSTALLED:
        raise HikyakuError("commits are compared in a checkout", "run this in a git checkout")
    commits = [find(revision) for revision in plan.revisions]
    places = [checkout(*each) for each in zip(plan.revisions, commits, strict=True)]
    by: dict[tuple[str, int], Series] = {}
    out = build_dir() / "compare" / f"sample-{os.getpid()}.json"
    try:
        for turn in range(plan.rounds):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                _say(f"round {turn + 1} of {plan.rounds}: {plan.revisions[which]}")
                for row in _sample(places[which], plan, out):
                    key = (row["metric"], row["size"])
                    series = by.setdefault(key, Series(*key))
                    series.samples[which].append(row["hikyaku"]["median"])
    finally:
        out.unlink(missing_ok=True)
    return {
        "schema": 1,
        "machine": describe(),
        "wire": plan.wire,
        "revisions": list(plan.revisions),
        "rows": [
            {"metric": s.metric, "size": s.size, "samples": list(map(list, s.samples))}
            for s in by.values()
        ],
    }
