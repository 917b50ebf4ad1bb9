# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku tag`: jobs whose TCP packets say which MPI function and ranks they are for."""

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

from ..called import as_typed
from ..errors import HikyakuError
from ..hostd import run_base
from ..sdn.tag import JOBS, NoTag, Tag
from ..sdn.tagger import STALE_FIX, WAYS, check, jobs, stale_text, tag_command
from .options import json_flag


@click.group()
def tag() -> None:
    """Tag the TCP packets of a job, for a network that routes by tags.

    A tag is a destination address that contains the job, the MPI function and the ranks
    (docs/tag.md). eBPF programs in the kernel write it (docs/tagger.md). They end with the job.

    \b
    Examples:
      hikyaku tag run -- mpirun -np 4 --host a,b ./solver
      hikyaku tag status
    """


@tag.command("run", context_settings={"ignore_unknown_options": True})
@click.option(
    "--job", type=click.IntRange(1, JOBS - 1), help="Number of the job in tags.  [a free one]"
)
@click.option(
    "--iface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Tag the packets that leave by this interface; repeatable. With --sdn, name the interface "
    "that MPI uses.  [all Ethernet interfaces]",
)
@click.option(
    "--attach",
    type=click.Choice(WAYS),
    help="How programs attach: tcx, or clsact for kernels before 6.6.  [the available one]",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Nodes restore the destination address of received tagged frames. For networks whose "
    "switches do not.",
)
@click.option(
    "--sdn",
    is_flag=True,
    help="Register the job and its ranks with the controller on this machine (hikyaku sdn run), "
    "which selects the job's number.",
)
@click.option(
    "--native",
    is_flag=True,
    help="With --sdn: ranks that use Hikyaku tag their own frames, and long Bcasts are multicasts. "
    "TCP packets get no tag.",
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
    help="With --sdn: a name or address of this machine that the nodes can reach.  [its host name]",
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
    """Run COMMAND and tag the TCP packets of its ranks.

    COMMAND starts with mpirun, which starts the other nodes with the same settings. So hikyaku must
    be at the same path there. This needs the privilege to load eBPF programs, which ranks do not
    get. The programs are removed from a node when the last process of the job there has ended, also
    if it was killed.

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
                "--native, --state and --reach-as need --sdn", "add --sdn, or leave them out"
            )
        argv = tag_command(job=job, interfaces=interfaces, restore=restore, attach=attach)
        os.execv(argv[0], [*argv, *command])
    if job is not None:
        raise HikyakuError("with --sdn the controller selects the number", "leave out --job")
    if native and (interfaces or restore or attach):
        raise HikyakuError(
            "--iface, --restore and --attach are for TCP; with --native ranks tag their frames",
            "leave them out",
        )
    from ..lab.openmpi import tag_settings
    from ..sdn.registrar import RETRY_S, Registrar, job_name
    from .sdn import client_of

    client = client_of(state, retry_s=RETRY_S)
    with Registrar(client, job_name(list(command)), reach_as or socket.gethostname()) as registrar:
        if native:
            settings = tag_settings(registrar.job, registrar.address)
            sys.exit(_run(list(command), os.environ | settings | registrar.environment))
        argv = tag_command(
            job=registrar.job,
            interfaces=interfaces,
            restore=restore,
            registrar=registrar.address,
            attach=attach,
        )
        sys.exit(_run([*argv, *command], os.environ | registrar.environment))


def _run(argv: list[str], env: Mapping[str, str] | None = None) -> int:
    """Runs @argv, and returns its exit status. It gets Ctrl-C as well, so it ends by itself."""
    try:
        child = subprocess.Popen(argv, env=env)
    except OSError as bad:
        raise HikyakuError(
            f"cannot run {argv[0]}: {bad.strerror}", "name a program, such as mpirun"
        ) from None
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
@json_flag
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
        click.echo("this node has no tagged job")
    if stale := check()["stale"]:
        click.echo(as_typed(f"{stale_text(stale)}; fix: {STALE_FIX}"))
    console = Console(emoji=False)
    for job in found:
        _show(console, job)


def _show(console: Console, job: dict) -> None:
    attached = f"{', '.join(job['interfaces'])} by {job['attach']}"
    console.print(f"job {job['job']} on {attached}; hk-tagger {job['pid']}")
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
        f"connections since the start: {job['connections_tagged']} tagged; {job['strangers']} not "
        "tagged, since the other end is not known as a rank of this job"
    )
    if job["restore"]:
        console.print(f"frames with restored address: {job['restored']}")
    if job["failed"]:
        console.print(f"frames not tagged, since they are read-only: {job['failed']}")


@tag.command("decode")
@click.argument("mac")
def tag_decode(mac: str) -> None:
    """Print the meaning of the tag MAC from a capture.

    \b
    Example:
      hikyaku tag decode 66:48:0d:00:00:05
    """
    try:
        click.echo(str(Tag.parse(mac)))
    except NoTag as why:
        raise HikyakuError(f"{mac} is not a tag: {why}", "docs/tag.md shows the format") from None
