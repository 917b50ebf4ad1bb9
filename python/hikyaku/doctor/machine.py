# SPDX-License-Identifier: BSD-3-Clause
"""Cores, memory and what this user may do."""

import os
import platform
import resource
from pathlib import Path

from .finding import MISSING, OK, WARN, Finding, Findings


def cpu() -> Findings:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        yield Finding(
            "CPU", WARN, "one core: ranks that poll must share it, and latency reads milliseconds"
        )
    else:
        yield Finding("CPU", OK, f"{cores} cores")
    if platform.machine() == "x86_64":
        if "sse4_2" in Path("/proc/cpuinfo").read_text():
            yield Finding("CPU", OK, "SSE4.2, for checksums")
        else:
            yield Finding("CPU", MISSING, "no SSE4.2, which the build uses for checksums")


def memory(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Findings:
    pages = {}
    for line in (proc / "meminfo").read_text().splitlines():
        key, _, value = line.partition(":")
        pages[key] = int(value.split()[0])
    total, free = pages.get("HugePages_Total", 0), pages.get("HugePages_Free", 0)
    size = pages.get("Hugepagesize", 0)
    if total:
        yield Finding("memory", OK, f"{free} of {total} huge pages of {size} kB are free")
    else:
        yield Finding(
            "memory",
            WARN,
            "no huge pages: NICs that DPDK drives itself (pci:…) and shared ports need them",
            "echo 512 > /proc/sys/vm/nr_hugepages",
        )
    thp = sys / "kernel/mm/transparent_hugepage/enabled"
    if thp.exists():
        mode = thp.read_text().partition("[")[2].partition("]")[0]
        if mode == "never":
            yield Finding(
                "memory",
                WARN,
                "transparent huge pages are off: buffers in ordinary memory are slower",
                f"echo madvise > {thp}",
            )
        else:
            yield Finding("memory", OK, f"transparent huge pages: {mode}")
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or "ipc_lock" in capabilities():
        yield Finding("memory", OK, "memory may be locked without limit (AF_XDP, VFIO)")
    else:
        yield Finding(
            "memory",
            WARN,
            f"at most {soft // 1024} kB may be locked: AF_XDP and VFIO ports will not open",
            "ulimit -l unlimited   (for good: 'memlock' in /etc/security/limits.conf)",
        )


_CAPABILITIES = {"net_admin": 12, "net_raw": 13, "ipc_lock": 14, "sys_admin": 21, "bpf": 39}


def capabilities() -> set[str]:
    """Those of this process that matter here."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            mask = int(line.split()[1], 16)
            return {name for name, bit in _CAPABILITIES.items() if mask >> bit & 1}
    return set()


def permissions() -> Findings:
    have = capabilities()
    needs = {
        "labs and AF_XDP ports": {"net_admin", "sys_admin"},
        "af_packet ports": {"net_raw"},
    }
    for what, wanted in needs.items():
        lacking = sorted(wanted - have)
        if lacking:
            names = ", ".join("CAP_" + n.upper() for n in lacking)
            yield Finding("permissions", WARN, f"no {what} as this user: {names} lacking", "sudo")
        else:
            yield Finding("permissions", OK, f"{what} are allowed")
