# SPDX-License-Identifier: BSD-3-Clause
"""Options and look-ups that several commands of `hikyaku lab` share."""

from typing import TYPE_CHECKING

from ...errors import HikyakuError
from .. import options

if TYPE_CHECKING:
    from ...lab import Lab

SHAPE = "leaf-spine:2x2x2"  # for a lab with switches that is not there yet

lab_option = options.lab_option("The lab; several may be up at the same time.")


def switched_lab(name: str) -> "Lab":
    """The lab @name, which must have switches (wire ovs)."""
    from ...lab import Lab, lab_directory, network

    network.require_root()
    if not lab_directory(name).exists():
        wanted = ["--lab", name] if name != "default" else []
        made = ["hikyaku", "lab", "up", *wanted, "--wire", "ovs", "--topology", SHAPE]
        raise HikyakuError(f"lab '{name}' is not up", " ".join(made))
    found = Lab.find(name)
    if found.topology.wiring is None:
        raise HikyakuError(
            f"lab '{name}' has no switches",
            found.topology.again(**found.topology.switched()),
        )
    return found
