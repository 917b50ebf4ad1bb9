# SPDX-License-Identifier: BSD-3-Clause
"""A kernel for the guest: the distribution's, unpacked from its package, never installed.

It is the flavour for real machines, since that for clouds lacks uio and vfio. apt downloads it
once, and checks it against the signed lists. The unpacked files stay in the build directory, with
their digests; if these do not match, they are unpacked again.
"""

import hashlib
import json
import lzma
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import process
from ..checkout import cache_dir
from ..errors import HikyakuError
from ..lock import locked_directory

META = "linux-image-amd64"
IMAGE = "vmlinux"
MODULES = (
    *("uio_pci_generic", "vfio-pci", "vfio_iommu_type1", "tun"),
    *("dummy", "sch_ingress", "cls_bpf"),  # for the tagger
)
# Loaded by `modprobe` when wanted. The drivers of NICs and NVMe would take the devices.
ON_DEMAND = ("e1000e", "vmxnet3", "virtio_net", "virtio_pci", "nvme", "9p", "9pnet_virtio")
_WANTED = (*MODULES, *ON_DEMAND)
# The directories of these modules and of those that they need.
_PLACES = re.compile(
    r"/kernel/(drivers/(uio|vfio|virtio|nvme/(host|common)|ptp|pps"
    r"|net/(tun|dummy|vmxnet3|virtio_net|net_failover|ethernet/intel/e1000e))"
    r"|net/(9p|core|sched/(sch_ingress|cls_bpf))|fs/(9p|netfs|fscache)"
    r"|virt|lib|block|crypto)\b.*\.ko(\.xz)?$"
)


@dataclass(frozen=True)
class Kernel:
    release: str  # 6.1.0-56-amd64
    image: Path
    modules: list[Path]  # in an order in which they load


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _package() -> str:
    """The package that the distribution's meta package depends on."""
    listing = process.run(["apt-cache", "depends", META])
    match = re.search(r"Depends: (linux-image-\S+)", listing)
    if not match:
        raise HikyakuError(f"apt knows no package {META}", "apt-get update")
    return match[1]


def _download(directory: Path) -> Path:
    try:
        package = _package()
    except HikyakuError:
        process.run(["apt-get", "update", "-q"], timeout=300)
        package = _package()
    done = subprocess.run(
        ["apt-get", "download", "-q", package],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = sorted(directory.glob("linux-image-*.deb"))
    if done.returncode != 0 or not found:
        raise HikyakuError(
            f"the guest's kernel {package} cannot be downloaded: {done.stderr.strip()[-300:]}",
            "apt-get update, and see that the package mirror is reachable",
        )
    return found[0]


def needs(module: bytes) -> list[str]:
    """The names of the modules that @module is linked to."""
    match = re.search(rb"\0depends=([^\0]*)\0", b"\0" + module)
    return [_name(name) for name in (match[1].decode().split(",") if match else []) if name]


def _name(path: str) -> str:
    return Path(path).name.split(".ko")[0].replace("-", "_")


def dependencies(kernel: Kernel) -> str:
    """A modules.dep for modprobe: for each module all that it needs, the last to load first."""
    all_needs: dict[str, list[str]] = {}
    lines = []
    for module in kernel.modules:
        direct = needs(module.read_bytes())
        wanted = {*direct, *(deep for name in direct for deep in all_needs.get(name, ()))}
        all_needs[module.stem] = [name for name in reversed(all_needs) if name in wanted]
        lines.append(" ".join([f"{module.name}:", *(f"{n}.ko" for n in all_needs[module.stem])]))
    return "\n".join(lines) + "\n"


def bare(image: bytes) -> bytes:
    """The kernel in @image, or @image itself if we cannot decompress that. QEMU starts either, but
    the emulated processor takes as long to decompress a kernel as to boot it.

    Linux's boot protocol (Documentation/arch/x86/boot.rst): setup_sects, payload_offset and
    payload_length.
    """
    sectors = 1 + (image[0x1F1] or 4)
    offset, length = struct.unpack_from("<II", image, 0x248)
    packed = image[sectors * 512 + offset :][:length]
    if not packed.startswith(b"\xfd7zXZ\0"):
        return image
    return lzma.LZMADecompressor().decompress(packed)  # the length of the kernel is behind it


def _unpack(package: Path, into: Path) -> None:
    """Unpacks the image, and MODULES with all modules that they need."""
    images: list[str] = []
    found: dict[str, bytes] = {}
    dpkg = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=dpkg.stdout, mode="r|") as tar:
        for member in tar:
            keep = _PLACES.search(member.name)
            image = re.search(r"/boot/vmlinuz-(.+)$", member.name)
            if not member.isfile() or not (keep or image):
                continue
            data = tar.extractfile(member).read()
            if image:
                images.append(image[1])
                (into / IMAGE).write_bytes(bare(data))
            else:
                plain = lzma.decompress(data) if member.name.endswith(".xz") else data
                found[_name(member.name)] = plain
    if dpkg.wait(timeout=60) != 0 or not images:
        raise HikyakuError(f"{package} holds no kernel", f"rm -r {into.parent}, then again")
    order: list[str] = []

    def add(name: str) -> None:
        if name not in order and name in found:
            for needed in needs(found[name]):
                add(needed)
            order.append(name)

    for name in _WANTED:
        add(_name(name))
    (into / "modules").mkdir()
    for name in order:
        (into / "modules" / f"{name}.ko").write_bytes(found[name])
    files = [into / IMAGE, *(into / "modules" / f"{name}.ko" for name in order)]
    state = {
        "wanted": list(_WANTED),
        "release": images[0],
        "package": package.name,
        "modules": order,
        "sha256": {str(f.relative_to(into)): _digest(f) for f in files},
    }
    (into / "kernel.json").write_text(json.dumps(state, indent=1) + "\n")


def _load(directory: Path) -> Kernel | None:
    try:
        state = json.loads((directory / "kernel.json").read_text())
        if state["wanted"] != list(_WANTED):
            return None
        if IMAGE not in state["sha256"]:
            return None
        if any(_digest(directory / name) != sha for name, sha in state["sha256"].items()):
            return None
        modules = [directory / "modules" / f"{name}.ko" for name in state["modules"]]
        return Kernel(state["release"], directory / IMAGE, modules)
    except (OSError, ValueError, KeyError):
        return None


def get() -> Kernel:
    """The kernel, from the cache, or downloaded."""
    base = cache_dir() / "guest"
    base.mkdir(parents=True, exist_ok=True)
    with locked_directory(base, "another process to unpack the guest's kernel", timeout=600):
        kernel = _load(base / "kernel")
        if kernel:
            return kernel
        shutil.rmtree(base / "kernel", ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=base) as work:
            into = Path(work) / "kernel"
            into.mkdir()
            _unpack(_download(Path(work)), into)
            into.rename(base / "kernel")
        kernel = _load(base / "kernel")
    if not kernel:
        raise HikyakuError(f"{base}/kernel is not as it was written", f"rm -r {base}")
    return kernel
