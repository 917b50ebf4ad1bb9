# SPDX-License-Identifier: BSD-3-Clause
"""Programs, Python packages, DPDK with its drivers, Open MPI and the BTL."""

import re
import shutil
from pathlib import Path

from .. import packages
from ..bench.common.machine import first_line, open_mpi_version
from ..called import as_root, make
from ..checkout import INSTALLED, build_dir, built
from ..errors import HikyakuError
from ..lab import openmpi
from ..process import run
from .finding import MISSING, OK, WARN, Finding, Findings

PROGRAMS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "taskset": "util-linux",
    "ethtool": "ethtool",
}
TO_BUILD = {
    "meson": "meson",
    "ninja": "ninja-build",
    "cc": "gcc",
    "pkg-config": "pkgconf",
}
# The DPDK drivers that port specs need, as files in DPDK's plug-in directory.
PMDS = {"memif": "memif:…", "af_packet": "af_packet:…"}


def _install(packages: str) -> str:
    for_all = "docs/install.md lists" if INSTALLED else "make installs"
    return f"{as_root(f'apt-get install {packages}')}   # {for_all} all"


def programs() -> Findings:
    wanted = PROGRAMS if INSTALLED else PROGRAMS | TO_BUILD
    absent = {p: pkg for p, pkg in wanted.items() if shutil.which(p) is None}
    for program, package in absent.items():
        yield Finding("programs", MISSING, f"{program} is not installed", _install(package))
    if not absent:
        yield Finding("programs", OK, f"all there: {', '.join(wanted)}")


def python() -> Findings:
    absent = packages.absent()
    for name in absent:
        text = f"{name} is not installed, for {packages.NEEDED[name]}"
        yield Finding("Python", MISSING, text, packages.fix(name))
    if not absent:
        yield Finding("Python", OK, f"all packages there: {', '.join(packages.NEEDED)}")


def dpdk() -> Findings:
    yield from _dpdk_to_run() if INSTALLED else _dpdk_to_build()


def _dpdk_to_run() -> Findings:
    """Checks DPDK as our programs find it: a node where nothing is built has no pkg-config file."""
    libraries = run(["ldd", str(built("src/hikyakud"))])
    absent = re.findall(r"^\s*(\S+) => not found", libraries, re.MULTILINE)
    eal = re.search(r"=> (\S+/librte_eal\.so\S*)", libraries)
    if absent or not eal:
        names = ", ".join(absent) or "librte_eal"
        fix = _install("librte-meta-all")
        yield Finding("DPDK", MISSING, f"hikyakud does not find {names}", fix)
        return
    yield Finding("DPDK", OK, f"hikyakud finds all libraries; DPDK's is {eal[1]}")
    yield from _drivers(str(Path(eal[1]).parent))


def _dpdk_to_build() -> Findings:
    version = first_line(["pkg-config", "--modversion", "libdpdk"])
    if version is None:
        yield Finding("DPDK", MISSING, "libdpdk is not installed", _install("dpdk-dev"))
        return
    if tuple(int(n) for n in version.split(".")[:2]) < (22, 11):
        yield Finding("DPDK", MISSING, f"DPDK {version} is older than 22.11", _install("dpdk-dev"))
    else:
        yield Finding("DPDK", OK, f"DPDK {version}")
    libdir = first_line(["pkg-config", "--variable=libdir", "libdpdk"]) or "/usr/lib"
    yield from _drivers(libdir)


def _drivers(libdir: str) -> Findings:
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
    if not version.startswith(("4.1.", "5.0.")):
        text = f"Open MPI {version}: the BTL is made for 4.1 and 5.0"
        yield Finding("Open MPI", MISSING, text, "use Debian's")
    else:
        yield Finding("Open MPI", OK, f"Open MPI {version}")
    headers = version if INSTALLED else first_line(["pkg-config", "--modversion", "ompi-c"])
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
    component = build_dir() / "plugins/openmpi/mca_btl_hikyaku.so"
    if not component.exists():
        yield Finding("Open MPI", MISSING, f"the BTL is not built: no {component}", make())
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
            f"see why: OMPI_MCA_mca_base_component_path={path} "
            "ompi_info --mca mca_base_component_show_load_errors 1",
        )
