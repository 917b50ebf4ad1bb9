# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem model`."""

from pathlib import Path

import click
from rich.console import Console

from ..bench.common import check_outputs, save
from ..options import json_option


@click.command("model")
@click.option("--gen", type=click.IntRange(1, 5), default=3, help="Generation of PCI Express.")
@click.option(
    "--width",
    type=click.Choice(["1", "2", "4", "8", "16"]),
    default="8",
    help="Width of a link: x1 to x16.",
)
@click.option(
    "--payload",
    type=click.Choice(["128", "256", "512", "1024"]),
    default="256",
    help="Bytes of a transaction at most (MPS).",
)
@click.option(
    "--request",
    type=click.Choice(["128", "256", "512", "1024", "2048", "4096"]),
    default="512",
    help="Bytes that a read asks for at most (MRRS).",
)
@click.option(
    "--sizes", default="64,128,256,512,1024,1518,9018", help="Bytes of a frame, with FCS."
)
@click.option(
    "--rate", type=click.FloatRange(0.1, 1000), default=40.0, help="Gbit/s of the Ethernet link."
)
@json_option
def model(
    gen: int,
    width: str,
    payload: str,
    request: str,
    sizes: str,
    rate: float,
    json_file: Path | None,
) -> None:
    """Compute what PCI Express carries for a packet, by path.

    Shows the payload that fits through one link by DMA writes and by DMA reads. Shows what headers
    take of both links if frames come at the rate of the Ethernet link. A packet bounces through
    main memory, or the receiving NIC writes it to the sending one, or that one reads it. Nothing
    is measured: docs/devmem.md names the model.

    \b
    Examples:
      hikyaku devmem model
      hikyaku devmem model --gen 4 --width 16 --rate 100 --sizes 64,1518
    """
    from ...bench.common.arguments import parse_sizes
    from ...bench.common.tables import left_titled, number, size_text
    from ...devmem import pcie

    check_outputs(json_file)
    link = pcie.Link(gen, int(width), int(payload), int(request))
    found = pcie.rows(link, parse_sizes(sizes), rate)
    table = left_titled(f"Gen{gen} x{width}, {number(link.gbps)} Gbit/s each way; all in Gbit/s")
    for name in ("frame", "DMA write", "DMA read", *pcie.PATHS):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found:
        values = [row["write_gbps"], row["read_gbps"]]
        values += [row[f"{path.replace(' ', '_')}_headers_gbps"] for path in pcie.PATHS]
        table.add_row(size_text(row["size"]), *(number(value) for value in values))
    console = Console(emoji=False)
    console.print(table)
    console.print(
        "DMA write, DMA read: the payload of a full link. The rest: headers on both links for "
        f"frames at {rate:g} Gbit/s."
    )
    settings = {"generation": gen, "width": int(width), "payload": int(payload)}
    settings |= {"request": int(request), "rate_gbps": rate, "link_gbps": link.gbps}
    save({"schema": 1, "settings": settings, "rows": found}, json_file)
