# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku p2p measure`: parses, measures, prints."""

import json
from pathlib import Path

import click
from rich.console import Console


@click.command()
@click.option("--pop", "pops", multiple=True, metavar="SPEC", help="Device memory; repeatable.")
@click.option("--nics", metavar="A,B", help="PCI addresses: A sends, B receives by DMA.")
@click.option("--nvme", metavar="ADDRESS", help="An NVMe controller, which reads blocks.")
@click.option(
    "--load",
    "loads",
    multiple=True,
    type=click.Choice(["nothing", "read", "write", "train"]),
    help="What the CPU does meanwhile; repeatable.  [default: all]",
)
@click.option(
    "--seconds", default=1, show_default=True, type=click.IntRange(1, 600), help="A cell."
)
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--size", default=1024, show_default=True, type=click.IntRange(60, 9000), help="Bytes."
)
@click.option("--lab", metavar="NAME", help="In this guest of 'hikyaku lab p2p', not here.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Results, for programs.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="A picture (PNG).")
def measure(
    pops: tuple[str, ...],
    nics: str | None,
    nvme: str | None,
    loads: tuple[str, ...],
    seconds: int,
    repeats: int,
    size: int,
    lab: str | None,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """DMA throughput and latency, to main memory and to devices' memory.

    NIC A sends to NIC B, by a cable between two ports of this machine, and B writes the frames
    into main memory or into the memory of another device; or an SSD writes what it reads there.
    Meanwhile the CPU does nothing, reads or writes main memory, or trains a model. Devices must
    be bound to uio_pci_generic or vfio-pci (NVMe: to no driver).

    \b
    Examples:
      hikyaku p2p measure --nics 0000:3b:00.0,0000:3b:00.1 --pop pop:bar:0000:5e:00.0,bar=2
      hikyaku p2p measure --lab default --nics 0000:00:03.0,0000:00:04.0
                          --pop pop:ivshmem:0000:00:08.0 --json out/p2p.json --plot out/p2p.png
    """
    from .guest import Guest
    from .p2p import measure as m

    chosen = list(dict.fromkeys(loads)) or list(m.LOADS)
    options = {
        "pops": list(pops),
        "loads": chosen,
        "nics": nics,
        "nvme": nvme,
        "seconds": seconds,
        "repeats": repeats,
        "size": size,
    }

    def tell(text: str) -> None:
        click.echo(f"measuring {text}", err=True)

    if lab:
        with m.in_guest(Guest.find(lab)) as run:
            cells = m.measure(run, tell=tell, **options)
    else:
        cells = m.measure(m.here, tell=tell, **options)
    document = {
        "schema": 1,
        "emulated": bool(lab) or m.emulated(),
        **options,
        "cells": cells,
    }
    if document["emulated"]:
        document["note"] = m.HONESTY
    console = Console(width=None if click.get_text_stream("stdout").isatty() else 160)
    m.show(document, console)
    if json_path:
        json_path.write_text(json.dumps(document, indent=1) + "\n")
    if plot_path:
        m.plot(document, plot_path)
