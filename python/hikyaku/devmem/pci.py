# SPDX-License-Identifier: BSD-3-Clause
"""PCI devices from a tree of files: /sys, or the fake tree of a test. Only reads.

The configuration space has the form of the PCI Express Base Specification 4.0. The PCI Express
capability (7.5.3) gives the type of a port. The extended capability ACS (7.7.8) gives its effect on
requests between its neighbours. Without privileges only 64 bytes are readable, so both are unknown.
"""

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import HikyakuError

ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
CAP_EXPRESS, EXT_ACS = 0x10, 0x000D
BAR_MEMORY, BAR_PREFETCH = 0x200, 0x2000
ROOT_PORT, UPSTREAM, DOWNSTREAM = "root port", "upstream port", "downstream port"
PORT_TYPES = {
    0: "endpoint",
    1: "legacy endpoint",
    4: ROOT_PORT,
    5: UPSTREAM,
    6: DOWNSTREAM,
    7: "bridge to PCI",
    8: "bridge from PCI",
    9: "integrated endpoint",
    10: "event collector",
}
CLASSES = {
    0x01: "storage",
    0x02: "network",
    0x03: "display",
    0x05: "memory",
    0x06: "bridge",
    0x0B: "processor",
    0x12: "accelerator",
}
NVME = 0x010802


@dataclass(frozen=True)
class Acs:
    """The enabled functions (the control register), and the vector of egress control."""

    control: int
    vector: int = 0

    @property
    def redirects(self) -> bool:
        return bool(self.control & 1 << 2)

    @property
    def egress_control(self) -> bool:
        return bool(self.control & 1 << 5)


@dataclass(frozen=True)
class Bar:
    number: int
    size: int
    prefetchable: bool


@dataclass(frozen=True)
class Device:
    address: str
    vendor: int
    device: int
    class_code: int
    host_bridge: str  # pci0000:00
    bridges: tuple[str, ...]  # from the root down to the device's own bus
    driver: str | None = None
    iommu_group: str | None = None
    iommu_type: str | None = None  # DMA, DMA-FQ, identity, blocked
    numa: int = -1
    bars: tuple[Bar, ...] = ()
    port: str | None = None  # of PORT_TYPES; None: unknown, or conventional PCI
    port_number: int = 0
    acs: Acs | None = None
    cmb: str | None = field(default=None)  # of an NVMe controller, in words

    @property
    def is_bridge(self) -> bool:
        return self.class_code >> 16 == 0x06

    @property
    def kind(self) -> str:
        if self.class_code == NVME:
            return "NVMe"
        return CLASSES.get(self.class_code >> 16, f"class {self.class_code:06x}")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _number(path: Path, what: str) -> int:
    text = _text(path)
    try:
        return int(text or "", 0)
    except ValueError:
        raise HikyakuError(
            f"{path} is {text!r}, not a {what}", "is this a tree of the kernel's sysfs?"
        ) from None


def _link(path: Path) -> str | None:
    try:
        return path.readlink().name
    except OSError:
        return None


def express(config: bytes) -> tuple[str | None, int]:
    """The port's type and number, from the list of capabilities, which may be damaged or
    circular."""
    at = config[0x34] & 0xFC if len(config) >= 0x40 and config[6] & 0x10 else 0
    for _ in range(48):
        if at < 0x40 or at + 16 > len(config):
            break
        if config[at] == CAP_EXPRESS:
            (flags,) = struct.unpack_from("<H", config, at + 2)
            (link,) = struct.unpack_from("<I", config, at + 12)
            return PORT_TYPES.get(flags >> 4 & 0xF), link >> 24
        at = config[at + 1] & 0xFC
    return None, 0


def acs(config: bytes) -> Acs | None:
    at = 0x100
    for _ in range(96):
        if at < 0x100 or at + 8 > len(config):
            break
        (head,) = struct.unpack_from("<I", config, at)
        if head & 0xFFFF == EXT_ACS:
            (control,) = struct.unpack_from("<H", config, at + 6)
            vector = struct.unpack_from("<I", config, at + 8)[0] if at + 12 <= len(config) else 0
            return Acs(control, vector)
        at = head >> 20 & 0xFFC
    return None


def _bars(directory: Path) -> tuple[Bar, ...]:
    found = []
    lines = (_text(directory / "resource") or "").splitlines()
    for i, line in enumerate(lines[:6]):
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError:
            raise HikyakuError(f"{directory}/resource is not as expected: {line!r}") from None
        if flags & BAR_MEMORY and end > start:
            found.append(Bar(i, end - start + 1, bool(flags & BAR_PREFETCH)))
    return tuple(found)


def _cmb(directory: Path) -> str:
    """The controller memory buffer, as the kernel's NVMe driver reports it. Without that driver,
    only a pop reads it."""
    for control in sorted((directory / "nvme").glob("nvme*")):
        values = {}
        for name in ("cmbloc", "cmbsz"):
            match = re.search(rf"{name}\s*:\s*(?:0x|x)([0-9a-f]+)", _text(control / "cmb") or "")
            values[name] = int(match[1], 16) if match else 0
        size = (values["cmbsz"] >> 12) * (4096 << 4 * (values["cmbsz"] >> 8 & 0xF))
        return f"{size} bytes in BAR {values['cmbloc'] & 7}" if size else "none"
    return "unknown: hk_devmem pops pop:cmb:" + directory.name


def _device(link: Path) -> Device:
    real = link.resolve()
    ancestors = [p.name for p in real.parents]
    host = next((n for n in ancestors if re.fullmatch(r"pci[0-9a-f]{4}:[0-9a-f]{2}", n)), "?")
    bridges = tuple(n for n in reversed(ancestors) if ADDRESS.fullmatch(n))
    try:
        config = (real / "config").read_bytes()
    except OSError:
        config = b""
    class_code = _number(real / "class", "class")
    port, number = express(config)
    try:
        numa = int(_text(real / "numa_node") or -1)
    except ValueError:
        numa = -1
    return Device(
        address=link.name,
        vendor=_number(real / "vendor", "vendor"),
        device=_number(real / "device", "device"),
        class_code=class_code,
        host_bridge=host,
        bridges=bridges,
        driver=_link(real / "driver"),
        iommu_group=_link(real / "iommu_group"),
        iommu_type=_text(real / "iommu_group" / "type"),
        numa=numa,
        bars=_bars(real),
        port=port,
        port_number=number,
        acs=acs(config),
        cmb=_cmb(real) if class_code == NVME else None,
    )


def read_tree(sysfs: Path = Path("/sys")) -> dict[str, Device]:
    """All PCI devices below @sysfs, by address."""
    base = sysfs / "bus" / "pci" / "devices"
    if not base.is_dir():
        raise HikyakuError(f"{base} is not there", "mount sysfs, or name another tree by --sysfs")
    links = [p for p in sorted(base.iterdir()) if ADDRESS.fullmatch(p.name)]
    return {link.name: _device(link) for link in links}
