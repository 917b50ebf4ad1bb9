# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem list` on simulated PCI trees: switches, ACS, IOMMUs, damaged files."""

import json
import random
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from hikyaku.checkout import ROOT
from hikyaku.devmem.paths import Path as Path_
from hikyaku.devmem.paths import grouped, path
from hikyaku.devmem.pci import acs, express, read_tree
from hikyaku.errors import HikyakuError

ENDPOINT, ROOT_PORT, UPSTREAM, DOWNSTREAM = 0, 4, 5, 6
BAR = "0x0000000800000000 0x0000000800ffffff 0x000000000014220c\n"
NO_BAR = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"


def config(port: int, acs_control: int | None = None, vector: int = 0, number: int = 0) -> bytes:
    """A configuration space with the PCI Express capability, and ACS if given."""
    space = bytearray(4096)
    space[6] = 0x10
    space[0x34] = 0x40
    space[0x40:0x42] = bytes([0x01, 0x60])  # power management, then the next
    space[0x60:0x62] = bytes([0x10, 0x00])
    struct.pack_into("<H", space, 0x62, 2 | port << 4)
    struct.pack_into("<I", space, 0x6C, number << 24)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)  # error reporting
    if acs_control is not None:
        struct.pack_into("<I", space, 0x140, 0x000D | 1 << 16)
        struct.pack_into("<H", space, 0x146, acs_control)
        struct.pack_into("<I", space, 0x148, vector)
    return bytes(space)


class Tree:
    """A simulated /sys: add("pci0000:00/0000:00:01.0", …)."""

    def __init__(self, root: Path):
        self.root = root
        (root / "bus/pci/devices").mkdir(parents=True)

    def add(
        self,
        path: str,
        space: bytes,
        *,
        class_code: int = 0x020000,
        bars: str = BAR,
        driver: str = "",
        iommu: str = "",
    ) -> None:
        real = self.root / "devices" / path
        real.mkdir(parents=True)
        for name, text in {
            "vendor": "0x15b3",
            "device": "0x1021",
            "class": f"{class_code:#08x}",
            "numa_node": "-1",
            "resource": bars + NO_BAR * 6,
        }.items():
            (real / name).write_text(text + "\n")
        (real / "config").write_bytes(space)
        if driver:
            (real / "driver").symlink_to(f"../../bus/pci/drivers/{driver}")
        if iommu:
            group = self.root / "kernel/iommu_groups" / real.name
            group.mkdir(parents=True)
            (group / "type").write_text(iommu + "\n")
            (real / "iommu_group").symlink_to(group)
        (self.root / "bus/pci/devices" / real.name).symlink_to(real)


BRIDGE = {"class_code": 0x060400, "bars": NO_BAR}
SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0"
NIC, SSD = "0000:03:00.0", "0000:04:00.0"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def under_a_switch(
    tree: Tree,
    nic_acs: int | None = None,
    vector: int = 0,
    nic: dict | None = None,
    ssd: dict | None = None,
) -> None:
    tree.add("pci0000:00/0000:00:01.0", config(ROOT_PORT), **BRIDGE)
    tree.add(SWITCH, config(UPSTREAM), **BRIDGE)
    tree.add(f"{SWITCH}/0000:02:00.0", config(DOWNSTREAM, nic_acs, vector, number=1), **BRIDGE)
    tree.add(f"{SWITCH}/0000:02:01.0", config(DOWNSTREAM, 0, number=2), **BRIDGE)
    tree.add(f"{SWITCH}/0000:02:00.0/{NIC}", config(ENDPOINT), **(nic or {}))
    tree.add(f"{SWITCH}/0000:02:01.0/{SSD}", config(ENDPOINT), class_code=0x010802, **(ssd or {}))


def judged(tree: Tree, sender: str, target: str) -> tuple[str, str]:
    found = read_tree(tree.root)
    w = path(found[sender], found[target], found)
    return w.via, w.why


@pytest.mark.parametrize(
    "control,vector,via,why",
    [
        (None, 0, "switch", "no ACS in 0000:02:00.0"),
        (0x00, 0, "switch", "ACS lets requests stay"),
        (0x1D, 0, "root complex", "ACS in 0000:02:00.0 redirects"),
        (0x20, 1 << 2, "blocked", "egress control in 0000:02:00.0 refuses what goes to 0000:02:01"),
        (0x20, 1 << 1, "switch", "ACS lets requests stay"),
        (0x24, 1 << 2, "root complex", "redirects"),
    ],
)
def test_acs(tree: Tree, control: int | None, vector: int, via: str, why: str) -> None:
    under_a_switch(tree, control, vector)
    got = judged(tree, NIC, SSD)
    assert got[0] == via and why in got[1], got
    # the other direction enters by the other port, whose ACS is off
    assert judged(tree, SSD, NIC)[0] == "switch"


def test_root_complex(tree: Tree) -> None:
    under_a_switch(tree)
    tree.add("pci0000:00/0000:00:02.0", config(ROOT_PORT), **BRIDGE)
    tree.add("pci0000:00/0000:00:02.0/0000:05:00.0", config(ENDPOINT))
    tree.add("pci0000:80/0000:80:01.0", config(ROOT_PORT), **BRIDGE)
    tree.add("pci0000:80/0000:80:01.0/0000:81:00.0", config(ENDPOINT))
    tree.add("pci0000:80/0000:80:01.0/0000:81:00.1", config(ENDPOINT))
    via, why = judged(tree, NIC, "0000:05:00.0")
    assert via == "root complex" and "no switch above both" in why
    via, why = judged(tree, NIC, "0000:81:00.0")
    assert via == "root complex" and "pci0000:00 and pci0000:80" in why
    via, why = judged(tree, "0000:81:00.1", "0000:81:00.0")
    assert via == "switch" and "functions of one device" in why


def test_iommu(tree: Tree) -> None:
    uio = {"driver": "uio_pci_generic", "iommu": "DMA-FQ"}
    under_a_switch(tree, nic=uio, ssd={"driver": "vfio-pci", "iommu": "DMA"})
    via, why = judged(tree, NIC, SSD)
    assert via == "blocked" and "iommu=pt" in why and NIC in why
    assert judged(tree, SSD, NIC)[0] == "switch"


def test_no_memory(tree: Tree) -> None:
    under_a_switch(tree, ssd={"bars": NO_BAR})
    via, why = judged(tree, NIC, SSD)
    assert via == "blocked" and f"{SSD} has no memory" in why


def test_unprivileged(tree: Tree) -> None:
    """Other users than root read 64 bytes of the configuration space, without capabilities."""
    under_a_switch(tree)
    for file in tree.root.glob("devices/**/config"):
        file.write_bytes(file.read_bytes()[:64])
    via, why = judged(tree, NIC, SSD)
    assert via == "root complex" and "run this as root" in why


def test_damaged_trees(tree: Tree) -> None:
    with pytest.raises(HikyakuError, match="is not there"):
        read_tree(tree.root / "nowhere")
    under_a_switch(tree)
    (tree.root / "bus/pci/devices" / NIC / "resource").write_text("garbage\n")
    with pytest.raises(HikyakuError, match=f"{NIC}/resource is not as expected"):
        read_tree(tree.root)
    (tree.root / "bus/pci/devices" / NIC / "class").write_text("")
    with pytest.raises(HikyakuError, match="not a class"):
        read_tree(tree.root)


def test_any_configuration_space() -> None:
    """Its lists may point anywhere, even in a circle. Both readers return."""
    rng = random.Random(1)
    for _ in range(2000):
        space = bytearray(rng.randbytes(rng.choice([0, 63, 64, 256, 4096])))
        if len(space) > 64:
            space[6] |= 0x10
        express(bytes(space))
        acs(bytes(space))
    loop = bytearray(config(DOWNSTREAM))
    loop[0x61] = 0x40
    loop[0x60] = 1
    assert express(bytes(loop)) == (None, 0)
    struct.pack_into("<I", loop, 0x100, 1 | 1 << 16 | 0x100 << 20)
    assert acs(bytes(loop)) is None


def test_command(tree: Tree) -> None:
    under_a_switch(tree, 0x1D)
    argv = [str(ROOT / "hikyaku"), "devmem", "list", "--sysfs", str(tree.root)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "BAR 0: 16M" in shown and "redirects" in shown and "unknown: hk_devmem pops" in shown
    document = subprocess.run(
        [*argv, "--json"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    pairs = {(p["from"], p["to"]): p["via"] for p in json.loads(document)["pairs"]}
    assert pairs == {(NIC, SSD): "root complex", (SSD, NIC): "switch"}


def test_the_table_names_each_request_once():
    """Requests between devices with random reasons, told by few rows and read back."""
    rng = random.Random(7)
    reasons = [Path_("switch", "a"), Path_("root complex", "b"), Path_("root complex", "c")]
    for _ in range(200):
        names = [f"0000:00:0{i}.0" for i in range(rng.randrange(1, 7))]
        ways = rng.choices(reasons, k=len(names) ** 2)
        found = [
            (SimpleNamespace(address=a), SimpleNamespace(address=b), ways.pop())
            for a in names
            for b in names
            if a != b
        ]
        told = [
            (sender, target, way)
            for senders, targets, way in grouped(found)
            for sender in senders
            for target in targets
            if sender != target
        ]
        assert sorted(told, key=repr) == sorted(
            ((a.address, b.address, way) for a, b, way in found), key=repr
        )


def test_devices_that_all_reach_each_other_are_one_row():
    devices = [SimpleNamespace(address=f"0000:00:0{i}.0") for i in range(5)]
    way = Path_("root complex", "no switch above both")
    rows = grouped([(a, b, way) for a in devices for b in devices if a is not b])
    assert rows == [([d.address for d in devices], [d.address for d in devices], way)]
