# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sdn …`: parses, calls the controller, prints."""

import json
import os
import re
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors import HikyakuError
from .sdn.tag import JOBS

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="The controller's directory.  [default: ~/.local/state/hikyaku/sdn, or the lab's]",
)
lab_option = click.option(
    "--lab", "lab_name", envvar="HIKYAKU_LAB", metavar="NAME", help="The controller of this lab."
)


@click.group()
def sdn() -> None:
    """The network's controller (OpenFlow 1.3).

    \b
    Example:
      hikyaku lab up --wire ovs --topology leaf-spine:2x2x4
      hikyaku sdn run --lab default &
      hikyaku sdn status --lab default
      hikyaku lab mpirun --tcp -np 8 ./program
    """


def state_directory(state: Path | None, lab_name: str | None) -> Path:
    if state:
        return state
    if lab_name is None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
        return Path(base) / "hikyaku/sdn"
    return _lab(lab_name).directory / "sdn"


def _lab(name: str):
    from .lab import Lab

    found = Lab.find(name)
    if found.topology.wiring is None:
        raise HikyakuError(
            f"lab '{name}' has no switches",
            "hikyaku lab up --wire ovs --topology leaf-spine:2x2x4",
        )
    return found


class _Address(click.ParamType):
    name = "HOST:PORT"

    def convert(self, value, param, ctx) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+)):(\d{1,5})", value)
        if not match or int(match[3]) > 65535:
            self.fail(f"'{value}' is no HOST:PORT; fix: as in 127.0.0.1:8080", param, ctx)
        return match[1] or match[2], int(match[3])


_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@sdn.command("run")
@click.option(
    "--openflow",
    type=_Address(),
    default="127.0.0.1:6653",
    show_default=True,
    help="Where switches connect to.",
)
@click.option(
    "--rest",
    type=_Address(),
    default="127.0.0.1:0",
    show_default=True,
    help="Where the page, REST and metrics are; port 0: any that is free.",
)
@click.option(
    "--rest-in-clear",
    is_flag=True,
    help="Let --rest be an address that other machines reach; REST has no TLS.",
)
@click.option("--certificate", type=_file, help="OpenFlow over TLS: ours,")
@click.option("--key", type=_file, help="its key,")
@click.option("--ca", type=_file, help="and who has signed those of the switches.")
@click.option(
    "--forget-hosts",
    "host_expiry",
    type=click.FloatRange(min=0),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Forget hosts that have sent nothing for so long and are not of a job; 0: never.",
)
@state_option
@lab_option
def sdn_run(
    openflow: tuple[str, int],
    rest: tuple[str, int],
    rest_in_clear: bool,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    host_expiry: float,
    state: Path | None,
    lab_name: str | None,
) -> None:
    """Run the controller, until Ctrl-C. The switches go on as they are when it ends.

    It learns the network, routes all traffic over the shortest paths, and the tagged packets of
    jobs as its algorithms want. With --lab its switches are those of that lab. The page, REST and
    metrics are for this machine alone unless --rest and --rest-in-clear say otherwise; whoever
    changes something shows the token, which lies in the controller's directory.

    \b
    Examples:
      hikyaku sdn run --lab default
      hikyaku sdn run --openflow 10.0.0.1:6653 --rest 127.0.0.1:8080
      hikyaku sdn run --openflow 0.0.0.0:6653 --certificate c.pem --key k.pem --ca ca.pem
    """
    from .sdn.run import Options, run

    netns = None
    if lab_name is not None:
        from .lab import network

        lab = _lab(lab_name)
        netns = network.NETNS_DIR / lab.topology.switch_netns
        _carry(lab.topology.lab_id)
    directory = state_directory(state, lab_name)
    options = Options(
        directory, openflow, rest, netns, certificate, key, ca, host_expiry, rest_in_clear
    )
    run(options)


def _carry(ident: str) -> None:
    """Processes of a lab are found by their environment, as they were started with it."""
    if os.environ.get("HIKYAKU_LAB_ID") != ident:
        os.environ["HIKYAKU_LAB_ID"] = ident
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@sdn.command("status")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@state_option
@lab_option
def sdn_status(as_json: bool, state: Path | None, lab_name: str | None) -> None:
    """Show what the controller knows: switches, links and their loads, hosts, jobs, what went
    wrong."""
    from .sdn.client import Client

    client = Client(state_directory(state, lab_name))
    status, topology, jobs = (client.get(f"/v1/{p}") for p in ("status", "topology", "jobs"))
    if as_json:
        click.echo(json.dumps({**status, **topology, "jobs": jobs}, indent=1))
        return
    console = Console()
    table = Table(title=f"switches ({client.address})")
    for column in ("switch", "ports", "rules", "groups", "refused"):
        table.add_column(column, justify="right")
    for each in topology["switches"]:
        own = status["switches"].get(str(each["switch"]), {})
        counts = [str(own.get(k, 0)) for k in ("rules", "groups", "refused")]
        if each["away"]:
            counts = ["no connection", "", ""]
        table.add_row(each["name"], str(len(each["ports"])), *counts)
    console.print(table)
    names = {
        (s["switch"], int(p)): name for s in topology["switches"] for p, name in s["ports"].items()
    }
    table = Table(title="links")
    for column in ("from", "to", "Mbit/s there", "Mbit/s back"):
        table.add_column(column)
    for link in topology["links"]:
        ends = [names.get((link[e]["switch"], link[e]["port"]), "?") for e in "ab"]
        rates = [f"{link[k] / 1e6:.1f}" for k in ("bits_a_to_b", "bits_b_to_a")]
        table.add_row(*ends, *rates)
    console.print(table)
    console.print(f"{len(topology['hosts'])} hosts")
    for job in jobs:
        console.print(f"job {job['job']} {escape(job['name'])}: {len(job['ranks'])} ranks")
    for text in status["refused_switches"].values():
        console.print(f"not used: {escape(text)}")
    for event in status["events"][-5:]:
        console.print(escape(event["text"]))


@sdn.command("forget")
@click.argument("job", type=click.IntRange(1, JOBS - 1))
@state_option
@lab_option
def sdn_forget(job: int, state: Path | None, lab_name: str | None) -> None:
    """Take JOB out of the controller and its switches: one whose mpirun has ended without saying
    so. One that still runs is told to the controller again within 15 s.

    \b
    Example:
      hikyaku sdn status
      hikyaku sdn forget 3
    """
    from .sdn.client import Client

    Client(state_directory(state, lab_name)).delete(f"/v1/jobs/{job}")
