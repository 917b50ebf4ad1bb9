#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""openshmem.py: runs the tests of Sandia OpenSHMEM over the provider, in a lab.

DIR is a checkout of Sandia OpenSHMEM that is built with its tests (docs/libfabric.md, OpenSHMEM).
MPICH's mpiexec starts them, since the library knows its way to exchange addresses (PMI). TEST is a
part of a name, and chooses some.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from outcome import PASSED, outcome  # noqa: E402

from hikyaku.lab import Job, Lab  # noqa: E402

SETS = ("unit", "spec-example", "shmemx", "apps")
# The test reads what was put before a signal, without a fence between the two.
UNORDERED = {"signal_set"}


def programs(tests: Path) -> list[Path]:
    """Each is beside its source."""
    files = [file for part in SETS for file in sorted((tests / part).iterdir())]
    return [f for f in files if f.is_file() and not f.suffix and os.access(f, os.X_OK)]


def ran(lab: Lab, program: Path, args: argparse.Namespace) -> str:
    """PASSED, or what was wrong."""
    env = {"SHMEM_OFI_PROVIDER": "hikyaku"}
    if args.faults:
        env["FI_HIKYAKU_PORT"] = f"udp:addr=tcp0;faults={args.faults},seed=1"
    words = ["-np", str(args.ranks), str(program)]
    job = Job(words, mpi="mpich", env=env, timeout=args.limit)
    return outcome(lambda: lab.launch(job), args.limit)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--wire", choices=["memif", "udp"], default="memif")
    parser.add_argument("--faults", default="", help="of each UDP port, such as drop=0.05")
    parser.add_argument("--ranks", type=int, default=2, help="on two nodes")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one test")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_intermixed_args()
    if args.faults and args.wire != "udp":
        parser.error("--faults needs --wire udp")
    tests = args.directory.resolve() / "modules/tests-sos/test"
    if not tests.is_dir() or not programs(tests):
        parser.error(f"{tests} has no programs; see docs/libfabric.md, OpenSHMEM")
    chosen = [p for p in programs(tests) if not args.tests or any(t in p.name for t in args.tests)]
    counts: dict[str, int] = {}
    with (
        # a program that crashes leaves a trace where it runs
        tempfile.TemporaryDirectory(prefix="hk-openshmem-") as scratch,
        contextlib.chdir(scratch),
        Lab.up(2, args.wire, (args.ranks + 1) // 2, name="openshmem") as lab,
    ):
        for program in chosen * args.repeat:
            begin = time.monotonic()
            said = ran(lab, program, args)
            seconds = time.monotonic() - begin
            bad = "unordered" if program.name in UNORDERED else "FAILED"
            kind = PASSED if said == PASSED else bad
            counts[kind] = counts.get(kind, 0) + 1
            print(f"{kind:10}{seconds:6.1f} s  {program.relative_to(tests)}", flush=True)
            if kind == "FAILED":
                print("    " + said.replace("\n", "\n    "), flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    return 1 if counts.get("FAILED") else 0


if __name__ == "__main__":
    sys.exit(main())
