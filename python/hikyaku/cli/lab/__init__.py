# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab`: a cluster on this machine."""

import click

from .attack import lab_attack
from .guest import guest
from .kill import lab_kill
from .links import lab_cut, lab_links, lab_lose, lab_repair
from .run import lab_exec, lab_mpirun
from .up import lab_down, lab_status, lab_up

COMMANDS = [lab_up, lab_down, lab_status, lab_exec, lab_mpirun, guest]
COMMANDS += [lab_links, lab_cut, lab_repair, lab_lose, lab_kill, lab_attack]


@click.group(commands=COMMANDS)
def lab() -> None:
    """A cluster on this machine: network namespaces as nodes.

    \b
    Example:
      hikyaku lab up --nodes 2 --wire memif
      hikyaku lab mpirun -np 2 ./program
      hikyaku lab exec node1 ip address
      hikyaku lab status
      hikyaku lab down
    """
