# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku capture`: finds the processes to capture, and runs hikyaku-capture (tools/capture/)."""

import os
from pathlib import Path

import click

from ..errors import HikyakuError
from ..hostd import STATUS, Daemon, run_base
from ..process import option_words


def _program() -> str:
    if given := os.environ.get("HIKYAKU_CAPTURE"):
        return given
    from ..checkout import built

    return str(built("tools/capture/hikyaku-capture"))


def _shared(base: Path, name: str) -> str:
    """The name of the memory that the processes of daemon @name share."""
    with Daemon.connect(base, name) as it:
        return str(it.text(STATUS)["shared"])


@click.command()
@click.option(
    "-w", "file", metavar="FILE", help="Write pcapng; -: to standard output.  [only count frames]"
)
@click.option("--lab", "lab_name", metavar="NAME", help="The lab of --node.")
@click.option("--node", metavar="NODE", help="Capture in this node of a lab.")
@click.option("--daemon", metavar="NAME", help="Capture this hikyakud, its poller and its ranks.")
@click.option(
    "--pid",
    type=click.IntRange(1),
    multiple=True,
    help="Capture this process and its pipes; repeatable.",
)
@click.option("--pipes", is_flag=True, help="Capture the pipes to hikyakud's switch, too.")
@click.option("--wait", is_flag=True, help="Wait for processes to start; stay when all have ended.")
@click.option("--rank", type=click.IntRange(0, 0xFFFFF), help="Frames from or to this rank.")
@click.option("--endpoint", type=click.IntRange(0), help="Frames from or to this endpoint.")
@click.option("--job", metavar="KEY", help="Frames of this job (hexadecimal).")
@click.option(
    "--snaplen", type=click.IntRange(1, 65535), default=65535, help="Bytes to keep of each frame."
)
@click.option("--count", type=click.IntRange(1), help="End after this number of frames.")
@click.option("--duration", type=float, metavar="S", help="End after this number of seconds.")
@click.option(
    "--buffer",
    type=click.Choice([str(1 << i) for i in range(11)]),
    default="16",
    metavar="MB",
    help="Ring of each captured process: a power of two, at most 1024.",
)
def capture(
    file: str | None,
    lab_name: str | None,
    node: str | None,
    daemon: str | None,
    pid: tuple[int, ...],
    pipes: bool,
    **given: object,
) -> None:
    """Capture the frames of user-space ports, which tcpdump cannot see.

    Captures every rank, poller and switch of this network namespace, unless options select some.
    Ends with the last of them, by --count or --duration, or by Ctrl-C. A captured process never
    waits: if its ring is full, frames are dropped from the capture and counted.

    \b
    Examples:
      hikyaku capture --lab default --node node0 -w job.pcapng
      hikyaku capture --wait -w - | tshark -X lua_script:tools/wireshark/hikyaku.lua -r -
      hikyaku capture --daemon default --rank 3 --count 1000 -w rank3.pcapng
    """
    if pid and (daemon or given["wait"]):
        raise click.UsageError("--pid excludes --daemon and --wait")
    if lab_name and not node:
        raise click.UsageError("--lab needs --node: a node has a network namespace of its own")
    lab = base = None
    if node:
        from ..lab import Lab

        lab = Lab.find(lab_name or os.environ.get("HIKYAKU_LAB", "default"))
        lab.node(node)
        base = lab.node_directory(node) / "run"
    shared = _shared(base or run_base(), daemon) if daemon else None
    argv = [_program(), *(["-w", file] if file is not None else [])]
    argv += option_words(shared=shared, pid=pid, pipes=pipes or bool(pid), **given)
    if lab and node:
        argv = lab.exec_argv(node, argv)
    limited = given["count"] or given["duration"] or given["snaplen"] < 65535
    if file not in (None, "-") and not limited:
        click.echo(
            f"hikyaku: {file} may grow by 100 MB a second, until Ctrl-C; to limit it: "
            "--duration 5, --count 100000 or --snaplen 128",
            err=True,
        )
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise HikyakuError(
            f"cannot run {argv[0]}, which HIKYAKU_CAPTURE names: {error.strerror}",
            "unset HIKYAKU_CAPTURE",
        ) from None
