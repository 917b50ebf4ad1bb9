# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo p2p`."""

from pathlib import Path

import click

from .common import out_option, picture


@click.command()
@out_option
def p2p(directory: Path | None) -> None:
    """Show the way of a packet's bytes through a machine.

    A packet goes from one NIC to another, through main memory or from device to device. Computes
    the bytes that each link of PCI Express carries for it, by the model of 'hikyaku devmem model'.
    Nothing is measured. Saves demo-p2p.png. Needs no root; 'hikyaku bench devmem' compares all
    bytes on emulated devices.
    """
    from ...demo import p2p as shown

    path = picture(directory, "p2p")
    click.echo(shown.sentence())
    shown.draw().savefig(path)
    click.echo(f"saved {path}")
