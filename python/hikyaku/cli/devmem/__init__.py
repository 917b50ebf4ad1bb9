# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem`: packets in the memory of devices."""

import click

from .list import list_
from .measure import measure
from .model import model
from .route import ask, route


@click.group(commands=[list_, measure, model, route, ask])
def devmem() -> None:
    """DMA between devices, and routers with packets in their memory."""
