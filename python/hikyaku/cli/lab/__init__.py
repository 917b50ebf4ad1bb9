# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab`: a cluster on this machine."""

import click

from ..late import LateCommands

MODULES = {
    "up": ("up", "down", "status"),
    "run": ("exec", "mpirun"),
    "guest": ("guest",),
    "links": ("links", "cut", "repair", "lose"),
    "kill": ("kill",),
    "attack": ("attack",),
}
COMMANDS = {command: module for module, commands in MODULES.items() for command in commands}


@click.group(commands=LateCommands(__package__, COMMANDS, "lab_"))
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
