# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem measure`: DMA throughput and latency."""

from contextlib import nullcontext
from pathlib import Path

import click

from ..bench.common import check_outputs, save
from ..options import json_option, plot_option, repeats_option, wide_console


@click.command()
@click.option("--pop", "pops", multiple=True, metavar="SPEC", help="Device memory; repeatable.")
@click.option("--nics", metavar="A,B", help="PCI addresses: A sends, B receives by DMA.")
@click.option("--nvme", metavar="ADDRESS", help="An NVMe controller, which reads blocks.")
@click.option(
    "--load",
    "loads",
    multiple=True,
    type=click.Choice(["nothing", "read", "write", "train"]),
    help="Load of the CPU during the measurement; repeatable.  [default: all]",
)
@click.option("--seconds", default=1, type=click.IntRange(1, 600), help="Duration of each cell.")
@repeats_option(3)
@click.option("--size", default=1024, type=click.IntRange(60, 9000), help="Bytes of a frame.")
@click.option("--lab", metavar="NAME", help="Measure in this guest of 'hikyaku lab guest'.")
@json_option
@plot_option
def measure(
    pops: tuple[str, ...],
    loads: tuple[str, ...],
    lab: str | None,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: object,
) -> None:
    """Measure DMA to main memory and to the memory of devices.

    Measures throughput and latency. NIC A sends to NIC B over a cable between two ports of this
    machine. B writes the frames to main memory, or to the memory of another device. With --nvme, an
    SSD writes the blocks that it reads. Meanwhile the CPU does nothing, reads or writes main
    memory, or trains a model. Bind the devices to uio_pci_generic or vfio-pci (NVMe: to no driver).

    \b
    Examples:
      hikyaku devmem measure --nics 0000:3b:00.0,0000:3b:00.1 --pop pop:bar:0000:5e:00.0,bar=2
      hikyaku devmem measure --lab default --nics 0000:00:03.0,0000:00:04.0 \\
          --pop pop:ivshmem:0000:00:08.0 --json out/devmem.json --plot out/devmem.png
    """
    from ...devmem import measure as m
    from ...devmem.plot import draw
    from ...guest import Guest

    check_outputs(json_file, plot_file)
    chosen = list(dict.fromkeys(loads)) or list(m.LOADS)
    options = {"pops": list(pops), "loads": chosen, **settings}

    def tell(text: str) -> None:
        click.echo(f"measured {text}", err=True)

    with m.in_guest(Guest.find(lab)) if lab else nullcontext(m.here) as run:
        cells = m.measure(run, tell=tell, **options)
    document = {"schema": 1, "emulated": bool(lab) or m.emulated(), **options, "cells": cells}
    if document["emulated"]:
        document["note"] = m.EMULATED_NOTE
    m.show(document, wide_console())
    save(document, json_file, plot_file, draw)
