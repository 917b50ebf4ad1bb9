# SPDX-License-Identifier: BSD-3-Clause
"""The state of this machine for Hikyaku: what works, what is missing, and the command that fixes
it.

Each finding is one line. `ok`: works. `warn`: works, but not as well as it could, or not for every
user. `missing`: required, but absent. The checks change nothing, except that a port whose driver
must be asked is opened for a moment.

    software.py    programs, Python packages, DPDK, Open MPI
    machine.py     cores, memory, permissions
    network.py     network interfaces, labs
    sharing.py     ports that ranks of a node share
    leftovers.py   daemons and taggers, and the leftovers of dead ones
"""

from collections.abc import Callable

from .finding import MISSING, OK, WARN, Finding, Findings
from .leftovers import daemons, tagger
from .machine import cpu, memory, permissions, realtime
from .network import interfaces, labs, port_auto, xdp_programs
from .sharing import port as shared_port
from .sharing import shared_ports
from .software import dpdk, open_mpi, programs, python

__all__ = ["MISSING", "OK", "WARN", "Finding", "examine"]


CHECKS: tuple[Callable[[], Findings], ...] = (
    programs,
    python,
    dpdk,
    open_mpi,
    cpu,
    memory,
    permissions,
    realtime,
    interfaces,
    port_auto,
    xdp_programs,
    shared_ports,
    daemons,
    tagger,
    labs,
)


def examine(port: str | None = None) -> list[Finding]:
    """All findings. With @port, the last ones say how ranks can share it and tell frames apart,
    so that this answer stays on the screen."""
    found = [finding for check in CHECKS for finding in check()]
    return found + (list(shared_port(port)) if port else [])
