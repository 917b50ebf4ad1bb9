#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpich_rma.py: runs MPICH's tests of one-sided communication with Open MPI, in a lab.

DIR is a checkout of MPICH; nothing in it is changed, and MPICH itself is not built. TEST is a part
of a name, and chooses some. The ways are:

  hikyaku   osc/hikyaku over the BTL
  rdma      Open MPI's osc/rdma over the BTL
  pt2pt     Open MPI's osc/pt2pt over the BTL
  tcp       Open MPI's osc/pt2pt over TCP
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from outcome import PASSED, outcome  # noqa: E402

from hikyaku.bench.rma.ways import WAYS, launch  # noqa: E402
from hikyaku.errors import HikyakuError  # noqa: E402
from hikyaku.lab import Lab  # noqa: E402
from hikyaku.lab.openmpi import with_faults  # noqa: E402

# As its configure script finds it on Linux.
CONFIG = """
#include <mpi.h>
#define STDC_HEADERS 1
#define HAVE_INTTYPES_H 1
#define HAVE_PTHREAD_H 1
#define HAVE_STDARG_H 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRING_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_UNISTD_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_SETENV 1
#define HAVE_USLEEP 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define HAVE_INT8_T 1
#define HAVE_INT16_T 1
#define HAVE_INT32_T 1
#define HAVE_INT64_T 1
#define HAVE_MPI_WIN_CREATE 1
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define THREAD_PACKAGE_POSIX 1
#define MTEST_HAVE_MIN_MPI_VERSION(major, minor) \\
    (MPI_VERSION > (major) || (MPI_VERSION == (major) && MPI_SUBVERSION >= (minor)))
"""


SUPPORT = ["mtest", "mtest_common", "mtest_thread", "dtypes"]


@dataclass(frozen=True)
class Test:
    name: str
    ranks: int
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.name, str(self.ranks), *self.arguments))


def listed(source: Path, most: int) -> list[Test]:
    """The tests of the list with at most @most ranks."""
    tests: dict[Test, None] = {}
    for line in (source / "rma/testlist.in").read_text().splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or int(words[1]) > most:
            continue
        arguments = tuple(w.removeprefix("arg=") for w in words[2:] if w.startswith("arg="))
        tests[Test(words[0], int(words[1]), arguments)] = None
    return list(tests)


class Programs:
    """Builds the programs of the tests."""

    def __init__(self, source: Path, out: Path):
        self._source, self._out = source, out
        self._makefile = (source / "rma/Makefile.am").read_text()
        # dtpools includes ../dtpoolsconf.h, so the compiler needs a directory below that file
        (out / "conf/include").mkdir(parents=True, exist_ok=True)
        for name in ("mpitestconf.h", "dtpoolsconf.h"):
            (out / "conf" / name).write_text(CONFIG)
        (out / "conf/mtest_mpix.h").write_text("")
        self._flags = ["-w", "-O1", "-DHAVE_MPITESTCONF", "-include", "mpitestconf.h"]
        self._flags += [f"-I{out / 'conf'}", f"-I{out / 'conf/include'}"]
        self._flags += [f"-I{source / d}" for d in ("include", "dtpools/include", "dtpools/src")]
        self._objects: list[str] = []

    def _mpicc(self, *words: str) -> str | None:
        """None, or the compiler's first error."""
        argv = ["mpicc", *self._flags, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        errors = [
            line for line in done.stderr.splitlines() if "error" in line or "undefined" in line
        ]
        return errors[0] if errors else done.stderr.strip()[-200:]

    def support(self) -> None:
        files = [self._source / "util" / f"{name}.c" for name in SUPPORT]
        files += (self._source / "dtpools/src").glob("*.c")
        for file in files:
            to = self._out / f"{file.stem}.o"
            error = None if to.exists() else self._mpicc("-c", str(file), "-o", str(to))
            if error:
                raise HikyakuError(f"{file}: {error}", "give another version of MPICH")
            self._objects.append(str(to))

    def _of(self, name: str, what: str) -> list[str]:
        found = re.search(rf"^{name}_{what}\s*=\s*(.*)$", self._makefile, re.MULTILINE)
        return found[1].split() if found else []

    def build(self, name: str) -> str | None:
        """Builds program @name; returns None, or an error."""
        files = [w for w in self._of(name, "SOURCES") if w.endswith(".c")] or [f"{name}.c"]
        flags = [w for w in self._of(name, "CPPFLAGS") if w.startswith("-D")]
        program = self.path(name)
        if program.exists():
            return None
        sources = [str(self._source / "rma" / file) for file in files]
        return self._mpicc(*flags, *sources, *self._objects, "-o", str(program), "-lm", "-lpthread")

    def path(self, name: str) -> Path:
        return self._out / name


def ran(lab: Lab, program: Path, test: Test, way: str, faults: str, limit: float) -> str:
    """PASSED, or what was wrong."""
    argv = [str(program), *test.arguments]
    if faults:
        argv = with_faults(faults, 1, argv)
    return outcome(
        lambda: launch(lab, way, test.ranks, argv, timeout=limit), limit, says="No Errors"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ways", default="hikyaku", help="some of " + ",".join(WAYS))
    parser.add_argument("--wire", default="memif")
    parser.add_argument("--faults", default="", help="of each port, such as drop=0.05")
    parser.add_argument("--ranks", type=int, default=4, help="tests with at most so many ranks")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one test")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_intermixed_args()
    ways = args.ways.split(",")
    if unknown := set(ways) - WAYS.keys():
        parser.error(f"unknown ways: {', '.join(sorted(unknown))}; known: {', '.join(WAYS)}")
    source = args.directory / "test/mpi"
    if not (source / "rma/testlist.in").exists():
        parser.error(f"{args.directory} has no test/mpi/rma; give a checkout of MPICH")
    tests = [
        test
        for test in listed(source, args.ranks)
        if not args.tests or any(part in str(test) for part in args.tests)
    ]
    programs = Programs(source, ROOT / "build/mpich-rma")
    programs.support()
    names = sorted({test.name for test in tests})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = dict(zip(names, pool.map(programs.build, names), strict=True))
    passed = dict.fromkeys(ways, 0)
    failed = dict.fromkeys(ways, 0)
    with Lab.up(2, args.wire, name="mpich-rma") as lab:
        for test in tests:
            if errors[test.name]:
                print(f"not built {test.name}: {errors[test.name]}", flush=True)
                continue
            for way in ways * args.repeat:
                begin = time.monotonic()
                said = ran(lab, programs.path(test.name), test, way, args.faults, args.limit)
                seconds = time.monotonic() - begin
                ok = said == PASSED
                passed[way] += ok
                failed[way] += not ok
                print(f"{'passed' if ok else 'FAILED'} {way:8}{seconds:6.1f} s  {test}", flush=True)
                if not ok:
                    print("    " + said.replace("\n", "\n    "), flush=True)
    for way in ways:
        print(f"{way}: {passed[way]} passed, {failed[way]} failed")
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
