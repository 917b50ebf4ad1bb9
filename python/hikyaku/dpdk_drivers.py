# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's drivers on this machine.

DPDK loads each driver in its directory at its start, whether a port needs it or not. Debian has
128, and they take more than half of that time. DPDK skips names other than librte_*.so.ABI, so a
copy of a driver keeps its full name.
"""

from pathlib import Path


def driver_directory() -> Path | None:
    """The directory from which DPDK loads its drivers. None if there is none."""
    found = sorted(Path("/usr/lib").glob("*/dpdk/pmds-*"))
    return found[-1] if found else None


def driver_files(directory: Path, name: str) -> list[Path]:
    """The file of driver @name, such as "net_memif", first, and then links to it. Programs that
    link a driver find it by them. Empty if it is not installed."""
    found = directory.glob(f"librte_{name}.so.*")
    return sorted((p for p in found if p.is_file()), key=Path.is_symlink)
