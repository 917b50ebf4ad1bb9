# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem`: packets in the memory of devices."""

import click

from .list import list_
from .measure import measure, peer
from .model import model
from .route import ask, route


@click.group(commands=[list_, measure, peer, model, route, ask])
def devmem() -> None:
    """DMA between devices, and routers with packets in their memory."""
