# SPDX-License-Identifier: BSD-3-Clause
"""Options and look-ups that several commands of `hikyaku lab` share."""

from typing import TYPE_CHECKING

from ...errors import HikyakuError
from .. import options

if TYPE_CHECKING:
    from ...lab import Lab

# For a lab that is not there yet.
SWITCHES = ("--wire", "ovs", "--topology", "leaf-spine:2x2x2")

lab_option = options.lab_option("The lab; several may be up at the same time.")


def switched_lab(name: str) -> "Lab":
    """The lab @name, which must have switches (wire ovs)."""
    from ...lab import Lab

    found = Lab.find(name, made=SWITCHES)
    if found.topology.wiring is None:
        raise HikyakuError(
            f"lab '{name}' has no switches",
            found.topology.again(**found.topology.switched()),
        )
    return found
