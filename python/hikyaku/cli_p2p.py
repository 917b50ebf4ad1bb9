# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku p2p`: packets that stay on the devices."""

import click

from .cli_p2p_list import list_
from .cli_p2p_measure import measure
from .cli_route import ask, route


@click.group()
def p2p() -> None:
    """Packets that go from device to device, and routers for them."""


for command in (list_, measure, route, ask):
    p2p.add_command(command)
