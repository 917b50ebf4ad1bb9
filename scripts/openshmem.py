#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""openshmem.py: runs the tests of Sandia OpenSHMEM over the provider, in a lab.

DIR is a checkout of Sandia OpenSHMEM that is built with its tests (docs/libfabric.md, OpenSHMEM).
MPICH's mpiexec starts them, since the library knows its way to exchange addresses (PMI). TEST is a
part of a name, and chooses some. The ways are hikyaku, and tcp, libfabric's own provider.
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from hikyaku.errors import HikyakuError  # noqa: E402
from hikyaku.lab import Job, Lab  # noqa: E402

SETS = ("unit", "spec-example", "shmemx", "apps")
PROVIDERS = {"hikyaku": "hikyaku", "tcp": "tcp;ofi_rxm"}


def programs(tests: Path) -> list[Path]:
    """Each is beside its source."""
    files = [file for part in SETS for file in sorted((tests / part).iterdir())]
    return [f for f in files if f.is_file() and not f.suffix and os.access(f, os.X_OK)]


def ran(lab: Lab, program: Path, way: str, args: argparse.Namespace) -> str:
    """'passed', or what was wrong."""
    env = {"SHMEM_OFI_PROVIDER": PROVIDERS[way]}
    if args.faults and way == "hikyaku":
        env["FI_HIKYAKU_PORT"] = f"udp:addr=tcp0;faults={args.faults},seed=1"
    words = ["-np", str(args.ranks), str(program)]
    job = Job(words, mpi="mpich", tcp=way == "tcp", env=env, timeout=args.limit)
    try:
        done = lab.launch(job)
    except HikyakuError as e:
        return f"did not end within {args.limit:g} s: {e.args[0]}"
    if done.returncode == 0:
        return "passed"
    return f"status {done.returncode}\n{(done.stdout + done.stderr).strip()[-1500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ways", default="hikyaku", help="some of " + ",".join(PROVIDERS))
    parser.add_argument("--wire", choices=["memif", "udp"], default="memif")
    parser.add_argument("--faults", default="", help="of each UDP port, such as drop=0.05")
    parser.add_argument("--ranks", type=int, default=2, help="on two nodes")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one test")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_intermixed_args()
    ways = args.ways.split(",")
    if unknown := set(ways) - PROVIDERS.keys():
        parser.error(f"unknown ways: {', '.join(sorted(unknown))}; known: {', '.join(PROVIDERS)}")
    if args.faults and args.wire != "udp":
        parser.error("--faults needs --wire udp")
    tests = args.directory.resolve() / "modules/tests-sos/test"
    if not tests.is_dir() or not programs(tests):
        parser.error(f"{tests} has no programs; see docs/libfabric.md, OpenSHMEM")
    chosen = [p for p in programs(tests) if not args.tests or any(t in p.name for t in args.tests)]
    counts = {way: [0, 0] for way in ways}
    with Lab.up(2, args.wire, (args.ranks + 1) // 2, name="openshmem") as lab:
        for program in chosen:
            for way in ways * args.repeat:
                begin = time.monotonic()
                verdict = ran(lab, program, way, args)
                seconds = time.monotonic() - begin
                ok = verdict == "passed"
                counts[way][not ok] += 1
                name = program.relative_to(tests)
                print(f"{'passed' if ok else 'FAILED'} {way:8}{seconds:6.1f} s  {name}", flush=True)
                if not ok:
                    print("    " + verdict.replace("\n", "\n    "), flush=True)
    for way, (passed, failed) in counts.items():
        print(f"{way}: {passed} passed, {failed} failed")
    return 1 if any(failed for _, failed in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
