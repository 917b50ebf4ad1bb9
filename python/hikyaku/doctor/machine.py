# SPDX-License-Identifier: BSD-3-Clause
"""Cores, memory and the permissions of this user."""

import os
import platform
import pwd
import resource
from collections.abc import Callable
from pathlib import Path

from ..called import as_root
from ..checkout import build_dir
from .finding import MISSING, OK, WARN, Finding, Findings, text_of


def cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Findings:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        yield Finding(
            "CPU", WARN, "one core: ranks that poll must share it, and latency reads milliseconds"
        )
    else:
        yield Finding("CPU", OK, f"{cores} cores")
    if platform.machine() == "x86_64":
        can = set(cpuinfo.read_text().split())
        if "sse4_2" in can:
            yield Finding("CPU", OK, "SSE4.2, for checksums")
        else:
            yield Finding("CPU", MISSING, "no SSE4.2, which the build uses for checksums")
        if {"aes", "pclmulqdq"} <= can:
            yield Finding("CPU", OK, "AES instructions, for frames with keys")
        else:
            yield Finding(
                "CPU",
                WARN,
                "no AES instructions: frames with keys, the default on all ports but memif, take "
                "several times as long",
                "give a virtual machine its host's CPU model (QEMU: -cpu host)",
            )


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
            as_root("echo 512 > /proc/sys/vm/nr_hugepages"),
        )
    thp = sys / "kernel/mm/transparent_hugepage/enabled"
    if thp.exists():
        mode = thp.read_text().partition("[")[2].partition("]")[0]
        if mode == "never":
            yield Finding(
                "memory",
                WARN,
                "transparent huge pages are off: buffers in ordinary memory are slower",
                as_root(f"echo madvise > {thp}"),
            )
        else:
            yield Finding("memory", OK, f"transparent huge pages: {mode}")
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or "ipc_lock" in capabilities():
        yield Finding("memory", OK, "memory may be locked without limit (VFIO, af_packet)")
    else:
        may = hard == resource.RLIM_INFINITY and not _ends_with_us(parent())
        raised = "ulimit -l unlimited" if may else _raised("memlock", "unlimited")
        yield Finding(
            "memory",
            WARN,
            f"at most {soft // 1024} kB may be locked: ports by VFIO and large frames of "
            "af_packet will not open, unless by a process with CAP_IPC_LOCK",
            raised + _for_good("'memlock' in /etc/security/limits.conf"),
        )


def parent() -> list[str]:
    """The command line of our parent process."""
    try:
        text = Path(f"/proc/{os.getppid()}/cmdline").read_text(errors="replace")
    except OSError:  # of another user, or it has ended
        return []
    return text.split("\0")[:-1]


def _ends_with_us(argv: list[str]) -> bool:
    """Is this process @argv, our parent, only there to run us, as in `su alice -c 'hikyaku …'`?"""
    runs = ("su", "sudo", "runuser", "doas", "sshd", "sshd-session")
    return not argv or "-c" in argv[1:] or Path(argv[0]).name.rstrip(":") in runs


def _raised(limit: str, value: str) -> str:
    """The command that raises the limit @limit of the user's shell, which is our parent process. If
    that ends with us, of the user's further sessions."""
    if not _ends_with_us(parent()):
        return as_root(f"prlimit --pid {os.getppid()} --{limit}={value}")
    user = pwd.getpwuid(os.getuid()).pw_name
    line = f"{user} - {limit} {value}"
    return as_root(f"echo '{line}' >> /etc/security/limits.d/hikyaku.conf")


def _for_good(text: str) -> str:
    """A comment behind the command of _raised(), if that does not last."""
    return "" if _ends_with_us(parent()) else f"   # for good: {text}"


def may_be_realtime() -> bool:
    """Can this process get a real-time priority, as hikyakud asks? The thread keeps its
    priority."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_RTPRIO)
    try:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (hard, hard))
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, policy, priority)
    except OSError:
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (soft, hard))
    return True


def realtime(may: Callable[[], bool] = may_be_realtime) -> Findings:
    if may():
        yield Finding("permissions", OK, "hikyakud may have a real-time priority")
    else:
        yield Finding(
            "permissions",
            WARN,
            "no real-time priority as this user: beside ranks that compute, hikyakud's poller and "
            "switch sometimes wait milliseconds for the core",
            _raised("rtprio", "1")
            + _for_good("'rtprio' in /etc/security/limits.conf; in a unit LimitRTPRIO=1"),
        )


_CAPABILITIES = {"net_admin": 12, "net_raw": 13, "ipc_lock": 14, "sys_admin": 21, "bpf": 39}


def capabilities() -> set[str]:
    """The relevant capabilities of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            mask = int(line.split()[1], 16)
            return {name for name, bit in _CAPABILITIES.items() if mask >> bit & 1}
    return set()


# The capabilities that ports need (docs/ports.md). A high limit of locked memory replaces ipc_lock;
# memory() checks that.
_NEEDS = {
    "af_xdp ports": {"net_raw", "net_admin", "bpf"},
    "af_packet ports": {"net_raw", "net_admin"},
}
_HELPER = "hikyaku-helper"
_HELPER_RIGHTS = "cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock=ep"


def _helper_program() -> Path:
    return build_dir() / "src/helper" / _HELPER


def _how(what: str) -> str:
    """How an ordinary user gets such ports."""
    if what == "af_packet ports":
        return "let hikyakud have them, not the ranks: docs/cluster.md, step 3"
    grant = as_root(f"setcap {_HELPER_RIGHTS} {_helper_program()}")
    return f"{grant}   # and name users and interfaces: docs/ports.md"


def _helper() -> str | None:
    """How hikyaku-helper gives this user AF_XDP sockets; None: it does not."""
    if f"@{_HELPER}\n" in (text_of(Path("/proc/net/unix")) or "") + "\n":
        return "by the hikyaku-helper that runs here"
    try:
        os.getxattr(_helper_program(), "security.capability")
    except OSError:
        return None
    return "by hikyaku-helper, which has capabilities"


def permissions(have: set[str] | None = None, uid: int | None = None) -> Findings:
    have = capabilities() if have is None else have
    uid = os.geteuid() if uid is None else uid
    if uid == 0 and "sys_admin" in have:
        yield Finding("permissions", OK, "labs are allowed")
    else:
        text = "no labs as this user: only root makes them, with CAP_SYS_ADMIN"
        fix = as_root("hikyaku lab up") if uid else "give CAP_SYS_ADMIN to this container"
        yield Finding("permissions", WARN, text, fix)
    for what, wanted in _NEEDS.items():
        lacking = sorted(wanted - have)
        helped = _helper() if lacking and what == "af_xdp ports" else None
        if helped:
            yield Finding("permissions", OK, f"{what} are allowed, {helped}")
        elif lacking:
            names = ", ".join("CAP_" + n.upper() for n in lacking)
            text = f"no {what} as this user: {names} lacking"
            yield Finding("permissions", WARN, text, _how(what))
        else:
            yield Finding("permissions", OK, f"{what} are allowed")
