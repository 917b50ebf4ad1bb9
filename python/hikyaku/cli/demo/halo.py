# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo halo`."""

from pathlib import Path

import click

from .common import out_option, picture


@click.command()
@out_option
def halo(directory: Path | None) -> None:
    """Compute on four nodes how heat spreads over a plate.

    Each node has a quarter of the plate, and in each step exchanges its edges with its neighbours.
    All steps run twice, with the exchange by MPI and by the halo library
    (examples/halo/heat.c). Prints both times. Saves
    demo-halo.png, with four moments, and demo-halo.gif, which moves. Needs root; 'hikyaku bench
    halo' measures.
    """
    from rich.console import Console

    from ...bench.common import busy
    from ...demo import halo as shown
    from ...demo.halo_plot import animate, draw
    from ...lab.network import require_root

    require_root()
    path, moving = (picture(directory, "halo", ending) for ending in ("png", "gif"))
    machine = busy.state()
    result = shown.run()
    click.echo(shown.sentence(result))
    busy.warn_if_busy(machine, Console(emoji=False, stderr=True))
    draw(result).savefig(path)
    animate(result, moving)
    click.echo(f"saved {path}, {moving}")
