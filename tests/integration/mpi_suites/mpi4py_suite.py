# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own test suite: getting it, running it in a lab, comparing outcomes.

The checkout's Python environment has mpi4py. Its source distribution, of the same version, has the
tests; they go to `$HIKYAKU_BUILD/mpi4py`, once.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from hikyaku import mpi
from hikyaku.checkout import ROOT, build_dir
from hikyaku.lab import Job, Lab
from hikyaku.lab.openmpi import with_faults

HERE = Path(__file__).parent
PIP_LIMIT_S = 900

# Modules that do not belong here, and why.
EXCLUDED = {
    "test_rma": "one-sided: a test of its own",
    "test_rma_nb": "one-sided",
    "test_win": "one-sided",
    "test_spawn": "new processes, which have no port of their own in a lab",
    "test_dynproc": "new processes",
    "test_util_pool": "new processes",
    "test_util_sync": "one-sided underneath",
    "test_file": "files, no messages",
    "test_io": "files, no messages",
    "test_doc": "no messages",
    "test_ulfm": "needs a library with fault tolerance",
}

# Over TCP these need another component, which fails some of them: there is nothing to compare with.
ONE_SIDED = ["test_rma", "test_rma_nb", "test_win"]

# Python modules with arrays that the suite would send as well as those of numpy.
ABSENT = ["cupy", "numba"]
# `make check` sends the bytes of an array once. Those of the module array are the same as numpy's.
ABSENT_SHORT = [*ABSENT, "array"]

# The part that `make check` runs under faults, in each mode.
FAULTY = ["test_p2p_buf", "test_p2p_buf_matched"]

# The part for every `make check`: what moves data most.
SHORT = [
    "test_cco_buf",
    "test_cco_nb_buf",
    "test_cco_vec",
    "test_cco_nb_vec",
    "test_cco_ngh_buf",
    "test_cco_obj",
    "test_cco_buf_inter",
    "test_comm_topo",
    "test_msgspec",
    "test_msgzero",
    "test_p2p_buf",
    "test_p2p_buf_matched",
    "test_p2p_obj",
    "test_p2p_obj_matched",
    "test_pack",
    "test_request",
    "test_status",
    "test_threads",
    "test_util_pkl5",
]


def prepare() -> Path:
    """The directory of mpi4py's tests; made if it is not there."""
    place = build_dir() / "mpi4py" / version("mpi4py")
    if place.exists():
        return place
    place.parent.mkdir(exist_ok=True)
    locked = (ROOT / "requirements.txt").read_text()
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        exact = Path(scratch) / "requirements.txt"
        exact.write_text(re.search(r"^mpi4py==.*?[^\\]$", locked, re.M | re.S)[0])
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        pip += ["--require-hashes", "--no-deps", "--no-binary", "mpi4py", "--dest", scratch]
        _run([*pip, "-r", str(exact)])
        (archive,) = Path(scratch).glob("mpi4py-*.tar.gz")
        _run(["tar", "-x", "--no-same-owner", "--directory", scratch, "--file", str(archive)])
        (tests,) = Path(scratch).glob("mpi4py-*/test")
        tests.rename(place)
    return place


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PIP_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"'{' '.join(argv)}' failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def all_modules(place: Path) -> list[str]:
    return sorted({p.stem for p in place.glob("test_*.py")} - set(EXCLUDED))


def run(
    lab: Lab,
    ranks: int,
    modules: list[str],
    *,
    tcp: bool,
    results: Path,
    timeout: float,
    mode: str | None = None,
    faults: str = "",
    by: str | None = None,
    absent: Sequence[str] = ABSENT_SHORT,
) -> dict[tuple[int, str], str]:
    """The outcome of each (rank, test). Results of a run that died are those it wrote before. @by:
    another MPI, of mpi.BY_OFI."""
    place = prepare()
    results.mkdir()
    argv = [sys.executable, str(HERE / "rank.py"), str(place), str(results)]
    argv += [",".join(absent), *modules]
    if faults:
        argv = with_faults(faults, 1, argv)
    crc = {"btl_hikyaku_protection": "crc"} if faults else None
    if by:
        job = Job(["-np", str(ranks), *argv], mpi=by, tcp=tcp, env=_library(by), timeout=timeout)
        done = lab.launch(job)
    else:
        done = lab.mpirun(ranks, argv, tcp=tcp, timeout=timeout, mode=mode, mca=crc)
    outcomes = {}
    for rank in range(ranks):
        path = results / f"{rank}.jsonl"
        assert path.exists(), f"rank {rank} did not start\n{done.stderr}"
        for line in path.read_text().splitlines():
            test, outcome = json.loads(line)
            outcomes[rank, test] = outcome
    outcomes[-1, "exit status"] = "0" if done.returncode == 0 else done.stderr[-2000:]
    return outcomes


def _library(by: str) -> dict[str, str]:
    """With these mpi4py loads the library of that MPI."""
    if by == mpi.OPENMPI:
        return {}
    abi = "mpich" if by in mpi.BY_HYDRA else "openmpi"
    return {"MPI4PY_MPIABI": abi, "LD_LIBRARY_PATH": str(mpi.install(by) / "lib")}


def summary(outcomes: dict[tuple[int, str], str]) -> str:
    counts = Counter(o.partition(":")[0] for (rank, _), o in outcomes.items() if rank == 0)
    return ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))


def differences(tcp: dict[tuple[int, str], str], fabric: dict[tuple[int, str], str]) -> list[str]:
    return [
        f"rank {rank}: {test}: over TCP {tcp.get((rank, test), 'not run')}, "
        f"over the fabric {fabric.get((rank, test), 'not run')}"
        for rank, test in sorted(tcp.keys() | fabric.keys())
        if tcp.get((rank, test)) != fabric.get((rank, test))
    ]
