# SPDX-License-Identifier: BSD-3-Clause
"""What this machine has for Hikyaku, what it lacks, and the command that mends it.

Each finding is one line: `ok`, `warn` (works, but not as well as it could, or not for everyone) or
`missing` (does not work without it). Nothing here changes anything.
"""

import errno
import fcntl
import json
import os
import platform
import re
import resource
import shlex
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .bench.machine import first_line, open_mpi_version
from .checkout import CHECKOUT_ID, STATE_DIR, build_dir
from .cli_daemon import run_base
from .errors import HikyakuError
from .lab import Lab, all_names, lab_id, network, openmpi
from .process import run

OK, WARN, MISSING = "ok", "warn", "missing"


@dataclass(frozen=True)
class Finding:
    area: str
    state: str
    text: str
    fix: str | None = None

    def to_json(self) -> dict:
        return asdict(self)


Findings = Iterator[Finding]

# ---- programs and libraries ----------------------------------------------------------------------

PROGRAMS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "taskset": "util-linux",
    "ethtool": "ethtool",
    "meson": "meson",
    "ninja": "ninja-build",
    "cc": "gcc",
    "pkg-config": "pkgconf",
}
# What a port spec needs of DPDK: its drivers, as files in DPDK's plug-in directory.
PMDS = {"memif": "memif:…", "af_xdp": "af_xdp:…", "af_packet": "af_packet:…"}


def _install(packages: str) -> str:
    return f"apt-get install {packages}   (or scripts/install-deps for all)"


def programs() -> Findings:
    absent = {p: pkg for p, pkg in PROGRAMS.items() if shutil.which(p) is None}
    for program, package in absent.items():
        yield Finding("programs", MISSING, f"{program} is not installed", _install(package))
    if not absent:
        yield Finding("programs", OK, f"all there: {', '.join(PROGRAMS)}")


def dpdk() -> Findings:
    version = first_line(["pkg-config", "--modversion", "libdpdk"])
    if version is None:
        yield Finding("DPDK", MISSING, "libdpdk is not installed", _install("dpdk-dev"))
        return
    if tuple(int(n) for n in version.split(".")[:2]) < (22, 11):
        yield Finding("DPDK", MISSING, f"DPDK {version} is older than 22.11", _install("dpdk-dev"))
    else:
        yield Finding("DPDK", OK, f"DPDK {version}")
    libdir = first_line(["pkg-config", "--variable=libdir", "libdpdk"]) or "/usr/lib"
    found = {
        p.name.removeprefix("librte_net_").partition(".so")[0]
        for p in Path(libdir).glob("dpdk/pmds-*/librte_net_*.so*")
    }
    for pmd, spec in PMDS.items():
        if pmd in found:
            yield Finding("DPDK", OK, f"driver net_{pmd} is there, for ports {spec}")
        else:
            yield Finding(
                "DPDK",
                MISSING if pmd == "memif" else WARN,
                f"driver net_{pmd} is not in {libdir}/dpdk, so no ports {spec}",
                _install(f"librte-net-{pmd.replace('_', '-')}23"),
            )


def open_mpi() -> Findings:
    version = open_mpi_version()
    if version is None:
        yield Finding(
            "Open MPI", MISSING, "mpirun is not installed", _install("openmpi-bin libopenmpi-dev")
        )
        return
    if not version.startswith("4.1."):
        yield Finding(
            "Open MPI", MISSING, f"Open MPI {version}: the BTL is made for 4.1", "use Debian 12's"
        )
    else:
        yield Finding("Open MPI", OK, f"Open MPI {version}")
    headers = first_line(["pkg-config", "--modversion", "ompi-c"])
    if headers is None:
        yield Finding(
            "Open MPI", MISSING, "the headers to build with are missing", _install("libopenmpi-dev")
        )
    elif headers != version:
        yield Finding(
            "Open MPI",
            WARN,
            f"headers are of {headers}, mpirun is of {version}: what is built may not load",
            "let PATH and PKG_CONFIG_PATH name the same Open MPI",
        )
    component = build_dir() / "mpi" / "mca_btl_hikyaku.so"
    if not component.exists():
        yield Finding("Open MPI", MISSING, f"the BTL is not built: no {component}", "make")
        return
    try:
        path = openmpi.component_path(component)
        listing = run(["env", f"OMPI_MCA_mca_base_component_path={path}", "ompi_info"])
    except HikyakuError as error:
        yield Finding("Open MPI", MISSING, f"ompi_info does not run: {error.what}")
        return
    line = next((x.strip() for x in listing.splitlines() if "MCA btl: hikyaku" in x), None)
    if line:
        yield Finding("Open MPI", OK, f"loads the BTL: {line}")
    else:
        yield Finding(
            "Open MPI",
            MISSING,
            f"does not load {component}",
            f"make clean && make; to see why: OMPI_MCA_mca_base_component_path={path} "
            "ompi_info --mca mca_base_component_show_load_errors 1",
        )


# ---- the machine ---------------------------------------------------------------------------------


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


# ---- network interfaces --------------------------------------------------------------------------

# What the kernel's drivers do for AF_XDP. Others take part in generic (copy) mode.
_ZERO_COPY = {"i40e", "ice", "ixgbe", "igc", "igb", "mlx5_core", "stmmac", "nfp"}
_NATIVE = {
    "ena",
    "veth",
    "virtio_net",
    "bnxt_en",
    "gve",
    "hv_netvsc",
    "ixgbevf",
    "qede",
    "sfc",
    "thunder_nic",
    "tun",
    "mlx4_en",
    "mvneta",
    "mvpp2",
    "dpaa2-eth",
    "enetc",
}
# Drivers beside which DPDK works without taking the NIC from the kernel.
_BIFURCATED = {"mlx5_core", "mlx4_core", "mlx4_en", "mana"}


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _interface(nic: Path) -> Finding:
    """How one kernel interface can be used, best way first."""
    name = nic.name
    device = nic / "device"
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    ways = []
    pci = device.resolve().name if (device / "vendor").exists() else None
    if pci and (device / "physfn").exists():
        ways.append(f"virtual function: pci:{pci} once bound to vfio-pci")
    elif pci and driver in _BIFURCATED:
        ways.append(f"pci:{pci} beside the kernel")
    fix = None
    vfs = _text(device / "sriov_totalvfs")
    if vfs and int(vfs) > 0:
        used = _text(device / "sriov_numvfs") or "0"
        ways.append(f"SR-IOV: {used} of {vfs} virtual functions made, each a port pci:…")
        if used == "0":
            fix = f"echo 1 > {device}/sriov_numvfs   (then: dpdk-devbind.py -b vfio-pci ADDRESS)"
    if driver in _ZERO_COPY:
        ways.append(f"af_xdp:iface={name} (zero copy)")
    elif driver in _NATIVE:
        ways.append(f"af_xdp:iface={name} (native)")
    else:
        ways.append(f"af_xdp:iface={name} (generic, slow)")
    ways.append(f"af_packet:iface={name}")
    state = _text(nic / "operstate") or "unknown"
    speed = _text(nic / "speed")
    about = f"{name}: driver {driver or 'none'}, MTU {_text(nic / 'mtu')}, {state}"
    if speed and speed not in ("-1", "0"):
        about += f", {int(speed) // 1000} Gbit/s" if int(speed) >= 1000 else f", {speed} Mbit/s"
    up = state in ("up", "unknown")
    return Finding(
        "interfaces",
        OK if up else WARN,
        f"{about}; usable as " + "; ".join(ways),
        fix if up else f"ip link set {name} up",
    )


def interfaces(sys: Path = Path("/sys")) -> Findings:
    nics = [p for p in sorted((sys / "class/net").iterdir()) if (p / "mtu").exists()]
    real = [p for p in nics if (p / "device").exists()]
    for nic in real:
        yield _interface(nic)
    if not real:
        yield Finding(
            "interfaces", WARN, "no network card: only labs and memif ports", "hikyaku lab up"
        )
    vfio = sys / "bus/pci/drivers/vfio-pci"
    for device in sorted(vfio.glob("*:*:*.*")) if vfio.is_dir() else []:
        yield Finding("interfaces", OK, f"{device.name}: bound to vfio-pci; port pci:{device.name}")


def xdp_leftovers() -> Findings:
    dirty = []
    if shutil.which("ip"):
        for link in json.loads(run(["ip", "-json", "-details", "link", "show"])):
            if link.get("xdp"):
                dirty.append(link["ifname"])
    for name in dirty:
        yield Finding(
            "interfaces",
            WARN,
            f"{name} carries an XDP program: of a running process, or left by one that was killed; "
            "it slows the kernel's traffic",
            f"ip link set {name} xdp off && ip link set {name} xdpgeneric off",
        )
    if not dirty:
        yield Finding("interfaces", OK, "no XDP program is attached to any interface")


def labs() -> Findings:
    known = all_names()
    for name in known:
        try:
            lab = Lab.find(name)
        except HikyakuError as broken:
            yield Finding("lab", WARN, broken.what, f"hikyaku lab down --lab {name}")
        else:
            nodes = len(lab.topology.nodes)
            yield Finding("lab", OK, f"lab '{name}' is up: {nodes} nodes, {lab.topology.wire}")
    mine = tuple(lab_id(n) + "-" for n in known)
    strays = [n for n in network.namespaces(CHECKOUT_ID) if not n.startswith(mine)]
    if strays:
        yield Finding(
            "lab", WARN, f"namespaces of no lab: {', '.join(strays)}", "hikyaku lab down --all"
        )
    elif not known:
        yield Finding("lab", OK, "no lab is up, and nothing is left of one")


# ---- ports that ranks share (hikyakud) -----------------------------------------------------------

# What a job's hikyakud takes, and for each rank: memory_needed() in host/resources.c, with the
# buffers that ranks ask for by default and a memif's frames.
_DAEMON_MB = 40
_RANK_MB = 105
# Whose queues secondary processes can poll: port/shared.c.
_QUEUES = "memif:dir="
_PIPES = ("memif:socket=", "af_xdp:", "af_packet:", "pci:", "vdev:")


@dataclass(frozen=True)
class HugeMount:
    directory: Path
    page_kb: int
    room: int | None  # pages that its size limit leaves; None: it has none
    usable: bool


def huge_mounts(mounts: Path = Path("/proc/self/mounts")) -> list[HugeMount]:
    """Every hugetlbfs, and whether this user may make files in it."""
    found = []
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "hugetlbfs":
            directory = Path(where.replace("\\040", " "))
            try:
                fs = os.statvfs(directory)
            except OSError:
                continue  # another user's, or gone
            room = fs.f_bavail if fs.f_blocks else None
            usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
            found.append(HugeMount(directory, fs.f_bsize // 1024, room, usable))
    return found


def _of_a_lab(mount: HugeMount) -> bool:
    return str(mount.directory).startswith(f"{STATE_DIR.parent}/hikyaku-{os.getuid()}-")


def _mount_command() -> str:
    user = f"uid={os.geteuid()},mode=0700," if os.geteuid() else ""
    where = f"/mnt/huge-{os.geteuid()}" if os.geteuid() else "/dev/hugepages"
    return (
        f"mkdir -p {where} && mount -t hugetlbfs -o {user}pagesize=2M none {where}"
        f"{'   (as root)' if user else ''}"
    )


def _pages(sys: Path, page_kb: int) -> tuple[int, int, Path]:
    """Free pages of this size that nobody has reserved, all pages, where their number is set."""
    pool = sys / f"kernel/mm/hugepages/hugepages-{page_kb}kB"
    free, reserved, total = (
        int(_text(pool / f"{what}_hugepages") or 0) for what in ("free", "resv", "nr")
    )
    return max(0, free - reserved), total, pool / "nr_hugepages"


def _memory_of_daemons(mount: HugeMount, sys: Path) -> Finding:
    free, total, number = _pages(sys, mount.page_kb)
    need = -(-(_DAEMON_MB + _RANK_MB) * 1024 // mount.page_kb)
    here = free if mount.room is None else min(free, mount.room)
    text = (
        f"{mount.directory}: a hugetlbfs, {here * mount.page_kb // 1024} MB in pages of "
        f"{mount.page_kb} kB are free; a daemon takes {_DAEMON_MB} MB, and about {_RANK_MB} MB "
        "for each rank"
    )
    if here >= need:
        return Finding("shared ports", OK, text)
    if free >= need:
        fix = f"mount -o remount,size=2G {mount.directory}"
    else:
        fix = f"echo {total - free + need} > {number}"
    return Finding("shared ports", WARN, text, fix)


def shared_ports(mounts: Path = Path("/proc/self/mounts"), sys: Path = Path("/sys")) -> Findings:
    every = huge_mounts(mounts)
    given = os.environ.get("HIKYAKU_HUGE_DIR")
    every = [m for m in every if (str(m.directory) == given if given else not _of_a_lab(m))]
    usable = sorted((m for m in every if m.usable), key=lambda m: m.page_kb)
    if not usable:
        text = "no hugetlbfs is mounted"
        if every:
            text = f"no hugetlbfs lets this user in ({', '.join(str(m.directory) for m in every)})"
        yield Finding(
            "shared ports",
            WARN,
            f"{text}: no hikyakud, so each rank needs a port of its own (btl_hikyaku_host inline)",
            _mount_command(),
        )
        return
    yield _memory_of_daemons(usable[0], sys)
    yield Finding(
        "shared ports",
        OK,
        f"{_QUEUES}… can be polled by each rank (btl_hikyaku_host hybrid); "
        f"{', '.join(p + '…' for p in _PIPES[1:])} by hikyakud for all (daemon)",
    )


def steering(spec: str) -> Findings:
    """How ranks of a node can share the port @spec. As the spec's kind says; nothing is opened."""
    fix = None
    if "{local_rank}" in spec or "{rank}" in spec:
        state, text = OK, "a port for each rank, nothing to share: btl_hikyaku_host inline"
    elif spec.startswith(_QUEUES):
        state, text = (
            OK,
            "each rank polls queues of its own (btl_hikyaku_host hybrid, or daemon); "
            "slots of two nodes multiplied: at most 128",
        )
    elif spec.startswith(_PIPES):
        state, text = OK, "only its owner can poll it: hikyakud does (btl_hikyaku_host daemon)"
    else:
        state, text = MISSING, "no such kind of port"
        fix = f"use one of {_QUEUES}…, {', '.join(p + '…' for p in _PIPES)} (docs/ports.md)"
    yield Finding("shared ports", state, f"port {spec}: {text}", fix)


# ---- what dead daemons leave ---------------------------------------------------------------------

_YOUNG_S = 10  # who is just starting has files, but no lock yet
_OURS = re.compile(r"hk\d+-")  # names of shared memories: host/rundir.c
_MAP = re.compile(r"hk\d+-.*map_\d+")


def _old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _YOUNG_S
    except OSError:
        return False


def _held(lock: Path) -> bool:
    """Does a process hold this flock? Asks for it for a moment, shared."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(fd)
    return False


def _locked(config: Path) -> bool:
    """Does a process hold a POSIX lock on it, as a DPDK primary does? Only looks."""
    layout = struct.Struct("@hhqqi4x")
    try:
        fd = os.open(config, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, layout.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(fd)
    return layout.unpack(answer)[0] != fcntl.F_UNLCK


def _mapped(files: list[Path], proc: Path = Path("/proc")) -> set[Path]:
    """Those of @files that a process has in its memory."""
    wanted = {}
    for file in files:
        stat = file.stat()
        device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
        wanted[device, str(stat.st_ino)] = file
    found = set()
    for maps in proc.glob("[0-9]*/maps") if wanted else []:
        try:
            lines = maps.read_text().splitlines()
        except OSError:  # another user's, or it has ended
            continue
        for line in lines:
            if file := wanted.get(tuple(line.split()[3:5])):
                found.add(file)
    return found


def _remove(*paths: Path) -> str:
    return "rm -r " + " ".join(shlex.quote(str(p)) for p in paths)


def _run_directories(base: Path) -> Findings:
    for lock in sorted(base.glob("*/lock")):
        where = lock.parent
        if _held(lock):
            yield Finding("hikyakud", OK, f"'{where.name}' runs ({where})")
        elif _old(where):
            noted = [Path(line) for line in (_text(where / "leftovers") or "").splitlines()]
            yield Finding(
                "hikyakud",
                WARN,
                f"'{where.name}' has died and left {where}; the next hikyakud of this user "
                "removes it",
                _remove(where, *(p for p in noted if p.is_socket())),
            )
    for lock in sorted(base.glob("*.start")):
        if lock.is_file() and not _held(lock) and _old(lock):
            yield Finding(
                "hikyakud", WARN, f"{lock}: a rank was killed while it started one", _remove(lock)
            )


def _dpdk_bases() -> list[Path]:
    given = (os.environ.get(name) for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"))
    return [Path(p) for p in (*given, "/var/run", "/tmp") if p]


def _dpdk_files(bases: list[Path], mounts: Path) -> Findings:
    mine = os.geteuid()
    for base in bases:
        for where in sorted((base / "dpdk").glob("hk*")):
            if (
                _OURS.match(where.name)
                and where.is_dir()
                and where.stat().st_uid == mine
                and not _locked(where / "config")
                and _old(where)
            ):
                yield Finding(
                    "hikyakud", WARN, f"{where}: DPDK's files of one that has died", _remove(where)
                )
    maps = [
        file
        for mount in huge_mounts(mounts)
        if mount.usable
        for file in sorted(mount.directory.glob("hk*map_*"))
        if _MAP.fullmatch(file.name) and file.stat().st_uid == mine and _old(file)
    ]
    unused = [file for file in maps if file not in _mapped(maps)]
    if unused:
        yield Finding(
            "hikyakud",
            WARN,
            f"huge pages of one that has died: {', '.join(map(str, unused))}",
            _remove(*unused),
        )


def daemons(
    base: Path | None = None,
    dpdk_bases: list[Path] | None = None,
    mounts: Path = Path("/proc/self/mounts"),
) -> Findings:
    """Daemons of this user that run, and what those that were killed have left."""
    found = [
        *_run_directories(run_base() if base is None else base),
        *_dpdk_files(_dpdk_bases() if dpdk_bases is None else dpdk_bases, mounts),
    ]
    yield from found
    if not found:
        yield Finding("hikyakud", OK, "none of this user runs, and nothing is left of one")


CHECKS: tuple[Callable[[], Findings], ...] = (
    programs,
    dpdk,
    open_mpi,
    cpu,
    memory,
    permissions,
    interfaces,
    xdp_leftovers,
    shared_ports,
    daemons,
    labs,
)


def examine(port: str | None = None) -> list[Finding]:
    """All findings; with @port, also how ranks can share it."""
    asked = list(steering(port)) if port else []
    return [finding for check in CHECKS for finding in check()] + asked
