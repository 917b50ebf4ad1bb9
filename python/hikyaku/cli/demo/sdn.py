# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo sdn`."""

from pathlib import Path

import click

from .common import out_option, picture


@click.command()
@out_option
def sdn(directory: Path | None) -> None:
    """Cut a cable during Bcasts, and show the old and the new tree.

    Brings up 8 nodes on 4 switches with their controller. One rank a node takes part in an
    MPI_Bcast of 1 MiB by multicast, again and again. Meanwhile a cable of the tree is cut. Saves
    demo-sdn.png, with the tree before and after. Needs root; 'hikyaku bench sdn' measures.
    """
    from ...demo import sdn as shown
    from ...demo.sdn_plot import draw
    from ...lab.network import require_root

    require_root()
    path = picture(directory, "sdn")
    result = shown.run()
    click.echo(shown.sentence(result))
    draw(result.wiring, result.before, result.after, result.cut).savefig(path)
    click.echo(f"saved {path}")
