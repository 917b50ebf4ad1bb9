# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem measure`: DMA throughput and latency; `hikyaku devmem peer`: its other end."""

import os
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from ...checkout import built
from ..bench.common import check_outputs, save
from ..options import json_option, plot_option, repeats_option, wide_console


@click.command()
@click.option("--pop", "pops", multiple=True, metavar="SPEC", help="Device memory; repeatable.")
@click.option("--nics", metavar="A[,B]", help="PCI addresses: A is joined to B, or to a peer.")
@click.option("--nvme", metavar="ADDRESS", help="An NVMe controller, which reads blocks.")
@click.option(
    "--direction",
    "directions",
    multiple=True,
    type=click.Choice(["loop", "transmit", "receive", "both"]),
    help="Traffic of the NIC, see above; repeatable.  [default: loop]",
)
@click.option("--rings", is_flag=True, help="Measure descriptor rings in each --pop, too.")
@click.option(
    "--load",
    "loads",
    multiple=True,
    type=click.Choice(["nothing", "read", "write", "train", "network"]),
    help="Load of the CPU during the measurement; repeatable.  [default: all]",
)
@click.option(
    "--load-threads",
    multiple=True,
    type=click.IntRange(0, 256),
    help="Threads of a load, each with its memory; repeatable.  [default: 1]",
)
@click.option("--load-cores", metavar="LIST", help="A core for each thread, such as 2,4-6.")
@click.option(
    "--load-mb", default=64, type=click.IntRange(1, 65536), help="MB of memory of each thread."
)
@click.option(
    "--seconds", default=1.0, type=click.FloatRange(0.05, 600), help="Duration of each cell."
)
@repeats_option(3)
@click.option("--size", default=1024, type=click.IntRange(64, 9000), help="Bytes of a frame.")
@click.option(
    "--rate",
    default=0,
    type=click.IntRange(0),
    help="Most frames/s each way, with a peer; 0: no limit.",
)
@click.option("--lab", metavar="NAME", help="Measure in this guest of 'hikyaku lab guest'.")
@json_option
@plot_option
def measure(
    pops: tuple[str, ...],
    loads: tuple[str, ...],
    directions: tuple[str, ...],
    load_threads: tuple[int, ...],
    lab: str | None,
    json_file: Path | None,
    plot_file: Path | None,
    **settings: object,
) -> None:
    """Measure DMA to main memory and to the memory of devices.

    \b
    Directions:
      loop      A sends to B over a cable between two ports of this machine. B
                receives into main memory, and into each --pop
      transmit  A sends from main memory, and from each --pop
      receive   A receives into them
      both      A sends and receives

    In all but a loop, a peer is at the other end of A's cable. It runs on B if there is one, and
    otherwise on another machine: start 'hikyaku devmem peer' there. With --nvme, an SSD writes the
    blocks that it reads.

    Meanwhile the CPU does nothing, reads or writes main memory, or trains: one linear model, or a
    network of layers. The baseline without a load is always measured. Bind the devices to
    uio_pci_generic or vfio-pci (NVMe: to no driver).

    \b
    Examples:
      hikyaku devmem measure --nics 0000:3b:00.0 --direction receive --load write \\
          --load-threads 1 --load-threads 4 --load-cores 2-5
      hikyaku devmem measure --nics 0000:3b:00.0,0000:3b:00.1 --pop pop:bar:0000:5e:00.0,bar=2
      hikyaku devmem measure --lab default --nics 0000:00:03.0,0000:00:04.0 \\
          --pop pop:ivshmem:0000:00:08.0 --json out/devmem.json --plot out/devmem.png
    """
    from ...devmem import measure as m
    from ...devmem.places import Here, InGuest
    from ...devmem.plot import draw
    from ...guest import Guest

    check_outputs(json_file, plot_file)
    chosen = m.Settings(
        pops=list(dict.fromkeys(pops)),
        loads=list(dict.fromkeys(loads)) or list(m.LOADS),
        directions=directions or ("loop",),
        load_threads=load_threads or (1,),
        **settings,
    )

    def tell(text: str) -> None:
        click.echo(f"measured {text}", err=True)

    with InGuest(Guest.find(lab)) if lab else nullcontext(Here()) as place:
        cells = m.measure(place, chosen, tell)
    document = {"schema": 2, "emulated": bool(lab) or m.emulated(), **asdict(chosen)}
    document["cells"] = cells
    if document["emulated"]:
        document["note"] = m.EMULATED_NOTE
    m.show(document, wide_console())
    save(document, json_file, plot_file, draw)


@click.command()
@click.option("--nic", required=True, metavar="ADDRESS", help="PCI address of the NIC.")
def peer(nic: str) -> None:
    """Be the other end of the cable of a measured NIC.

    Sends, receives and counts what 'hikyaku devmem measure --direction' asks for, until Ctrl-C.
    Bind the NIC to uio_pci_generic or vfio-pci.

    \b
    Example:
      hikyaku devmem peer --nic 0000:3b:00.0
    """
    program = str(built("systems/devmem/tool/hk_devmem"))
    os.execv(program, [program, "peer", "--nic", nic])
