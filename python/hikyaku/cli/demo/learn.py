# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo learn`."""

from pathlib import Path

import click

from .common import out_option, picture


@click.command()
@out_option
def learn(directory: Path | None) -> None:
    """Train on five nodes that gossip, and find the one that lies.

    Each node is a process on this machine. It learns from its own rows to tell three classes apart,
    and sends its parameters to the others by UDP. Node 2 sends random numbers in place of its own.
    Saves demo-learn.png, with the loss of each node. Needs no root; 'hikyaku learn' has options.
    """
    from ...demo import learn as shown

    path = picture(directory, "learn")
    result = shown.run()
    click.echo(shown.sentence(result))
    shown.draw(result).savefig(path)
    click.echo(f"saved {path}")
