#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py: everything that `make check` runs, and one line at the end.

Stages: linters, unit tests, the same under sanitizers, fuzzers for some inputs, integration in
the lab. A tool that is missing fails its stage; nothing is skipped silently. The last line is
`total: N passed, M failed`, and the exit status is 1 if anything failed.

    check.py [--build DIR] [--jobs N] [STAGE...]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Options:
    build: Path
    jobs: int


@dataclass
class Tally:
    """What a stage counted. A failure has a name, so that the summary can say it."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)  # passed when they were repeated

    def check(self, name: str, ok: bool) -> None:
        if ok:
            self.passed += 1
        else:
            self.failures.append(name)


def run(argv: list[str], *, limit: float, env: dict[str, str] | None = None) -> bool:
    """Runs a command of a stage in the checkout, its output to ours; True if it succeeded. It has
    a process group of its own, which is ended whole when its time is up or we are interrupted."""
    if shutil.which(argv[0]) is None:
        print(f"check: {argv[0]} is not installed; run scripts/install-deps", flush=True)
        return False
    child = subprocess.Popen(
        argv, cwd=ROOT, env={**os.environ, **(env or {})}, start_new_session=True
    )
    try:
        return child.wait(timeout=limit) == 0
    except subprocess.TimeoutExpired:
        print(f"check: '{' '.join(argv)}' did not end within {limit:g} s", flush=True)
        return False
    finally:
        if child.poll() is None:
            end(child)


def end(child: subprocess.Popen) -> None:
    """SIGTERM to the group, so that tests take their labs down, then SIGKILL."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=10)


def tracked(*patterns: str) -> list[str]:
    """Files of the checkout that git knows, or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    out = subprocess.run(
        listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return [name for name in sorted(set(out.split())) if (ROOT / name).is_file()]


def shell_scripts() -> list[str]:
    """Every tracked file that starts as a shell script does."""
    found = []
    for name in tracked():
        with (ROOT / name).open("rb") as text:
            if text.readline().rstrip() in (b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash"):
                found.append(name)
    return found


# ---- stages --------------------------------------------------------------------------------------


def lint(options: Options) -> Tally:
    tally = Tally()
    c_files = tracked("*.c", "*.h")
    ruff = str(ROOT / ".venv/bin/ruff")
    suppressions = ROOT / "scripts/cppcheck.suppressions"
    commands = {
        "clang-format": ["clang-format", "--dry-run", "-Werror", *c_files],
        "cppcheck": [
            "cppcheck",
            "--quiet",
            "--std=c11",
            "--error-exitcode=1",
            "--enable=warning,performance,portability",
            "--inline-suppr",
            f"--suppressions-list={suppressions}",
            f"-j{options.jobs}",
            "-I.",
            *[name for name in c_files if name.endswith(".c")],
        ],
        "ruff check": [ruff, "check", "."],
        "ruff format": [ruff, "format", "--check", "."],
        "shellcheck": ["shellcheck", *shell_scripts()],
    }
    for name, argv in commands.items():
        print(f"-- {name}", flush=True)
        tally.check(name, run(argv, limit=300))
    return tally


def configure(build: Path, *settings: str, env: dict[str, str] | None = None) -> bool:
    if (build / "build.ninja").exists():
        return True
    return run(["meson", "setup", str(build), *settings], limit=300, env=env)


def meson_tests(
    build: Path, options: Options, *, suite: str | None = None, env: dict[str, str] | None = None
) -> Tally:
    """Builds and runs the tests that meson knows, and reads what became of each."""
    tally = Tally()
    if not run(["ninja", "-C", str(build), "-j", str(options.jobs)], limit=900):
        tally.failures.append(f"build of {build.name}")
        return tally
    log = build / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    argv = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs"]
    argv += ["--suite", suite] if suite else []
    succeeded = run([*argv, "--num-processes", str(options.jobs)], limit=1200, env=env)
    for line in log.read_text().splitlines() if log.exists() else []:
        test = json.loads(line)
        if test["result"] == "SKIP":
            tally.skipped += 1
        else:
            tally.check(test["name"], test["result"] in ("OK", "EXPECTEDFAIL"))
    if not tally.failures and (not succeeded or tally.passed == 0):
        tally.failures.append(f"meson test in {build.name}")
    return tally


def unit(options: Options) -> Tally:
    return meson_tests(options.build, options)


def sanitize(options: Options) -> Tally:
    """The pure parts under AddressSanitizer and UBSan."""
    build = options.build.with_name(options.build.name + "-asan")
    settings = ["-Dpure=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
    if not configure(build, *settings):
        return Tally(failures=["configuration of the sanitizer build"])
    env = {
        "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    return meson_tests(build, options, env=env)


def fuzz(options: Options) -> Tally:
    """Each libFuzzer target for a bounded number of inputs, starting from its kept corpus
    (tests/fuzz/run.sh)."""
    build = options.build.with_name(options.build.name + "-fuzz")
    if not configure(build, "-Dpure=true", "-Dfuzz=true", "-Db_lundef=false", env={"CC": "clang"}):
        return Tally(failures=["configuration of the fuzzer build"])
    return meson_tests(build, options, suite="fuzz")


def pytest(options: Options, report: Path, *arguments: str, limit: float) -> Tally:
    report.unlink(missing_ok=True)
    argv = [str(ROOT / ".venv/bin/python"), "-m", "pytest", f"--junitxml={report}", *arguments]
    succeeded = run(argv, limit=limit, env={"HIKYAKU_BUILD": str(options.build)})
    tally = Tally()
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else []:
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("skipped") is not None:
            tally.skipped += 1
        else:
            tally.check(name, case.find("failure") is None and case.find("error") is None)
    if not succeeded and not tally.failures:
        tally.failures.append("pytest")
    return tally


MOST_REPEATED = 5  # files: the tests of one share a lab, and fail together if that does not come up


def integration(options: Options) -> Tally:
    """Real mpirun in real labs; needs root. Labs of up to eight nodes share two cores, and others
    who use the machine stop one for seconds: what fails is repeated once, if it is little, and
    named in the summary also when it then passes. Who is named there twice has a defect."""
    if os.geteuid() != 0:
        print("check: labs are network namespaces: run 'make check' as root", flush=True)
        return Tally(failures=["integration tests (not root)"])
    tally = pytest(options, options.build / "integration.xml", limit=3600)
    files = {name.partition("::")[0] for name in tally.failures}
    if not files or len(files) > MOST_REPEATED or "pytest" in files:
        return tally
    print(f"-- {len(tally.failures)} failed and are repeated once", flush=True)
    again = pytest(options, options.build / "repeated.xml", "--last-failed", limit=900)
    tally.second = [name for name in tally.failures if name not in again.failures]
    tally.passed += len(tally.second)
    tally.failures = again.failures
    return tally


STAGES: dict[str, Callable[[Options], Tally]] = {
    "lint": lint,
    "unit": unit,
    "sanitize": sanitize,
    "fuzz": fuzz,
    "integration": integration,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs every test; see the top of this file.")
    parser.add_argument("--build", default="build", help="build directory [build]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)} [all]")
    given = parser.parse_args()
    for name in given.stages:
        if name not in STAGES:
            parser.error(f"there is no stage '{name}'; stages are {', '.join(STAGES)}")
    options = Options((ROOT / given.build).resolve(), given.jobs)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tallies: dict[str, Tally] = {}
    for name in given.stages or STAGES:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        tally = tallies[name] = STAGES[name](options)
        print(
            f"== {name}: {tally.passed} passed, {len(tally.failures)} failed, "
            f"{tally.skipped} skipped, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    print()
    for name, tally in tallies.items():
        for repeated in tally.second:
            print(f"passed in {name} at the second attempt only: {repeated}")
        for failure in tally.failures:
            print(f"failed in {name}: {failure}")
    passed = sum(t.passed for t in tallies.values())
    failed = sum(len(t.failures) for t in tallies.values())
    print(f"total: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("check: interrupted", file=sys.stderr)
        sys.exit(130)
