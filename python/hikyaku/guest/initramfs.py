# SPDX-License-Identifier: BSD-3-Clause
"""The guest's file system: busybox, our programs and the libraries that they need, as an archive.

busybox writes it in the form of cpio that the kernel reads ("newc").
"""

import gzip
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .. import process
from ..called import install_deps
from ..checkout import built
from ..dpdk_drivers import driver_directory, driver_files
from ..errors import HikyakuError
from .kernel import MODULES, Kernel, dependencies

BUSYBOX = Path("/bin/busybox")
INIT = Path(__file__).parent / "init.sh"
BIND = Path(__file__).parent / "bind.sh"
HOST = Path(__file__).parent / "host.sh"
# Programs for the guest; an optional one is left out if it is not built.
PROGRAMS = ("systems/devmem/tool/hk_devmem",)
OPTIONAL = ("systems/devmem/router/hk_router",)
DRIVERS = (
    "bus_pci",
    "bus_vdev",
    "mempool_ring",
    "net_e1000",
    "net_vmxnet3",
    "net_virtio",
    "net_tap",
    "net_memif",
    "net_pcap",
)


class Tree:
    """The files of the archive, below @root. The first file of a name stays."""

    def __init__(self, root: Path):
        self._root = root

    def path(self, name: str) -> Path:
        """The place of @name. /lib and /lib64 are links into /usr, as in the distribution."""
        path = self._root / re.sub(r"^(lib|lib64)/", r"usr/\1/", name.lstrip("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def copy(self, source: Path, name: str, mode: int = 0o755) -> None:
        path = self.path(name)
        if not path.exists():
            shutil.copyfile(source, path)
            path.chmod(mode)

    def link(self, name: str, target: str) -> None:
        path = self.path(name)
        if not path.exists() and not path.is_symlink():
            path.symlink_to(target)

    def archive(self) -> bytes:
        names = "\n".join(str(p.relative_to(self._root)) for p in sorted(self._root.rglob("*")))
        argv = [str(BUSYBOX), "cpio", "-o", "-H", "newc", "-R", "0:0"]
        done = subprocess.run(
            argv, input=names.encode(), cwd=self._root, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise HikyakuError(f"busybox cpio failed: {done.stderr.decode(errors='replace')}")
        return gzip.compress(done.stdout, 1)


def _libraries(program: Path) -> set[Path]:
    """The libraries that the loader would load, by the paths where it looks."""
    found = re.findall(r"(/\S+) \(0x", process.run(["ldd", str(program)]))
    return {Path(path) for path in found}


def _drivers() -> list[Path]:
    where = driver_directory()
    if where is None:
        raise HikyakuError("DPDK's drivers are not in /usr/lib/*/dpdk", install_deps())
    found = []
    for name in DRIVERS:
        files = driver_files(where, name)
        if not files:
            raise HikyakuError(f"DPDK's driver librte_{name} is not in {where}")
        found.append(files[0])
    return found


def make(kernel: Kernel, extra: list[Path]) -> bytes:
    """The archive. @extra: more programs for /bin."""
    if not BUSYBOX.exists():
        raise HikyakuError("busybox is not installed", install_deps())
    with tempfile.TemporaryDirectory(prefix="hikyaku-initramfs-") as work:
        tree = Tree(Path(work))
        _fill(tree, kernel, extra)
        return tree.archive()


def _fill(tree: Tree, kernel: Kernel, extra: list[Path]) -> None:
    for name in ("dev", "proc", "sys", "tmp", "run", "huge", "root", "usr/lib", "usr/lib64"):
        tree.path(name).mkdir()
    tree.link("lib", "usr/lib")
    tree.link("lib64", "usr/lib64")
    tree.copy(INIT, "init")
    tree.copy(BIND, "bin/bind")
    tree.copy(HOST, "bin/host")
    tree.copy(BUSYBOX, "bin/busybox")
    tree.link("bin/sh", "busybox")
    modules = f"lib/modules/{kernel.release}"
    for module in kernel.modules:
        tree.copy(module, f"{modules}/{module.name}", 0o644)
    tree.path(f"{modules}/modules.dep").write_text(dependencies(kernel))
    tree.path("etc/modules").write_text("\n".join(MODULES) + "\n")

    optional = [built(p) for p in OPTIONAL if _is_built(p)]
    programs = [*(built(p) for p in PROGRAMS), *optional, *extra]
    for program in programs:
        # without debugging symbols, which are most of it
        process.run(["strip", "-g", "-o", str(tree.path(f"bin/{program.name}")), str(program)])
    drivers = _drivers()
    for path in drivers:
        tree.copy(path, str(path), 0o644)
        tree.link(str(path).rpartition(".")[0], path.name)  # by which programs of the host load it
    for library in sorted(set().union(*(_libraries(p) for p in [*programs, *drivers]))):
        real = library.resolve()
        if real.name == library.name:
            tree.copy(real, str(library))
        else:  # a second copy of a driver would register itself twice
            tree.copy(real, str(real))
            tree.link(str(library), str(real))


def _is_built(relative: str) -> bool:
    try:
        return built(relative).exists()
    except HikyakuError:
        return False
