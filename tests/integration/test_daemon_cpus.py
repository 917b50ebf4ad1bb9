# SPDX-License-Identifier: BSD-3-Clause
"""Where a daemon runs that a job has started."""

import os
import sys

from execute import execute
from hikyaku.lab.openmpi import fabric_settings
from mpi_programs import HUGE_MB

# The rank that started the daemon of its node prints both sets of CPUs.
RANK = """
import os
from pathlib import Path
from mpi4py import MPI

mine = f"--starter={os.getpid()}"
for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        words = path.read_text().split("\\0")
    except OSError:  # the process has ended
        continue
    if words[0].endswith("hikyakud") and mine in words:
        daemon = os.sched_getaffinity(int(path.parent.name))
        print(f"CPUS {len(os.sched_getaffinity(0))} {len(daemon)}", flush=True)
MPI.COMM_WORLD.Barrier()
"""


def test_it_is_not_bound_with_its_rank(get_lab, tmp_path):
    """mpirun binds a rank to a core. The daemon would take turns with the rank there."""
    lab = get_lab(2, "memif", huge_mb=HUGE_MB)
    cpus = os.sched_getaffinity(0)
    settings = fabric_settings("hybrid") | {
        "OMPI_MCA_btl_hikyaku_port": f"memif:dir={tmp_path}",
        "OMPI_MCA_hwloc_base_binding_policy": "core",
        "PRTE_MCA_hwloc_default_binding_policy": "core",
    }
    # a node of a lab has some of the machine's CPUs: mpirun gets all
    argv = ["taskset", "-c", ",".join(map(str, cpus)), "env"]
    argv += [f"{name}={value}" for name, value in settings.items()]
    argv += ["mpirun", "--allow-run-as-root", "-np", "1", sys.executable, "-c", RANK]
    done = execute(lab.exec_argv("node0", argv))
    said = [line for line in done.stdout.splitlines() if line.startswith("CPUS")]
    assert said == [f"CPUS 1 {len(cpus)}"] * 2  # the daemon, and its janitor
