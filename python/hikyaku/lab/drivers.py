# SPDX-License-Identifier: BSD-3-Clause
"""A node's drivers of DPDK: those of virtual devices, since a node has no others.

A start of DPDK so takes 14 ms of a core in place of 35. enter.sh puts the node's directory over
the machine's.
"""

import shutil
from pathlib import Path

from ..dpdk_drivers import driver_directory, driver_files

VIRTUAL = (
    "bus_pci",  # other drivers need its functions
    "bus_vdev",
    "mempool_ring",
    "mempool_stack",
    "net_af_packet",
    "net_af_xdp",
    "net_bond",
    "net_failsafe",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_tap",
    "net_vhost",
    "net_virtio",
)


def write(directory: Path) -> None:
    """Writes `drivers` and `drivers.place`, the path of the machine's, into @directory."""
    machine = driver_directory()
    if machine is None:
        return  # a DPDK elsewhere, or none: nodes load what the machine loads
    own = directory / "drivers"
    own.mkdir()
    own.chmod(0o755)  # also for ranks of other users
    for name in VIRTUAL:
        for file in driver_files(machine, name):
            shutil.copy(file, own / file.name, follow_symlinks=False)
    (directory / "drivers.place").write_text(f"{machine}\n")
