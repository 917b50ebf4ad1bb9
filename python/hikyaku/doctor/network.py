# SPDX-License-Identifier: BSD-3-Clause
"""Network interfaces and how each can be used, XDP programs on them, labs."""

import ctypes
import json
import shutil
from contextlib import suppress
from pathlib import Path

from .. import native
from ..called import as_root
from ..checkout import CHECKOUT_ID, library
from ..errors import HikyakuError
from ..lab import KnownLab, Lab, Node, all_names, lab_id, network, other_labs
from ..process import net_namespace, run
from .finding import MISSING, OK, WARN, Finding, Findings, text_of

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
# Drivers that share the NIC with DPDK, so that the kernel keeps it.
_BIFURCATED = {"mlx5_core", "mlx4_core", "mlx4_en", "mana"}


def _interface(nic: Path, has_address: bool) -> Finding:
    """The uses of a kernel interface, the best one first. @has_address: of IPv4."""
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
    vfs = text_of(device / "sriov_totalvfs")
    if vfs and int(vfs) > 0:
        used = text_of(device / "sriov_numvfs") or "0"
        ways.append(f"SR-IOV: {used} of {vfs} virtual functions made, each a port pci:…")
        if used == "0":
            bind = f"dpdk-devbind.py -b vfio-pci $(basename $(readlink {device}/virtfn0))"
            fix = as_root(f"echo 1 > {device}/sriov_numvfs && {bind}")
    if driver in _ZERO_COPY:
        ways.append(f"af_xdp:iface={name} (zero copy)")
    elif driver in _NATIVE:
        ways.append(f"af_xdp:iface={name} (native)")
    else:
        ways.append(f"af_xdp:iface={name} (generic, slow)")
    ways.append(f"af_packet:iface={name}")
    if has_address:
        ways.append(f"udp:addr={name} (without privileges)")
    state = text_of(nic / "operstate") or "unknown"
    speed = text_of(nic / "speed")
    about = f"{name}: driver {driver or 'none'}, MTU {text_of(nic / 'mtu')}, {state}"
    if speed and speed not in ("-1", "0"):
        about += f", {int(speed) // 1000} Gbit/s" if int(speed) >= 1000 else f", {speed} Mbit/s"
    up = state in ("up", "unknown")
    return Finding(
        "interfaces",
        OK if up else WARN,
        f"{about}; usable as " + "; ".join(ways),
        fix if up else as_root(f"ip link set {name} up"),
    )


def _lab_node() -> tuple[Lab, Node] | None:
    """The node of a lab on which this process runs, if any."""
    here = net_namespace()
    for known in [*map(KnownLab, all_names()), *other_labs()]:
        with suppress(HikyakuError):  # what is left of a lab, or one that comes up
            lab = Lab.read(known)
            for node in lab.topology.nodes:
                if here is not None and network.namespace_inode(node.netns) == here:
                    return lab, node
    return None


def _in_a_lab(lab: Lab, node: Node) -> Finding:
    """The ports of a node: its links have no NIC."""
    wires = ["memif:dir=DIRECTORY"] if lab.topology.wire == "memif" else []
    links = [link for link, _ in lab.topology.data_links()]
    ports = [f"{kind}:iface={link}" for link in links for kind in ("af_xdp", "af_packet")]
    return Finding(
        "interfaces",
        OK,
        f"this is {node.name} of lab '{lab.name}', wire {lab.topology.wire}, without a network "
        f"card; ports: {'; '.join([*wires, *ports, 'udp:addr=tcp0'])}",
    )


def _addresses() -> list[dict]:
    """Of all interfaces; none where iproute2 is missing, which programs() reports."""
    return json.loads(run(["ip", "-json", "address", "show"]) or "[]") if shutil.which("ip") else []


def _with_address(addresses: list[dict]) -> set[str]:
    """The interfaces that have an IPv4 address."""
    return {
        each["ifname"]
        for each in addresses
        if any(a.get("family") == "inet" for a in each.get("addr_info", []))
    }


def interfaces(sys: Path = Path("/sys"), addresses: list[dict] | None = None) -> Findings:
    addressed = _with_address(_addresses() if addresses is None else addresses)
    nics = [p for p in sorted((sys / "class/net").iterdir()) if (p / "mtu").exists()]
    real = [p for p in nics if (p / "device").exists()]
    for nic in real:
        yield _interface(nic, nic.name in addressed)
    if not real and (here := _lab_node()):
        yield _in_a_lab(*here)
    elif not real:
        yield Finding(
            "interfaces",
            WARN,
            "no network card: only labs and memif ports",
            as_root("hikyaku lab up"),
        )
    vfio = sys / "bus/pci/drivers/vfio-pci"
    for device in sorted(vfio.glob("*:*:*.*")) if vfio.is_dir() else []:
        yield Finding("interfaces", OK, f"{device.name}: bound to vfio-pci; port pci:{device.name}")


class _Config(ctypes.Structure):
    """struct hk_auto_config (src/port/auto.h)."""

    _fields_ = (
        ("include", ctypes.c_char_p),
        ("exclude", ctypes.c_char_p),
        ("local_rank", ctypes.c_uint),
    )


_CALLS = {
    "port_auto": (
        ctypes.c_int,
        [ctypes.POINTER(_Config), ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(native.Error)],
    )
}


def port_auto() -> Findings:
    """The port that the first rank of a job chooses here, without lists of interfaces."""
    try:
        choose = native.load(library(), "hk_", _CALLS).hk_port_auto
    except OSError as error:  # it, or some of its packages
        yield Finding("interfaces", MISSING, f"libhikyaku does not load: {error}", "make")
        return
    chosen, error = ctypes.create_string_buffer(512), native.Error()
    if choose(_Config(), chosen, len(chosen), error) == 0:
        ports = chosen.value.decode()
        optional = "; the one with ? only if it opens" if "?" in ports else ""
        yield Finding("interfaces", OK, f"without a named port, ranks take {ports}{optional}")
    else:
        said = HikyakuError.said(str(error))
        yield Finding("interfaces", WARN, f"ranks that name no port: {said.what}", said.fix)


# The program of hikyaku-helper (src/helper/xdp.bpf.c). It goes with the last rank.
_OURS = "hikyaku_take"


def xdp_programs() -> Findings:
    """The XDP programs of others: the kernel permits one on an interface."""
    others = []
    if shutil.which("ip"):
        for link in json.loads(run(["ip", "-json", "-details", "link", "show"])):
            program = link.get("xdp", {}).get("prog", {})
            if program and program.get("name") != _OURS:
                others.append(link["ifname"])
    for name in others:
        yield Finding(
            "interfaces",
            WARN,
            f"{name} carries an XDP program: af_xdp:iface={name} is refused, and the kernel's "
            "traffic is slower",
            "if no process uses it: "
            + as_root(f"ip link set {name} xdp off && ip link set {name} xdpgeneric off"),
        )
    if not others:
        yield Finding("interfaces", OK, "no interface carries an XDP program of others")


def _lab(known: KnownLab, whose: str) -> Finding:
    down = f"{known.command} lab down --lab {known.name}"
    try:
        lab = Lab.read(known)
    except HikyakuError as broken:
        return Finding("lab", WARN, broken.what, down if known.is_ours else broken.fix)
    about = f"lab '{known.name}'{whose} is up: {len(lab.topology.nodes)} nodes, {lab.topology.wire}"
    if known.is_orphan:
        return Finding("lab", WARN, f"{about}; that installation is gone", down)
    return Finding("lab", OK, about)


def labs() -> Findings:
    known = all_names()
    for name in known:
        yield _lab(KnownLab(name), "")
    others = other_labs()
    for lab in others:
        yield _lab(lab, f" of {lab.launcher}")
    mine = tuple(lab_id(n) + "-" for n in known)
    strays = [n for n in network.namespaces(CHECKOUT_ID) if not n.startswith(mine)]
    if strays:
        fix = " && ".join(f"ip netns delete {name}" for name in strays)
        yield Finding(
            "lab",
            WARN,
            f"namespaces of no lab: {', '.join(strays)}",
            as_root(fix if known else "hikyaku lab down --all"),  # which ends those that are known
        )
    elif not known and not others:
        yield Finding("lab", OK, "no lab is up, and nothing is left of one")
