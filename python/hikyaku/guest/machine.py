# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's command line: a machine that is emulated in software (TCG), with NICs and devices with
memory.

The addresses are fixed, so that tests and users can name them. The first NIC is 0000:00:03.0, the
first device with memory 0000:00:08.0. The other end of NIC i is a datagram socket with one frame
per datagram. The NIC receives frames from nic<i>.in, and sends frames to nic<i>.out.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from .kernel import Kernel

FIRST_NIC, FIRST_DEVICE, HOST_FILES = 3, 8, 12
DEVICES = ("ivshmem", "nvme")
NIC_MODELS = ("e1000e", "vmxnet3", "virtio-net-pci")
NICS = (2, 4)


@dataclass(frozen=True)
class Machine:
    nics: int = 2
    devices: tuple[str, ...] = ("ivshmem",)
    iommu: bool = False
    nic_model: str = "e1000e"
    device_mb: int = 16  # of memory on each device
    memory_mb: int = 640
    huge_mb: int = 160
    # With two there is a race in QEMU before 8.1, which does not lock the page whose code it
    # translates. The kernel patches its code by way of breakpoints. So one processor may translate
    # a breakpoint while the other replaces it, and keep it for ever.
    processors: int = 1
    number: int = 0  # of the guest, in the MACs of its NICs; joined guests have different ones
    host_files: bool = False  # the host's file system, read-only, mounted at /host by `host`

    def nic(self, i: int) -> str:
        return f"0000:00:{FIRST_NIC + i:02x}.0"

    def device(self, kind: str) -> str:
        return f"0000:00:{FIRST_DEVICE + self.devices.index(kind):02x}.0"

    def mac(self, i: int) -> str:
        return f"52:54:00:68:{0x6B + self.number:02x}:{i:02x}"

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Machine":
        return cls(**{**data, "devices": tuple(data["devices"])})


def command(machine: Machine, kernel: Kernel, directory: Path) -> list[str]:
    """The command line. All files are in @directory, whose path is short enough for sockets."""
    append = [
        "console=ttyS0",
        "quiet",
        "panic=-1",
        "random.trust_cpu=on",
        "tsc=reliable",
        # The check counts ticks in a time that a busy host can take away whole: the kernel panics.
        "no_timer_check",
        # Both would take a third of the time: nobody attacks the guest, and the host has tested it.
        "mitigations=off",
        "cryptomgr.notests",
        f"hugepages={machine.huge_mb // 2}",
    ]
    if machine.iommu:
        # uio drivers need what is not translated, and vfio asks for its own domain anyway
        append += ["intel_iommu=on", "iommu=pt"]
    argv = [
        "qemu-system-x86_64",
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem"),
        *("-smp", str(machine.processors)),
        *("-m", f"{machine.memory_mb}"),
        *("-kernel", str(kernel.image), "-initrd", str(directory / "initramfs")),
        *("-append", " ".join(append)),
        *("-serial", f"file:{directory}/serial.log"),
        *("-chardev", f"socket,id=agent,path={directory}/agent,server=on,wait=off"),
        *("-serial", "chardev:agent"),
    ]
    if machine.iommu:
        argv += ["-device", "intel-iommu,aw-bits=48,intremap=on"]
    if machine.host_files:
        argv += [
            *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", f"virtio-9p-pci,fsdev=host,mount_tag=host,addr={HOST_FILES:#x}"),
        ]
    # virtio devices address memory past the IOMMU otherwise
    iommu = (
        ",disable-legacy=on,iommu_platform=on"
        if machine.iommu and "virtio" in machine.nic_model
        else ""
    )
    for i in range(machine.nics):
        argv += [
            "-netdev",
            f"dgram,id=n{i},local.type=unix,local.path={directory}/nic{i}.in,"
            f"remote.type=unix,remote.path={directory}/nic{i}.out",
            "-device",
            f"{machine.nic_model},netdev=n{i},addr={FIRST_NIC + i:#x},mac={machine.mac(i)}{iommu}",
        ]
    for k, kind in enumerate(machine.devices):
        at = f"addr={FIRST_DEVICE + k:#x}"
        if kind == "ivshmem":
            argv += [
                "-object",
                f"memory-backend-file,id=pm{k},share=on,mem-path={directory}/ivshmem,"
                f"size={machine.device_mb}M",
                *("-device", f"ivshmem-plain,id=dev{k},memdev=pm{k},{at}"),
            ]
        else:
            argv += [
                *("-drive", f"if=none,id=disk{k},format=raw,file={directory}/disk"),
                "-device",
                f"nvme,id=dev{k},serial=hikyaku,drive=disk{k},cmb_size_mb={machine.device_mb},{at}",
            ]
    return argv
