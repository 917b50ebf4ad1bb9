# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench devmem`."""

import sys
from pathlib import Path

import click

from ..options import json_option, nic_model_option, wide_console
from .common import check_outputs, progress_bar, save


@click.command("devmem")
@click.option(
    "--packets", default=20_000, type=click.IntRange(100, 1_000_000), help="Packets of each plan."
)
@nic_model_option
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["bounce", "p2p", "pktpit"]),
    help="Mode of the router.  [all]",
)
@click.option(
    "--memory",
    "memories",
    multiple=True,
    type=click.Choice(["main", "ivshmem", "nvme"]),
    help="Memory of the packets.  [all]",
)
@click.option("--load/--no-load", default=True, help="The cells of 'devmem measure' as well.")
@json_option
def bench_devmem(
    packets: int,
    nic_model: str,
    modes: tuple[str, ...],
    memories: tuple[str, ...],
    load: bool,
    json_file: Path | None,
) -> None:
    """Check the routers' plans on emulated devices, byte by byte.

    Boots a guest and sends packets of 64 to 9018 bytes through hk_router, in each mode, with each
    memory, by uio and by VFIO. The packets are IPv4 and IPv6; some have options, some need
    fragmentation, some get an ICMP answer. A router in Python predicts every frame that must come
    out, and DPDK's main memory is scanned for payload. Takes minutes. Fails if a goal is not met;
    it then shows the wrong frames and saves them, without --json in out/devmem-failed.json.

    \b
    Examples:
      hikyaku bench devmem --json out/devmem.json
      hikyaku bench devmem --packets 1000 --mode pktpit --memory nvme
    """
    from ...bench.devmem import report, run
    from ...devmem.plans import PLANS

    chosen = [
        plan
        for plan in PLANS
        if (not modes or plan.mode in modes) and (not memories or plan.memory in memories)
    ]
    if not chosen:
        raise click.UsageError("no plan has this mode and this memory")
    check_outputs(json_file)
    with progress_bar() as progress:
        document = run.run(chosen, packets, nic_model, load, progress)
    report.show(document, wide_console())
    met = all(goal["met"] for goal in document["goals"])
    if not met and not json_file:
        json_file = Path("out/devmem-failed.json")
        json_file.parent.mkdir(exist_ok=True)
    save(document, json_file)
    if not met:
        sys.exit(1)
