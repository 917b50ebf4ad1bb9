# SPDX-License-Identifier: BSD-3-Clause
"""The path of a request from one PCI device to the memory of another, and its obstacles.

A switch forwards the request below itself, unless ACS in the port of entry prevents it. ACS request
redirect sends it to the root complex; egress control refuses it (PCI Express Base Specification
4.0, 6.12). Devices under different root ports meet in the root complex; the processor determines
whether that forwards between its ports. An IOMMU that translates for the sender blocks all unmapped
addresses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .pci import DOWNSTREAM, UPSTREAM, Device

SWITCH, ROOT, BLOCKED = "switch", "root complex", "blocked"
# VFIO maps a pop in the IOMMU. uio cannot, and other drivers of the kernel do not.
VFIO = "vfio-pci"
UIO = ("uio_pci_generic", "igb_uio")


@dataclass(frozen=True)
class Path:
    via: str  # SWITCH, ROOT, BLOCKED
    why: str


def _entry(sender: Device, common: int, tree: Mapping[str, Device]) -> Device | None:
    """The port through which @sender's requests enter the common part of both paths."""
    return tree.get(sender.bridges[common]) if common < len(sender.bridges) else None


def _common(a: Device, b: Device) -> int:
    n = 0
    for x, y in zip(a.bridges, b.bridges, strict=False):
        if x != y:
            break
        n += 1
    return n


def _stopped(sender: Device) -> str | None:
    """The reason why an IOMMU blocks @sender with its current driver, or None."""
    kind = sender.iommu_type
    if kind == "blocked" and sender.driver != VFIO:
        return f"the IOMMU blocks all requests of {sender.address}"
    if kind and kind.startswith("DMA") and sender.driver in UIO:
        return (
            f"the IOMMU translates for {sender.address}, and {sender.driver} cannot map the "
            f"memory: bind it to {VFIO}, or boot with iommu=pt"
        )
    return None


def path(sender: Device, target: Device, tree: Mapping[str, Device]) -> Path:
    """The path on which @sender reads or writes @target's memory.

    @tree: all devices, with bridges.
    """
    if not target.bars:
        return Path(BLOCKED, f"{target.address} has no memory that other devices can reach")
    if stopped := _stopped(sender):
        return Path(BLOCKED, stopped)
    common = _common(sender, target)
    if sender.host_bridge != target.host_bridge:
        why = (
            f"different host bridges, {sender.host_bridge} and {target.host_bridge}: few "
            "processors forward between them"
        )
    elif sender.address.rpartition(".")[0] == target.address.rpartition(".")[0]:
        return Path(SWITCH, "functions of one device: the device decides")
    elif common == 0:
        why = (
            "no switch above both: between root ports, whether it is forwarded is the "
            "processor's affair"
        )
    else:
        return _meeting(sender, target, common, tree)
    return Path(ROOT, why)


def _meeting(sender: Device, target: Device, common: int, tree: Mapping[str, Device]) -> Path:
    """The path of devices below the same @common bridges: is the last of these a switch?"""
    name = sender.bridges[common - 1]
    meeting = tree.get(name)
    if meeting is None or meeting.port is None:
        return Path(
            ROOT, f"{name} above both does not say whether it is a switch (run this as root)"
        )
    if meeting.port != UPSTREAM:
        return Path(ROOT, f"both under {name}, a {meeting.port} and no switch")
    port, peer = _entry(sender, common, tree), _entry(target, common, tree)
    if port is None or port.port != DOWNSTREAM:
        return Path(SWITCH, f"both under the switch {name}")
    return _judge_acs(name, port, peer)


def _judge_acs(switch: str, port: Device, peer: Device | None) -> Path:
    """The path through @switch, which the request enters by @port, to the side of @peer."""
    if port.acs is None:
        return Path(SWITCH, f"both under the switch {switch}; no ACS in {port.address}")
    if port.acs.redirects:
        return Path(
            ROOT,
            f"ACS in {port.address} redirects requests from the switch upwards (to let them stay: "
            f"setpci -s {port.address} ECAP_ACS+6.w=0:4)",
        )
    if port.acs.egress_control and peer and port.acs.vector >> (peer.port_number & 31) & 1:
        return Path(
            BLOCKED, f"ACS egress control in {port.address} refuses what goes to {peer.address}"
        )
    return Path(SWITCH, f"both under the switch {switch}; ACS lets requests stay")


def pairs(tree: Mapping[str, Device]) -> list[tuple[Device, Device, Path]]:
    """Each ordered pair of devices except bridges, the second one with memory."""
    ends = [d for d in tree.values() if not d.is_bridge]
    return [(a, b, path(a, b, tree)) for a in ends for b in ends if a is not b and b.bars]


def grouped(found: list[tuple[Device, Device, Path]]) -> list[tuple[list[str], list[str], Path]]:
    """@found as few rows: senders, the devices that each of them reaches, and the way. A device
    that is on both sides does not send to itself."""
    by_target: dict[tuple[str, Path], set[str]] = {}
    for sender, target, way in found:
        by_target.setdefault((target.address, way), set()).add(sender.address)
    rows: dict[tuple[Path, frozenset[str]], list[str]] = {}
    for (target, way), senders in by_target.items():
        rows.setdefault((way, frozenset(senders | {target})), []).append(target)
    return [
        (sorted(members - set(targets) if len(targets) == 1 else members), sorted(targets), way)
        for (way, members), targets in rows.items()
    ]
