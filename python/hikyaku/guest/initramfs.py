# SPDX-License-Identifier: BSD-3-Clause
"""The guest's file system: a busybox, our programs, and the libraries they need, in one archive.

The archive has the kernel's "newc" form of cpio (Documentation/driver-api/early-userspace/
buffer-format.rst). DPDK loads its drivers from a directory and skips what is no plain
librte_*.so.ABI, so they lie under their full names.
"""

import gzip
import re
import stat
import tempfile
from pathlib import Path

from .. import process
from ..checkout import built
from ..errors import HikyakuError
from .kernel import Kernel

BUSYBOX = Path("/bin/busybox")
INIT = Path(__file__).parent / "init.sh"
# What runs in the guest; those that are not built are left out.
PROGRAMS = ("p2p/tool/hk_p2p",)
OPTIONAL = ("p2p/router/hk_router",)
DRIVERS = (
    "bus_pci",
    "bus_vdev",
    "mempool_ring",
    "net_e1000",
    "net_vmxnet3",
    "net_tap",
    "net_memif",
    "net_pcap",
)


class Archive:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._known: set[str] = set()

    def _entry(self, name: str, mode: int, data: bytes) -> None:
        fields = [len(self._parts) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = "070701" + "".join(f"{f:08x}" for f in fields)
        raw = head.encode() + name.encode() + b"\0"
        raw += b"\0" * (-len(raw) % 4)
        self._parts.append(raw + data + b"\0" * (-len(data) % 4))

    def directory(self, name: str) -> None:
        parent = str(Path(name).parent)
        if name in (".", "") or name in self._known:
            return
        self.directory(parent)
        self._known.add(name)
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    @staticmethod
    def _place(name: str) -> str:
        """/lib and /lib64 are links into /usr, as the distribution has it."""
        return re.sub(r"^(lib|lib64)/", r"usr/\1/", name.lstrip("/"))

    def file(self, name: str, data: bytes, mode: int = 0o755) -> None:
        name = self._place(name)
        if name in self._known:
            return
        self.directory(str(Path(name).parent))
        self._known.add(name)
        self._entry(name, stat.S_IFREG | mode, data)

    def link(self, name: str, target: str) -> None:
        name = self._place(name)
        if name not in self._known:
            self.directory(str(Path(name).parent))
            self._known.add(name)
            self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def bytes(self) -> bytes:
        self._entry("TRAILER!!!", 0, b"")
        return gzip.compress(b"".join(self._parts), 1)


def _libraries(program: Path) -> set[Path]:
    """What the loader would load, by the paths under which it looks."""
    found = re.findall(r"(/\S+) \(0x", process.run(["ldd", str(program)]))
    return {Path(path) for path in found}


def _drivers() -> list[Path]:
    where = sorted(Path("/usr/lib").glob("*/dpdk/pmds-*"))
    if not where:
        raise HikyakuError("DPDK's drivers are not in /usr/lib/*/dpdk", "run scripts/install-deps")
    found = []
    for name in DRIVERS:
        real = [
            p for p in where[-1].glob(f"librte_{name}.so.*") if not p.is_symlink() and p.is_file()
        ]
        if not real:
            raise HikyakuError(f"DPDK's driver librte_{name} is not in {where[-1]}")
        found.append(real[0])
    return found


def _stripped(program: Path) -> bytes:
    """Without its debugging symbols, which are most of it."""
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / program.name
        process.run(["strip", "-g", "-o", str(copy), str(program)])
        return copy.read_bytes()


def make(kernel: Kernel, extra: list[Path]) -> bytes:
    """The archive; @extra: more programs to have in /bin."""
    if not BUSYBOX.exists():
        raise HikyakuError("busybox is not installed", "run scripts/install-deps")
    archive = Archive()
    for name in ("dev", "proc", "sys", "tmp", "run", "huge", "root"):
        archive.directory(name)
    archive.link("lib", "usr/lib")
    archive.link("lib64", "usr/lib64")
    archive.file("init", INIT.read_bytes())
    archive.file("bin/busybox", BUSYBOX.read_bytes())
    archive.link("bin/sh", "busybox")
    for i, module in enumerate(kernel.modules):
        archive.file(f"modules/{i:02d}-{module.name}", module.read_bytes(), 0o644)

    optional = [built(p) for p in OPTIONAL if _is_built(p)]
    programs = [*(built(p) for p in PROGRAMS), *optional, *extra]
    for program in programs:
        archive.file(f"bin/{program.name}", _stripped(program))
    drivers = _drivers()
    for path in drivers:
        archive.file(str(path), path.read_bytes(), 0o644)
    for library in sorted(set().union(*(_libraries(p) for p in [*programs, *drivers]))):
        real = library.resolve()
        if real.name == library.name:
            archive.file(str(library), real.read_bytes())
        else:  # a second copy of a driver would register itself twice
            archive.file(str(real), real.read_bytes())
            archive.link(str(library), str(real))
    return archive.bytes()


def _is_built(relative: str) -> bool:
    try:
        return built(relative).exists()
    except HikyakuError:
        return False
