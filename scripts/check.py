#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py: everything that `make check` runs, and one line at the end.

    check.py [--build DIR] [--jobs N] [--quick | STAGE...]

| stage    | what it does                                           | runs               |
|----------|--------------------------------------------------------|--------------------|
| lint     | linters                                                | beside the first   |
| builds   | builds the trees of fuzz and sanitize                  | beside the first   |
| fuzz     | runs each fuzzer for a number of inputs                | beside the first   |
| arm64    | tests of the parts that need no device, on ARM64       | beside the first   |
| unit     | unit tests                                             | first              |
| pairs    | tests of Python and in labs, three at a time           | first              |
| sanitize | unit tests of the pure parts under ASan and UBSan      | after all of these |
| one_core | tests in labs whose ranks poll, one on each core       | after sanitize     |
| alone    | tests in labs whose ranks need all cores               | last               |
| core     | the tests that tests/core.txt names                    | with --quick       |

Stages beside the first get the processor time that these leave over (SCHED_IDLE, sched(7)).
--quick runs lint beside unit and core. A tool that is missing fails its stage; nothing is skipped
silently. The last line is `total: N passed, M failed`, and the exit status is 1 if anything failed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = (".", "include", "src", "systems", "plugins", "tools")  # as in meson.build
# Tests start hundreds of commands of ours. Each would compile our package again, where the
# environment forbids Python to keep what it compiles.
KEPT = {"PYTHONDONTWRITEBYTECODE": ""}
HANG_S = 400  # the slowest test of Python takes 30 s, and five times as long on a busy machine


@dataclass
class Tally:
    """The counts of a stage. A failure has a name, so that the summary can say it."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, name: str, ok: bool) -> None:
        if ok:
            self.passed += 1
        else:
            self.failures.append(name)


# ---- commands of stages --------------------------------------------------------------------------


class Commands:
    """Commands that run now, so that all of them end when we do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def start(self, argv: list[str], env: dict[str, str], out: IO[str] | None) -> subprocess.Popen:
        """Starts a command in the checkout, in a process group of its own. It stays in our session:
        the kernel shares the processor among sessions first (autogroup, sched(7)). The idle class
        of one session would count for nothing against another."""
        with self._lock:
            if self._stopped:
                raise InterruptedError("check.py ends")
            child = subprocess.Popen(
                argv,
                cwd=ROOT,
                env={**os.environ, **KEPT, **env},
                process_group=0,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            self._running.add(child)
            return child

    def end(self, child: subprocess.Popen) -> None:
        """SIGTERM to the group, so that tests take their labs down, then SIGKILL. Nothing is sent
        to one that has ended."""
        with self._lock:
            self._running.discard(child)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(timeout=10)

    def stop(self) -> None:
        """Ends all commands, and refuses new ones."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for child in running:
            self.end(child)


@dataclass
class Options:
    """How a stage runs."""

    build: Path
    jobs: int
    commands: Commands
    log: IO[str] | None = None  # of a stage beside others: what it prints, shown at its end

    def say(self, text: str) -> None:
        print(text, file=self.log, flush=True)

    def run(self, argv: list[str], *, limit: float, env: dict[str, str] | None = None) -> bool:
        """Runs a command; True if it succeeded. One of a stage beside others has no limit, since
        the others decide how fast it is."""
        if shutil.which(argv[0]) is None:
            self.say(f"check: {argv[0]} is not installed; run scripts/install-deps")
            return False
        idle = ["chrt", "--idle", "0"] if self.log else []
        child = self.commands.start([*idle, *argv], env or {}, self.log)
        try:
            return child.wait(timeout=None if self.log else limit) == 0
        except subprocess.TimeoutExpired:
            self.say(f"check: '{' '.join(argv)}' did not end within {limit:g} s")
            return False
        finally:
            self.commands.end(child)


# ---- stages --------------------------------------------------------------------------------------


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


def lint(options: Options) -> Tally:
    tally = Tally()
    c_files = tracked("*.c", "*.h")
    formatted = c_files + tracked("*.cc")
    ruff = str(ROOT / ".venv/bin/ruff")
    suppressions = ROOT / "scripts/cppcheck.suppressions"
    commands = {
        "clang-format": ["clang-format", "--dry-run", "-Werror", *formatted],
        "cppcheck": [
            "cppcheck",
            "--quiet",
            "--std=c11",
            "--error-exitcode=1",
            "--enable=warning,performance,portability",
            "--inline-suppr",
            f"--suppressions-list={suppressions}",
            f"-j{options.jobs}",
            *(f"-I{part}" for part in INCLUDE),
            *[name for name in c_files if name.endswith(".c")],
        ],
        "ruff check": [ruff, "check", "."],
        "ruff format": [ruff, "format", "--check", "."],
        "shellcheck": ["shellcheck", *shell_scripts()],
        "prose": [str(ROOT / ".venv/bin/python"), "scripts/prose.py"],
    }
    for name, argv in commands.items():
        options.say(f"-- {name}")
        tally.check(name, options.run(argv, limit=300))
    return tally


def build_tree(options: Options, build: Path, suite: str | None = None) -> bool:
    """Builds all, or what the tests of @suite run."""
    argv = ["ninja", "-C", str(build), "-j", str(options.jobs)]
    return options.run(argv + (programs(build, suite) if suite else []), limit=900)


def programs(build: Path, suite: str) -> list[str]:
    """The files that the tests of @suite in a configured tree depend on (meson introspect)."""
    tests = json.loads((build / "meson-info/intro-tests.json").read_text())
    targets = json.loads((build / "meson-info/intro-targets.json").read_text())
    suites = {suite, f"hikyaku:{suite}"}
    needed = {each for test in tests if suites & set(test["suite"]) for each in test["depends"]}
    files = [name for target in targets if target["id"] in needed for name in target["filename"]]
    return [str(Path(name).relative_to(build)) for name in files]


def meson_tests(
    options: Options, build: Path, *, suite: str | None = None, env: dict[str, str] | None = None
) -> Tally:
    """Builds and runs the tests that meson knows, and reads what became of each."""
    tally = Tally()
    if not build_tree(options, build, suite):
        tally.failures.append(f"build of {build.name}")
        return tally
    log = build / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    argv = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs"]
    argv += ["--suite", suite] if suite else []
    # limits are for tests that have the processor
    argv += ["--timeout-multiplier", "10"] if options.log else []
    succeeded = options.run([*argv, "--num-processes", str(options.jobs)], limit=1200, env=env)
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
    return meson_tests(options, options.build)


@dataclass(frozen=True)
class Tree:
    """A build beside the plain one."""

    suffix: str
    settings: list[str]
    suite: str | None = None  # of tests; None: all
    env: dict[str, str] = field(default_factory=dict)

    def path(self, options: Options) -> Path:
        return options.build.with_name(options.build.name + self.suffix)

    def configure(self, options: Options) -> bool:
        build = self.path(options)
        if (build / "build.ninja").exists():
            return True
        argv = ["meson", "setup", str(build), "-Dpure=true", "-Db_lundef=false", *self.settings]
        return options.run(argv, limit=300, env=self.env)


# It compiles in half the time of the plain build's optimisation, and its tests take 7 % longer. The
# sanitizers name lines, for which -g1 is enough.
ASAN = Tree("-asan", ["-Db_sanitize=address,undefined", "-Doptimization=1", "-Dc_args=-g1"])
FUZZ = Tree("-fuzz", ["-Dfuzz=true"], "fuzz", {"CC": "clang"})
ARM64 = Tree(
    "-arm64", [f"--cross-file={ROOT / 'scripts/arm64.ini'}", "-Doptimization=1"], suite="arm64"
)


def builds(options: Options) -> Tally:
    tally = Tally()
    for tree in (ASAN, FUZZ):
        path = tree.path(options)
        built = tree.configure(options) and build_tree(options, path, tree.suite)
        tally.check(f"build of {path.name}", built)
    return tally


def fuzz(options: Options) -> Tally:
    """Each libFuzzer target for a bounded number of inputs, starting from its kept corpus
    (tests/fuzz/run.sh)."""
    if not FUZZ.configure(options):
        return Tally(failures=["configuration of the fuzzer build"])
    return meson_tests(options, FUZZ.path(options), suite=FUZZ.suite)


def arm64(options: Options) -> Tally:
    """Tests of the parts that need no device, on QEMU's ARM64."""
    if not ARM64.configure(options):
        return Tally(failures=["configuration of the build for ARM64"])
    return meson_tests(options, ARM64.path(options), suite=ARM64.suite)


def sanitize(options: Options) -> Tally:
    """The pure parts under AddressSanitizer and UBSan."""
    if not ASAN.configure(options):
        return Tally(failures=["configuration of the sanitizer build"])
    env = {
        "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    return meson_tests(options, ASAN.path(options), env=env)


def pytest(options: Options, name: str, *arguments: str) -> Tally:
    """Runs tests of Python; needs root. @name is for the report."""
    if os.geteuid() != 0:
        options.say("check: labs are network namespaces: run 'make check' as root")
        return Tally(failures=["tests in labs (not root)"])
    report = options.build / f"{name}.xml"
    report.unlink(missing_ok=True)
    argv = [
        str(ROOT / ".venv/bin/python"),
        "-m",
        "pytest",
        f"--junitxml={report}",
        "--durations=20",
        # A test that hangs ends the run, which names it and the line of each thread.
        f"--override-ini=faulthandler_timeout={HANG_S}",
        "--override-ini=faulthandler_exit_on_timeout=true",
    ]
    argv += arguments
    # Threads of numpy spin while they wait for each other, and other tests have the other core.
    env = {"HIKYAKU_BUILD": str(options.build), "OPENBLAS_NUM_THREADS": "1"}
    succeeded = options.run(argv, limit=3600, env=env)
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


def workers(count: int) -> list[str]:
    """Options for @count workers of pytest-xdist. Tests of a file share labs, so one worker has
    them. Files with most tests come first: the last ones are then short, and the workers end at
    about the same time."""
    return [
        *("-n", str(count), "--dist", "loadfile"),
        "--max-worker-restart=0",  # else a test that hangs does so in each worker that follows
    ]


def pairs(options: Options) -> Tally:
    """Tests that mostly wait, so one more than the cores."""
    count = min(options.jobs, 2) + 1
    # files with guests first (conftest.py)
    order = [*workers(count), "--no-loadscope-reorder"]
    return pytest(options, "pairs", *order, "-m", "not alone and not one_core")


def marked(mark: str) -> list[str]:
    """The files of tests in whose text @mark is, which conftest.py makes sure of. To import all
    files would take each worker seven seconds."""
    files = tracked("tests/*/test_*.py")
    return [name for name in files if f"pytest.mark.{mark}" in (ROOT / name).read_text()]


def one_core(options: Options) -> Tally:
    """Tests whose ranks poll, and yield to each other on one core. Beside other work they would
    take ten times as long: a rank that yields waits until the slice of another process ends."""
    return pytest(
        options,
        "one_core",
        *workers(min(options.jobs, 2)),
        "--core-each",
        *("-m", "one_core and not alone"),
        *marked("one_core"),
    )


def alone(options: Options) -> Tally:
    """Tests whose ranks need a core each, since they measure, or a silent rank is given up soon."""
    return pytest(options, "alone", "-m", "alone", *marked("alone"))


def core(options: Options) -> Tally:
    """Some tests of each part, one at a time."""
    lines = (ROOT / "tests/core.txt").read_text().splitlines()
    return pytest(options, "core", *(line for line in lines if not line.startswith("#")))


Stage = Callable[[Options], Tally]
BESIDE: dict[str, Stage] = {"lint": lint, "builds": builds, "fuzz": fuzz, "arm64": arm64}
FIRST: dict[str, Stage] = {"unit": unit, "pairs": pairs}
LAST: dict[str, Stage] = {"sanitize": sanitize, "one_core": one_core, "alone": alone}
QUICK_BESIDE: dict[str, Stage] = {"lint": lint}
QUICK: dict[str, Stage] = {"unit": unit, "core": core}
STAGES = BESIDE | FIRST | LAST | QUICK


# ---- all of them ---------------------------------------------------------------------------------


def run_stages(stages: dict[str, Stage], options: Options) -> dict[str, Tally]:
    tallies = {}
    for name, stage in stages.items():
        options.say(f"== {name}")
        start = time.monotonic()
        tally = tallies[name] = stage(options)
        options.say(
            f"== {name}: {tally.passed} passed, {len(tally.failures)} failed, "
            f"{tally.skipped} skipped, {time.monotonic() - start:.0f} s"
        )
    return tallies


class Beside(threading.Thread):
    """Stages that run beside others; end() waits for them, and prints what they did."""

    def __init__(self, stages: dict[str, Stage], options: Options):
        super().__init__(daemon=True)
        self.stages = stages
        self.path = options.build / "check-beside.log"
        self.options = Options(
            options.build, options.jobs, options.commands, log=self.path.open("w")
        )
        self.tallies: dict[str, Tally] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.tallies = run_stages(self.stages, self.options)
        except BaseException as failure:  # end() raises it in the thread that waits
            self.failure = failure

    def end(self) -> dict[str, Tally]:
        self.join()
        self.options.log.close()
        print(self.path.read_text(), end="", flush=True)
        if self.failure:
            raise self.failure
        return self.tallies


def run_beside(
    beside: dict[str, Stage], first: dict[str, Stage], last: dict[str, Stage], options: Options
) -> dict[str, Tally]:
    """Runs @first with @beside beside them, then @last."""
    others = Beside(beside, options)
    others.start()
    tallies = run_stages(first, options)
    return tallies | others.end() | run_stages(last, options)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs every test; see the top of this file.")
    parser.add_argument("--build", default="build", help="build directory [build]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--quick", action="store_true", help="lint, unit, core")
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)} [all but core]"
    )
    given = parser.parse_args()
    for name in given.stages:
        if name not in STAGES:
            parser.error(f"there is no stage '{name}'; stages are {', '.join(STAGES)}")
    commands = Commands()
    options = Options((ROOT / given.build).resolve(), given.jobs, commands)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    try:
        if given.stages:
            tallies = run_stages({name: STAGES[name] for name in given.stages}, options)
        elif given.quick:
            tallies = run_beside(QUICK_BESIDE, QUICK, {}, options)
        else:
            tallies = run_beside(BESIDE, FIRST, LAST, options)
    finally:
        commands.stop()
    print()
    for name, tally in tallies.items():
        for failure in tally.failures:
            print(f"failed in {name}: {failure}")
    passed = sum(t.passed for t in tallies.values())
    failed = sum(len(t.failures) for t in tallies.values())
    print(f"stages took {time.monotonic() - start:.0f} s")
    print(f"total: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("check: interrupted", file=sys.stderr)
        sys.exit(130)
