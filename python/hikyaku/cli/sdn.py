# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sdn`: runs the network's controller, and asks it."""

import contextlib
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..called import as_typed
from ..errors import HikyakuError
from ..process import option_words
from ..sdn.tag import JOBS, Function
from .lab.common import switched_lab
from .options import ExistingFile, json_flag
from .options import lab_option as lab_of

if TYPE_CHECKING:
    from ..sdn.client import Client
    from ..sdn.run import Options

LAST_EVENTS = 10

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="The controller's directory.  [default: ~/.local/state/hikyaku/sdn, or the lab's]",
)
lab_option = lab_of("The controller of this lab.", None, "lab_name")


@click.group()
def sdn() -> None:
    """The network's controller (OpenFlow 1.3).

    \b
    Example:
      hikyaku lab up --wire ovs --topology leaf-spine:2x2x4
      hikyaku sdn run --background --lab default
      hikyaku sdn status --lab default
      hikyaku lab mpirun --tcp -np 8 ./program
      hikyaku sdn stop --lab default
    """


def state_directory(state: Path | None, lab_name: str | None) -> Path:
    if state:
        return state
    if lab_name is None:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
        return Path(base) / "hikyaku/sdn"
    return switched_lab(lab_name).directory / "sdn"


def client_of(state: Path | None, lab_name: str | None = None, retry_s: float = 0.0) -> "Client":
    """Asks the controller that these options name."""
    from ..sdn.client import Client

    directory = state_directory(state, lab_name)
    if state is None and lab_name is None and (other := _of_a_lab(directory)):
        raise _other_lab(directory, other)
    lab = lab_name if lab_name or state else _lab_with_switches()
    words = option_words(background=True, state=state, lab=lab)
    return Client(directory, retry_s=retry_s, start=f"hikyaku sdn run {shlex.join(words)}")


def _of_a_lab(directory: Path) -> str | None:
    """If no controller runs with @directory, but one of a lab: that lab's name."""
    from ..lab import all_names, lab_directory
    from ..sdn.store import Store

    def runs(state: Path) -> bool:
        return state.is_dir() and Store(state).is_owned()

    if runs(directory):
        return None
    return next((name for name in all_names() if runs(lab_directory(name) / "sdn")), None)


def _lab_with_switches() -> str | None:
    """The name of a lab that is up and needs a controller of its own."""
    from ..lab import Lab, all_names

    for name in all_names():
        with contextlib.suppress(HikyakuError):  # what is left of a lab, or one that comes up
            if Lab.find(name).topology.wiring:
                return name
    return None


def _other_lab(directory: Path, lab: str) -> HikyakuError:
    """The fix is the command of this process, for the controller of @lab."""
    words = sys.argv[1:]
    if words[:1] == ["sdn"]:
        again = f"hikyaku {shlex.join(words)} --lab {lab}"
    else:  # tag run -- PROGRAM is for real nodes
        again = f"hikyaku lab mpirun --lab {lab} --tcp --tag -np 2 ./program"
    return HikyakuError(f"no controller runs with {directory}, but one of a lab does", again)


class _Address(click.ParamType):
    name = "HOST:PORT"

    def convert(self, value, param, ctx) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+)):(\d{1,5})", value)
        if not match or int(match[3]) > 65535:
            self.fail(
                f"'{value}' is not HOST:PORT; fix: give one such as 127.0.0.1:8080", param, ctx
            )
        return match[1] or match[2], int(match[3])


_file = ExistingFile()


@sdn.command("run")
@click.option(
    "--openflow",
    type=_Address(),
    default="127.0.0.1:6653",
    help="The address that switches connect to.",
)
@click.option(
    "--rest",
    type=_Address(),
    default="127.0.0.1:0",
    help="The address of the page, REST and metrics; port 0: any free port.",
)
@click.option(
    "--rest-in-clear",
    is_flag=True,
    help="Permit a --rest address that other machines can reach, without TLS.",
)
@click.option(
    "--rest-tls",
    is_flag=True,
    help="REST over TLS, with --certificate; then other machines may reach it.",
)
@click.option(
    "--rest-name",
    "rest_names",
    multiple=True,
    metavar="NAME",
    help="A name of this machine in the URLs of REST, beside its host name; repeatable.",
)
@click.option("--certificate", type=_file, help="OpenFlow over TLS: our certificate.")
@click.option("--key", type=_file, help="OpenFlow over TLS: the key of our certificate.")
@click.option(
    "--ca", type=_file, help="OpenFlow over TLS: the authority that signed those of the switches."
)
@click.option(
    "--datapaths",
    type=_file,
    help="OpenFlow over TLS: lines of a datapath id and the name in its certificate.",
)
@click.option(
    "--forget-hosts",
    "host_expiry",
    type=click.FloatRange(min=0),
    default=300,
    metavar="SECONDS",
    help="Forget hosts without a job that are silent for this time; 0: never.",
)
@click.option(
    "--hosts",
    type=_file,
    help="Lines of a MAC address, a datapath id and a port: it is believed nowhere else.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Forward by whole addresses, for switches with few entries for masks.",
)
@click.option(
    "--background",
    is_flag=True,
    help="Return when the controller listens, and with --lab when the network carries packets. "
    "'hikyaku sdn stop' ends it; its log is in its directory.",
)
@state_option
@lab_option
def sdn_run(
    openflow: tuple[str, int],
    rest: tuple[str, int],
    rest_in_clear: bool,
    rest_tls: bool,
    rest_names: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    datapaths: Path | None,
    host_expiry: float,
    hosts: Path | None,
    exact: bool,
    background: bool,
    state: Path | None,
    lab_name: str | None,
) -> None:
    """Run the controller until Ctrl-C. The switches then keep their rules.

    It learns the network and routes all traffic over shortest paths. Its algorithms route the
    tagged packets of jobs. With --lab it controls the switches of that lab. Only this machine can
    reach the page, REST and metrics, unless --rest permits more, with --rest-tls or
    --rest-in-clear. Requests that change something must show the token in the controller's
    directory.

    With --exact, each tag in use has an entry of its own, and a cut link loses frames until the
    controller has written new rules. `hikyaku sdn entries` counts both.

    \b
    Examples:
      hikyaku sdn run --background --lab default
      hikyaku sdn run --openflow 10.0.0.1:6653 --rest 127.0.0.1:8080
      hikyaku sdn run --openflow 0.0.0.0:6653 --certificate c.pem --key k.pem --ca ca.pem
    """
    from ..sdn.names import Names
    from ..sdn.run import Options, run

    netns, names, repair = None, Names(), ""
    if lab_name is not None:
        from ..lab import links, network, ovs

        lab = switched_lab(lab_name)
        netns = network.NETNS_DIR / lab.topology.switch_netns
        _start_in_lab(lab.topology.lab_id)
        ovs.run_beside_switches()
        names = Names(lab.host_names(), ovs.link_names(lab.topology))
        repair = as_typed(links.repair_command(lab_name))
    directory = state_directory(state, lab_name)
    if lab_name is not None and state is None:
        _only_one(directory, lab_name)
    options = Options(
        directory,
        openflow,
        rest,
        netns,
        certificate,
        key,
        ca,
        host_expiry,
        exact,
        rest_in_clear,
        rest_tls,
        names,
        datapaths,
        hosts,
        rest_names,
        repair,
    )
    if background:
        _run_in_background(options, lab_name)
    else:
        run(options)


def _only_one(directory: Path, lab: str) -> None:
    """Refuses a second controller of @lab."""
    from ..sdn.store import Store

    if directory.is_dir() and (pid := Store(directory).owner()):
        raise HikyakuError(
            f"the controller of lab '{lab}' runs already, as process {pid}",
            f"see hikyaku sdn status --lab {lab}; or end it: hikyaku sdn stop --lab {lab}",
        )


def _run_in_background(options: "Options", lab_name: str | None) -> None:
    from ..sdn import background

    pid = background.start(options.state, background.again("--background"))
    try:
        client = client_of(options.state)
        if lab_name is not None:
            from ..lab.ready import introduce_nodes, wait_for_switches

            topology = switched_lab(lab_name).topology
            wait_for_switches(topology, client)
            introduce_nodes(topology, client)
    except (KeyboardInterrupt, SystemExit):
        background.stop(options.state)
        raise
    click.echo(f"the controller runs (process {pid}); page, REST and metrics: {client.address}")
    if lab_name is None and (lab := _lab_with_switches()):
        again = as_typed(f"hikyaku sdn run --background --lab {lab}")
        click.echo(f"it is not the one of lab '{lab}', whose switches need: {again}", err=True)


@sdn.command("stop")
@state_option
@lab_option
def sdn_stop(state: Path | None, lab_name: str | None) -> None:
    """End the controller. The switches keep their rules.

    \b
    Example:
      hikyaku sdn stop --lab default
    """
    from ..sdn import background

    directory = state_directory(state, lab_name)
    pid = background.stop(directory)
    if pid is None and state is None and lab_name is None and (other := _of_a_lab(directory)):
        raise _other_lab(directory, other)
    if pid is None:
        click.echo(f"no controller runs with {directory}: nothing to stop")
    else:
        click.echo(f"the controller (process {pid}) has ended")


def _start_in_lab(ident: str) -> None:
    """Starts this process again with the lab's id in its environment, which identifies it."""
    if os.environ.get("HIKYAKU_LAB_ID") != ident:
        os.environ["HIKYAKU_LAB_ID"] = ident
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@sdn.command("status")
@json_flag
@state_option
@lab_option
def sdn_status(as_json: bool, state: Path | None, lab_name: str | None) -> None:
    """Show switches, links, loads, nodes, jobs and recent events."""
    client = client_of(state, lab_name)
    status, topology, jobs = (client.get(f"/v1/{p}") for p in ("status", "topology", "jobs"))
    if as_json:
        click.echo(json.dumps({**status, **topology, "jobs": jobs}, indent=1))
        return
    console = Console(emoji=False)
    # faults first: what follows fills a screen
    if status["separated"]:
        console.print(f"[red]{escape(status['separated']['text'])}[/]", highlight=False)
    for text in status["refused_switches"].values():
        console.print(f"not used: {escape(text)}")
    table = Table(title=f"switches of {client.address}")
    kinds = ("rules", "exact", "by_port", "masked", "groups", "refused")
    for column in ("switch", "ports", *kinds):
        table.add_column(column.replace("_", " "), justify="right")
    for each in topology["switches"]:
        own = status["switches"].get(str(each["switch"]), {})
        counts = [str(own.get(kind, 0)) for kind in kinds]
        if each["disconnected"]:
            counts = ["no connection"] + [""] * (len(kinds) - 1)
        table.add_row(each["name"], str(len(each["ports"])), *counts)
    console.print(table)
    table = Table("link", "Mbit/s out", "Mbit/s in", title="links")
    for link in topology["links"]:
        rates = [f"{link[k] / 1e6:.1f}" for k in ("bits_b_to_a", "bits_a_to_b")]
        table.add_row(link["name"], *rates)
    for link in topology["lost_links"]:
        table.add_row(link["name"], "[red]cut[/]", "")
    console.print(table)
    _show_nodes(console, topology["hosts"])
    for job in jobs:
        console.print(f"job {job['job']} {escape(job['name'])}: {len(job['ranks'])} ranks")
    for event in status["events"][-LAST_EVENTS:]:
        when = time.strftime("%H:%M:%S", time.localtime(event["time"]))
        console.print(f"[dim]{when}[/] {escape(event['text'])}", highlight=False)


def _show_nodes(console: Console, hosts: list[dict]) -> None:
    """A line for each address; those of one node follow each other."""
    from ..sdn.names import in_order

    table = Table("node", "interface", "address", "link", title="nodes")

    def place(host: dict) -> list:
        """Those without a name are last."""
        name, interface = (host[key] or "" for key in ("name", "interface"))
        return [host["name"] is None, in_order(name), interface, host["address"]]

    for host in sorted(hosts, key=place):
        name, interface = (escape(host[key] or "–") for key in ("name", "interface"))
        link = escape(host["link"] or f"switch {host['switch']} port {host['port']}")
        table.add_row(name, interface, host["address"], link + ("" if host["up"] else " [red]cut"))
    console.print(table)


@sdn.command("path")
@click.argument("source", metavar="FROM")
@click.argument("destination", metavar="TO")
@json_flag
@state_option
@lab_option
def sdn_path(
    source: str, destination: str, as_json: bool, state: Path | None, lab_name: str | None
) -> None:
    """Show the way of a frame without a tag from host FROM to host TO.

    Each is a MAC address or a name, as 'hikyaku sdn status' shows them. The name of a host with
    several interfaces needs one of them: node0:tcp0. The controller follows its own rules; it
    sends no frame.

    \b
    Examples:
      hikyaku sdn path node0:tcp0 node5:tcp0 --lab default
      hikyaku sdn path 02:00:00:00:00:01 02:00:00:00:00:07
    """
    from urllib.parse import urlencode

    query = urlencode({"source": source, "destination": destination})
    way = client_of(state, lab_name).get(f"/v1/path?{query}")
    if as_json:
        click.echo(json.dumps(way, indent=1))
        return

    def hop(a: str, b: str, link: str | None) -> None:
        click.echo(f"{a} → {b}" + (f" ({link})" if link else ""))

    start = way["source"]
    hop(start["name"] or start["address"], start["switch_name"], start["link"])
    if len(way["receivers"]) > 1 or (way["receivers"] and not way["arrives"]):
        click.echo(f"the switches know no way to {destination}, and flood the frame:")
    for link in way["links"]:
        hop(link["a"]["switch_name"], link["b"]["switch_name"], link["name"])
    for host in way["receivers"]:
        hop(host["switch_name"], host["name"] or host["address"], host["link"])
    if not way["receivers"]:
        click.echo("the switches drop it")
    if way["separated"]:
        raise HikyakuError.said(
            way["separated"]["text"], f"a frame to {destination} does not arrive: "
        )
    if way["arrives"] is False:
        where = ["--lab", lab_name] if lab_name else ["--state", str(state)] if state else []
        status = shlex.join(["hikyaku", "sdn", "status", *where])
        raise HikyakuError(
            f"a frame to {destination} does not arrive, because a link is cut", as_typed(status)
        )


@sdn.command("forget")
@click.argument("job", type=click.IntRange(1, JOBS - 1))
@state_option
@lab_option
def sdn_forget(job: int, state: Path | None, lab_name: str | None) -> None:
    """Remove JOB, whose mpirun was killed, from the switches.

    A job that still runs registers again within 15 s.

    \b
    Example:
      hikyaku sdn status --lab default
      hikyaku sdn forget 3 --lab default
    """
    client_of(state, lab_name).delete(f"/v1/jobs/{job}")


class _Ranks(click.ParamType):
    name = "N,N…"

    def convert(self, value, param, ctx) -> list[int]:
        from ..sdn.entries import MOST_RANKS

        words = str(value).split(",")
        if not all(word.isdecimal() and 2 <= int(word) <= MOST_RANKS for word in words):
            self.fail(f"'{value}' is not numbers from 2 to {MOST_RANKS}, as 8,1000", param, ctx)
        return [int(word) for word in words]


class _Functions(click.ParamType):
    name = "NAME,NAME…"

    def convert(self, value, param, ctx) -> list[Function]:
        known = {each.name.lower(): each for each in Function}
        words = str(value).split(",")
        if bad := [word for word in words if word not in known]:
            self.fail(f"'{bad[0]}' is not one of {', '.join(known)}", param, ctx)
        return [known[word] for word in words]


@sdn.command("entries")
@click.option(
    "--ranks", type=_Ranks(), default="8,64,1000,10000", show_default=True, help="Numbers of ranks."
)
@click.option(
    "--functions",
    type=_Functions(),
    default="allreduce,bcast",
    show_default=True,
    help="The functions that ranks call, for exact rules.",
)
@json_flag
def sdn_entries(ranks: list[int], functions: list[Function], as_json: bool) -> None:
    """Count the entries that jobs need in switches, by kind.

    Computes the rules of a leaf-spine network, as the controller does, without switches. Masked
    rules are the usual ones, exact ones those of `sdn run --exact`. The counts are those of the
    leaf and of the spine that need most. A job has at most 2048 ranks, so 10000 ranks are 5 jobs.

    \b
    Examples:
      hikyaku sdn entries
      hikyaku sdn entries --ranks 64 --functions allreduce,alltoall
    """
    from ..sdn import entries

    rows = entries.table(ranks, functions)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    console = Console(emoji=False)
    kinds = entries.Entries._fields
    table = Table(title="entries of the switch that needs most")
    for column in ("ranks", "rules", "switch", *(kind.replace("_", " ") for kind in kinds)):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        for place in ("leaf", "spine"):
            counts = [str(row[place][kind]) for kind in kinds]
            table.add_row(str(row["ranks"]), row["rules"], place, *counts)
    console.print(table)
    for each in dict.fromkeys((r["ranks"], r["topology"], r["jobs"]) for r in rows):
        console.print("{} ranks: {}, {} jobs".format(*each), highlight=False)
