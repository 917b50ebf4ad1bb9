# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku capture`: finds whose frames are meant, and runs hikyaku-capture (capture/) there."""

import os
from pathlib import Path

import click

from .cli_daemon import Daemon, run_base
from .errors import HikyakuError

_STATUS = 10


def _program() -> str:
    if given := os.environ.get("HIKYAKU_CAPTURE"):
        return given
    from .checkout import built

    return str(built("capture/hikyaku-capture"))


def _shared(base: Path, name: str) -> str:
    """By this name the processes of a daemon know each other."""
    with Daemon.connect(base, name) as it:
        return str(it.text(_STATUS)["shared"])


@click.command()
@click.option(
    "-w", "file", metavar="FILE", help="Write pcapng there; -: standard output. Without: count."
)
@click.option("--lab", "lab_name", metavar="NAME", help="In a lab's node …")
@click.option("--node", metavar="NODE", help="… this one, as in `hikyaku lab exec`.")
@click.option("--daemon", metavar="NAME", help="This hikyakud, its poller and its ranks.")
@click.option(
    "--pid", type=click.IntRange(1), multiple=True, help="This process, and its pipes; repeatable."
)
@click.option("--pipes", is_flag=True, help="Pipes to hikyakud's switch as well.")
@click.option("--wait", is_flag=True, help="Wait for processes, and go on when none is left.")
@click.option("--rank", type=click.IntRange(0, 0xFFFFF), help="Frames from or to this rank.")
@click.option("--endpoint", type=click.IntRange(0), help="Frames from or to this endpoint.")
@click.option("--job", metavar="KEY", help="Frames of this job (hexadecimal).")
@click.option(
    "--snaplen",
    type=click.IntRange(1, 65535),
    default=65535,
    show_default=True,
    help="Bytes of each frame.",
)
@click.option("--count", type=click.IntRange(1), help="End after so many frames.")
@click.option("--duration", type=float, metavar="S", help="End after so many seconds.")
@click.option(
    "--buffer",
    type=click.Choice([str(1 << i) for i in range(11)]),
    default="16",
    show_default=True,
    metavar="MB",
    help="Of each process's ring: a power of two, at most 1024.",
)
def capture(
    file: str | None,
    lab_name: str | None,
    node: str | None,
    daemon: str | None,
    pid: tuple[int, ...],
    pipes: bool,
    wait: bool,
    rank: int | None,
    endpoint: int | None,
    job: str | None,
    snaplen: int,
    count: int | None,
    duration: float | None,
    buffer: str,
) -> None:
    """Capture the frames of user-space ports, which tcpdump cannot see.

    Of every process of this network namespace that may be captured: ranks, pollers, switches. It
    ends when the last one does, by --count or --duration, or by Ctrl-C. The captured processes wait
    for nothing: frames that find their ring full are dropped from the capture, and counted.

    \b
    Examples:
      hikyaku capture --lab default --node node0 -w job.pcapng
      hikyaku capture --wait -w - | tshark -X lua_script:tools/wireshark/hikyaku.lua -r -
      hikyaku capture --daemon default --rank 3 --count 1000 -w rank3.pcapng
    """
    if pid and (daemon or wait):
        raise click.UsageError("--pid excludes --daemon and --wait")
    if lab_name and not node:
        raise click.UsageError("--lab needs --node: a node has a network namespace of its own")
    lab = base = None
    if node:
        from .lab import Lab

        lab = Lab.find(lab_name or os.environ.get("HIKYAKU_LAB", "default"))
        lab.node(node)
        base = lab.node_directory(node) / "run"
    argv = [_program()]
    values = {
        "-w": file,
        "--shared": _shared(base or run_base(), daemon) if daemon else None,
        "--rank": rank,
        "--endpoint": endpoint,
        "--job": job,
        "--snaplen": snaplen,
        "--count": count,
        "--duration": duration,
        "--buffer": buffer,
    }
    argv += [
        word for key, value in values.items() if value is not None for word in (key, str(value))
    ]
    argv += [word for each in pid for word in ("--pid", str(each))]
    argv += ["--wait"] * wait + ["--pipes"] * (pipes or bool(pid))
    if lab and node:
        argv = lab.exec_argv(node, argv)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise HikyakuError(
            f"cannot run {argv[0]}: {error.strerror}", "build it: make (or set HIKYAKU_CAPTURE)"
        ) from None
