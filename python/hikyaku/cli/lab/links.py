# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab links`, `cut`, `repair` and `lose`: the links between switches."""

import json

import click

from ...called import as_typed
from ..options import json_flag, seed_option
from .common import lab_option, switched_lab


@click.command("links")
@lab_option
@json_flag
def lab_links(name: str, as_json: bool) -> None:
    """Show the links of the switches (wire ovs), and their traffic.

    The name of a link is that of its two ends. 'hikyaku sdn status' and the controller's page use
    the same names. Its counters count from when the lab came up. If links lose frames, a column has
    the part that 'hikyaku lab lose' has set for each.
    """
    from ...lab import links

    rows = links.counters(switched_lab(name).topology)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"links of lab '{name}'")
    counted = ("frames", "bytes", *(["lost"] if any(links.lost(row) for row in rows) else []))
    lossy = any(row["loses"] for row in rows)
    counters = (f"{w} {way}" for way in ("there", "back") for w in counted)
    for column in ("link", "state", *(["lose %"] if lossy else []), *counters):
        table.add_column(
            column, no_wrap=column == "link", justify="right" if " " in column else "left"
        )
    for row in rows:
        counts = [str(row[way][w]) for way in ("a_to_b", "b_to_a") for w in counted]
        loses = [f"{100 * row['loses']:g}" if row["loses"] else ""] if lossy else []
        table.add_row(row["link"], "up" if row["up"] else "[red]cut[/]", *loses, *counts)
    Console(emoji=False).print(table)


@click.command("cut")
@click.argument("link", nargs=-1, required=True)
@lab_option
def lab_cut(link: tuple[str, ...], name: str) -> None:
    """Cut each LINK (wire ovs).

    Both ends report at once that the link is down. 'hikyaku lab links' lists the links, and
    'hikyaku lab repair' repairs them. node0-leaf0 is all links of a node, and node0:hk0-leaf0 that
    of one of its interfaces.

    \b
    Examples:
      hikyaku lab cut leaf0-spine1
      hikyaku lab cut node0:hk0-leaf0
    """
    from ...lab import links

    topology, repair = switched_lab(name).topology, links.repair_command(name)
    for each in link:
        already = links.is_set(topology, each, up=False)
        cut = links.set_link(topology, each, up=False)
        state = "was cut already" if already else "is cut"
        click.echo(as_typed(f"link {cut} {state}; to repair it: {repair} {cut}"))
    if apart := links.separated(topology):
        click.echo(as_typed(f"{apart}; fix: {apart.fix(repair)}"))


@click.command("repair")
@click.argument("link", nargs=-1, required=True)
@lab_option
def lab_repair(link: tuple[str, ...], name: str) -> None:
    """Repair each LINK (wire ovs), which 'lab cut' has cut."""
    from ...lab import links

    topology = switched_lab(name).topology
    for each in link:
        already = links.is_set(topology, each, up=True)
        repaired = links.set_link(topology, each, up=True)
        click.echo(f"link {repaired} {'was up already' if already else 'is up'}")
    if apart := links.separated(topology):
        click.echo(as_typed(f"{apart}; fix: {apart.fix(links.repair_command(name))}"))


class _Percent(click.FloatRange):
    name = "number of percent"  # click's own is "float range", which its error prints


@click.command("lose")
@click.argument("percent", type=_Percent(0, 100))
@click.argument("link", nargs=-1)
@seed_option("Seed of the random losses.")
@lab_option
def lab_lose(percent: float, link: tuple[str, ...], seed: int, name: str) -> None:
    """Make each LINK (wire ovs) lose PERCENT of its frames.

    0 ends this. Without LINK, all links lose frames at random. The two directions of a link lose
    frames independently. The same seed loses the same frames in every run. 'hikyaku lab links'
    lists the links and counts the losses. node0-leaf0 is all links of a node, and node0:hk0-leaf0
    that of one of its interfaces.

    \b
    Examples:
      hikyaku lab lose 1
      hikyaku lab lose 0.1 leaf0-spine1 node0:hk0-leaf0
      hikyaku lab lose 0
    """
    from ...lab import links

    lossy = links.lose(switched_lab(name).topology, link, percent / 100, seed)
    count = "1 link loses" if len(lossy) == 1 else f"{len(lossy)} links lose"
    click.echo(f"{count} {percent:g} % of the frames")
