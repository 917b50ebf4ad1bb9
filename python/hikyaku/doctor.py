# SPDX-License-Identifier: BSD-3-Clause
"""What this machine has for Hikyaku, what it lacks, and the command that mends it.

Each finding is one line: `ok`, `warn` (works, but not as well as it could, or not for everyone) or
`missing` (does not work without it). Nothing here changes anything.
"""

import json
import os
import platform
import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .bench.machine import first_line, open_mpi_version
from .checkout import CHECKOUT_ID, build_dir
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
            "no huge pages: only NICs that DPDK drives itself (pci:…) need them",
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


CHECKS: tuple[Callable[[], Findings], ...] = (
    programs,
    dpdk,
    open_mpi,
    cpu,
    memory,
    permissions,
    interfaces,
    xdp_leftovers,
    labs,
)


def examine() -> list[Finding]:
    return [finding for check in CHECKS for finding in check()]
