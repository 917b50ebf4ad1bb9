# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench p2p`: parses, measures with a progress bar, shows, saves."""

import sys
from pathlib import Path

import click
from rich.console import Console

from ..cli_guest import nic_model_option
from .common import check_outputs, json_option, progress_bar, save


@click.command("p2p")
@click.option(
    "--packets",
    default=20_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Of each plan.",
)
@nic_model_option
@click.option(
    "--mode", "modes", multiple=True, type=click.Choice(["bounce", "p2p", "pktpit"]), help="[all]"
)
@click.option(
    "--memory",
    "memories",
    multiple=True,
    type=click.Choice(["main", "ivshmem", "nvme"]),
    help="Where packets lie. [all]",
)
@json_option
def bench_p2p(
    packets: int,
    nic_model: str,
    modes: tuple[str, ...],
    memories: tuple[str, ...],
    json_file: Path | None,
) -> None:
    """Check the routers' plans on emulated devices: every byte, and where it has been.

    Boots a guest and sends packets of 64 to 9018 bytes through hk_router in each mode, with each
    memory, by uio and by VFIO: IPv4 and IPv6, with options, to be cut up, to be answered by ICMP.
    All that comes out is compared with what a router in Python says, and DPDK's main memory is
    scanned for the packets' payload. Takes minutes. Fails if a goal is not met; what was wrong is
    then shown, frame by frame, and saved without --json too, in out/p2p-failed.json.

    \b
    Examples:
      hikyaku bench p2p --json out/p2p.json
      hikyaku bench p2p --packets 1000 --mode pktpit --memory nvme
    """
    from ..bench import p2p
    from ..p2p.plans import PLANS

    chosen = [
        plan
        for plan in PLANS
        if (not modes or plan.mode in modes) and (not memories or plan.memory in memories)
    ]
    if not chosen:
        raise click.UsageError("no plan is of this mode and this memory")
    check_outputs(json_file)
    with progress_bar() as progress:
        document = p2p.run(chosen, packets, nic_model, progress)
    console = Console(width=None if click.get_text_stream("stdout").isatty() else 160)
    p2p.show(document, console)
    met = all(goal["met"] for goal in document["goals"])
    if not met and not json_file:
        json_file = Path("out/p2p-failed.json")
        json_file.parent.mkdir(exist_ok=True)
    save(document, json_file)
    if not met:
        sys.exit(1)
