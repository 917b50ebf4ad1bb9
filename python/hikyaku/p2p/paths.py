# SPDX-License-Identifier: BSD-3-Clause
"""Which way a request from one PCI device to the memory of another takes, and what stops it.

A switch hands it on below itself, unless ACS in the port where it enters says otherwise: request
redirect sends it up to the root complex, egress control refuses it (PCI Express Base Specification
4.0, 6.12). Devices under different root ports meet in the root complex, and whether that forwards
between its ports is the processor's affair. An IOMMU that translates for the sender stops all
that was not mapped for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .pci import DOWNSTREAM, UPSTREAM, Device

SWITCH, ROOT, BLOCKED = "switch", "root complex", "blocked"
# These tell an IOMMU of a pop; uio cannot, and another driver of the kernel's does not.
VFIO = "vfio-pci"
UIO = ("uio_pci_generic", "igb_uio")


@dataclass(frozen=True)
class Way:
    via: str  # SWITCH, ROOT, BLOCKED
    why: str


def _entry(sender: Device, common: int, tree: Mapping[str, Device]) -> Device | None:
    """The port through which @sender's requests enter what both have in common."""
    return tree.get(sender.bridges[common]) if common < len(sender.bridges) else None


def _common(a: Device, b: Device) -> int:
    n = 0
    for x, y in zip(a.bridges, b.bridges, strict=False):
        if x != y:
            break
        n += 1
    return n


def _stopped(sender: Device) -> str | None:
    """Does an IOMMU stop @sender, as it is bound now?"""
    kind = sender.iommu_type
    if kind == "blocked" and sender.driver != VFIO:
        return f"the IOMMU lets nothing of {sender.address} through"
    if kind and kind.startswith("DMA") and sender.driver in UIO:
        return (
            f"the IOMMU translates for {sender.address}, and {sender.driver} cannot tell it of "
            f"the memory: bind it to {VFIO}, or boot with iommu=pt"
        )
    return None


def way(sender: Device, target: Device, tree: Mapping[str, Device]) -> Way:
    """@sender reads or writes @target's memory. @tree: all devices, bridges included."""
    if not target.bars:
        return Way(BLOCKED, f"{target.address} has no memory that others could reach")
    if stopped := _stopped(sender):
        return Way(BLOCKED, stopped)
    common = _common(sender, target)
    if sender.host_bridge != target.host_bridge:
        why = (
            f"different host bridges, {sender.host_bridge} and {target.host_bridge}: few "
            "processors forward between them"
        )
    elif sender.address.rpartition(".")[0] == target.address.rpartition(".")[0]:
        return Way(SWITCH, "functions of one device: it decides by itself")
    elif common == 0:
        why = (
            "no switch above both: between root ports, whether it is forwarded is the "
            "processor's affair"
        )
    else:
        return _meeting(sender, target, common, tree)
    return Way(ROOT, why)


def _meeting(sender: Device, target: Device, common: int, tree: Mapping[str, Device]) -> Way:
    """Both lie below the same @common bridges: is the last of them a switch?"""
    name = sender.bridges[common - 1]
    meeting = tree.get(name)
    if meeting is None or meeting.port is None:
        return Way(
            ROOT, f"{name} above both does not say whether it is a switch (run this as root)"
        )
    if meeting.port != UPSTREAM:
        return Way(ROOT, f"both under {name}, a {meeting.port} and no switch")
    port, peer = _entry(sender, common, tree), _entry(target, common, tree)
    if port is None or port.port != DOWNSTREAM:
        return Way(SWITCH, f"both under the switch {name}")
    return _judge_acs(name, port, peer)


def _judge_acs(switch: str, port: Device, peer: Device | None) -> Way:
    """What @port, by which the request enters @switch, does with one to @peer's side."""
    if port.acs is None:
        return Way(SWITCH, f"both under the switch {switch}; no ACS in {port.address}")
    if port.acs.redirects:
        return Way(
            ROOT,
            f"ACS in {port.address} redirects requests from the switch upwards (to let them stay: "
            f"setpci -s {port.address} ECAP_ACS+6.w=0:4)",
        )
    if port.acs.egress_control and peer and port.acs.vector >> (peer.port_number & 31) & 1:
        return Way(
            BLOCKED, f"ACS egress control in {port.address} refuses what goes to {peer.address}"
        )
    return Way(SWITCH, f"both under the switch {switch}; ACS lets requests stay")


def pairs(tree: Mapping[str, Device]) -> list[tuple[Device, Device, Way]]:
    """Each ordered pair of devices that are no bridges, the second with memory."""
    ends = [d for d in tree.values() if not d.is_bridge]
    return [(a, b, way(a, b, tree)) for a in ends for b in ends if a is not b and b.bars]
