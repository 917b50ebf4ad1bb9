# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sim`."""

from pathlib import Path

import click

from ..sim.messages import read
from ..sim.run import RATES, SCENARIOS, simulate
from .bench.common import check_outputs, save
from .options import ExistingFile, json_option, plot_option, seed_option, wide_console

_LIST = "\n".join(f"  {name:10} {text}" for name, text in SCENARIOS.items())
_HELP = f"""Simulate a network of hosts, each with this engine.

A model of frames, links and network switches, in virtual time. It shows queues, losses, fairness
and completion times of up to thousands of hosts on one core; docs/sim.md explains it.

\b
Scenarios:
{_LIST}

\b
Examples:
  hikyaku sim incast --hosts 257 --rate 25G --plot incast.png
  hikyaku sim alltoall --topology leafspine --spines 4
  hikyaku sim longflows --hosts 3 --ports 2 --dead-at-ms 500
  hikyaku sim exchange --messages messages.json --rate 100G
"""


def _number(name: str, low: int, high: int, text: str, **more: object) -> click.Option:
    return click.option(name, type=click.IntRange(low, high), help=text, **more)


@click.command(help=_HELP)
@click.argument("scenario", type=click.Choice(list(SCENARIOS)), metavar="SCENARIO")
@_number("--hosts", 2, 100_000, "Number of hosts.  [default: of the scenario]")
@click.option("--rate", type=click.Choice(RATES), default="10G", help="Of each link, per second.")
@click.option(
    "--frame",
    type=click.IntRange(576, 9200),
    default=1500,
    help="Bytes of the largest frame, without its Ethernet header.",
)
@_number("--buffer", 10_000, 1 << 30, "Bytes that a port queues.", default=1 << 20)
@_number("--size", 1, 1 << 30, "Bytes of a message.  [default: of the scenario]")
@_number("--count", 1, 1 << 20, "Messages of a host at once.  [default: of the scenario]")
@_number("--time-ms", 1, 1_000_000, "Time to simulate, at most.  [default: of the scenario]")
@_number("--load", 1, 100, "mixed: percent of each link.  [default: 60]")
@click.option(
    "--topology",
    type=click.Choice(["star", "leafspine"]),
    default="star",
    help="One network switch, or leaves that all spines connect (ECMP).",
)
@_number("--spines", 1, 1024, "leafspine: number of spines.  [default: 4]")
@_number("--leaf-hosts", 1, 100_000, "leafspine: hosts at a leaf.  [default: 32]")
@_number("--ports", 1, 8, "Ports of a host, over which it spreads puts.", default=1)
@_number("--dead-at-ms", 1, 1_000_000, "When the link of the last port of host 1 dies.")
@click.option(
    "--loss", type=click.FloatRange(0, 100), default=0, help="Percent of frames that a link loses."
)
@_number("--mark", 1, 1 << 30, "Mark frames (ECN) that find so many bytes queued.")
@click.option("--classes", is_flag=True, help="The network serves 802.1p classes, small first.")
@click.option(
    "--workers", is_flag=True, help="Hosts with real workers, in place of a model. 22 MB a host."
)
@_number("--pool", 64, 1 << 20, "Receive buffers of a host.  [default: 6144]")
@_number("--hold-us", 0, 1_000_000, "How long an application holds a message.", default=0)
@click.option(
    "--messages",
    "messages_file",
    type=ExistingFile(),
    help="exchange: a JSON file of its messages; docs/sim.md has the form.",
)
@_number("--eager", 1, 1 << 30, "exchange: MPI, with so many bytes at most eager.  [default: puts]")
@seed_option("Of all that is random.")
@json_option
@plot_option
def sim(
    scenario: str,
    rate: str,
    topology: str,
    spines: int | None,
    leaf_hosts: int | None,
    loss: float,
    classes: bool,
    workers: bool,
    messages_file: Path | None,
    json_file: Path | None,
    plot_file: Path | None,
    **numbers: int | None,
) -> None:
    if topology == "star" and (spines or leaf_hosts):
        raise click.UsageError("--spines and --leaf-hosts need --topology leafspine")
    if topology == "leafspine":
        spines = spines or 4
    check_outputs(json_file, plot_file)
    result = simulate(
        scenario,
        workers,
        read(messages_file) if messages_file else None,
        rate=rate,
        spines=spines,
        leaf_hosts=leaf_hosts,
        loss_ppm=round(1e4 * loss),
        classes=int(classes),
        **numbers,
    )
    from ..sim.plot import draw
    from ..sim.report import show

    show(result, wide_console(100))
    save(result, json_file, plot_file, draw)
