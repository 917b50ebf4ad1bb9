# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku tag …`: jobs whose TCP packets carry their communication pattern; parses, prints."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from .cli_daemon import run_base
from .errors import HikyakuError
from .sdn.tag import JOBS, NoTag, Tag
from .sdn.tagger import STALE_FIX, WAYS, check, jobs, stale_text, tag_command


@click.group()
def tag() -> None:
    """Tag the TCP of an unmodified MPI program, for a network that routes by it.

    The destination address of each packet tells job, MPI function and ranks (docs/tag.md). It is
    written by eBPF programs in the kernel (docs/tagger.md), which go with the job.

    \b
    Example:
      hikyaku tag run -- mpirun -np 4 --host a,b ./solver
      hikyaku tag status
    """


@tag.command("run", context_settings={"ignore_unknown_options": True})
@click.option(
    "--job", type=click.IntRange(1, JOBS - 1), help="The job's number in tags.  [a free one]"
)
@click.option(
    "--iface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Tag what leaves by this interface; may be repeated, but with --sdn it is the one that "
    "MPI sends by.  [all Ethernet interfaces]",
)
@click.option(
    "--attach",
    type=click.Choice(WAYS),
    help="How the programs see packets: tcx, or clsact, for kernels before 6.6.  [what there is]",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Nodes give tagged frames that come in their address back: for networks whose switches "
    "do not.",
)
@click.option(
    "--sdn",
    is_flag=True,
    help="Tell the controller on this machine (hikyaku sdn run) of the job and its ranks; it gives "
    "the number.",
)
@click.option(
    "--native",
    is_flag=True,
    help="With --sdn: ranks that use Hikyaku tag their own frames, and long Bcasts are multicasts; "
    "TCP is left alone.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --sdn: the controller's directory.  [default: ~/.local/state/hikyaku/sdn]",
)
@click.option(
    "--reach-as",
    metavar="NAME",
    help="With --sdn: a name or address of this machine that the nodes reach it by.  [its host "
    "name]",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def tag_run(
    job: int | None,
    interfaces: tuple[str, ...],
    attach: str | None,
    restore: bool,
    sdn: bool,
    native: bool,
    state: Path | None,
    reach_as: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND, an mpirun, with its ranks' TCP tagged on every node.

    mpirun's daemons on other nodes are started with the same settings; hikyaku must be at the same
    path there. Needs the privilege to load eBPF programs; ranks do not get it. When the last
    process of the job has ended on a node, however it ended, nothing is left there.

    \b
    Examples:
      hikyaku tag run --sdn -- mpirun -np 4 --host a,b ./solver
      hikyaku tag run --sdn --native -- mpirun --mca btl hikyaku,vader,self -np 4 ./solver
      hikyaku tag run --job 7 --iface eth1 -- mpirun -np 4 --host a,b ./solver
      hikyaku lab mpirun --tcp --tag -np 2 ./solver
    """
    if not sdn:
        if state or reach_as or native:
            raise HikyakuError(
                "--native, --state and --reach-as are of --sdn", "add --sdn, or leave them"
            )
        argv = tag_command(job=job, interfaces=interfaces, restore=restore, attach=attach)
        os.execv(argv[0], [*argv, *command])
    if job is not None:
        raise HikyakuError("with --sdn the controller gives the number", "leave --job away")
    if native and (interfaces or restore or attach):
        raise HikyakuError(
            "--iface, --restore and --attach are of TCP; with --native ranks tag what they send",
            "leave them away",
        )
    from .cli_sdn import state_directory
    from .lab.openmpi import tag_settings
    from .sdn.client import Client
    from .sdn.registrar import PATIENCE_S, Registrar, job_name

    client = Client(state_directory(state, None), patience=PATIENCE_S)
    with Registrar(client, job_name(list(command)), reach_as or socket.gethostname()) as registrar:
        if native:
            settings = tag_settings(registrar.job, registrar.address)
            sys.exit(_run(list(command), os.environ | settings))
        argv = tag_command(
            job=registrar.job,
            interfaces=interfaces,
            restore=restore,
            registrar=registrar.address,
            attach=attach,
        )
        sys.exit(_run([*argv, *command]))


def _run(argv: list[str], env: Mapping[str, str] | None = None) -> int:
    """Its exit status. A terminal's Ctrl-C reaches it as well: it says when it ends."""
    try:
        child = subprocess.Popen(argv, env=env)
    except OSError as bad:
        raise HikyakuError(f"cannot run {argv[0]}: {bad.strerror}") from None
    try:
        while True:
            try:
                code = child.wait()
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:
                continue
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()


@tag.command("status")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def tag_status(as_json: bool) -> None:
    """Show the tagged jobs of this node: ranks, connections, packets.

    \b
    Examples:
      hikyaku tag status
      hikyaku lab exec node1 ./hikyaku tag status
    """
    found = jobs(run_base())
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    if not found:
        click.echo("no job is tagged on this node")
    if stale := check()["stale"]:
        click.echo(f"{stale_text(stale)}; fix: {STALE_FIX}")
    console = Console()
    for job in found:
        _show(console, job)


def _show(console: Console, job: dict) -> None:
    places = f"{', '.join(job['interfaces'])} by {job['attach']}"
    console.print(f"job {job['job']} on {places}; hk-tagger {job['pid']}")
    ranks = Table("rank", "process", "in")
    for rank in sorted(job["ranks"], key=lambda r: r["rank"]):
        ranks.add_row(str(rank["rank"]), str(rank["pid"]), rank["function"])
    console.print(ranks)
    table = Table("rank", "peer", "from", "to", "frames", "bytes", title="connections")
    for c in sorted(job["connections"], key=lambda c: (c["rank"], c["peer"])):
        ends = [f"{c[end]}:{c[end + '_port']}" for end in ("local", "remote")]
        table.add_row(str(c["rank"]), str(c["peer"]), *ends, str(c["frames"]), str(c["bytes"]))
    console.print(table)
    for function, sums in job["tagged"].items():
        console.print(f"  {function}: {sums['frames']} frames, {sums['bytes']} bytes")
    console.print(
        f"connections tagged since the start: {job['connections_tagged']}; to others than ranks of "
        f"this job: {job['strangers']}"
    )
    if job["restore"]:
        console.print(f"frames given their address back: {job['restored']}")
    if job["failed"]:
        console.print(f"frames that could not be written to, left untagged: {job['failed']}")


@tag.command("decode")
@click.argument("mac")
def tag_decode(mac: str) -> None:
    """Say what the tag MAC, as it stands in a capture, means.

    \b
    Example:
      hikyaku tag decode 66:48:0d:00:00:05
    """
    try:
        click.echo(str(Tag.parse(mac)))
    except NoTag as why:
        raise HikyakuError(f"that is no tag: {why}", "docs/tag.md draws one") from None
