# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench` and `hikyaku demo`: parses, measures with a progress bar, shows, saves."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .checkout import ROOT, built
from .errors import HikyakuError
from .lab.topology import DEFAULT_MTU


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, a line for each step elsewhere; on stderr, so that stdout is clean."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def line(text: str, done: int, total: int) -> None:
            click.echo(f"[{done}/{total}] {text}", err=True)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )


PICTURES = (".png", ".svg", ".pdf")


def check_output(path: Path) -> None:
    """Finds out before the measurement, not after it, that its result cannot be saved."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise HikyakuError(f"{path} cannot be written: {error.strerror}") from None


def measure(
    wires: str,
    sizes: str,
    metrics: str,
    transports: str,
    repeats: int,
    sample_ms: int,
    mtu: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Parses the texts, measures, prints the tables, saves what is asked for."""
    from .bench import driver, report

    plan = driver.Plan(
        driver.parse_names(metrics, driver.METRICS, "metric"),
        driver.parse_sizes(sizes),
        sample_ms,
    )
    wire_names = driver.parse_names(wires, driver.WIRES, "wire")
    transport_names = driver.parse_names(transports, driver.TRANSPORTS, "transport")
    if plot_file and plot_file.suffix not in PICTURES:
        raise HikyakuError(f"{plot_file} is no picture", f"end it in {', '.join(PICTURES)}")
    for path in filter(None, (json_file, plot_file)):
        check_output(path)
    built("bench/mpi_bench")
    with progress_bar() as progress:
        document = driver.run(wire_names, plan, repeats, transport_names, mtu, progress)
    report.show(document, Console())
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n")
        click.echo(f"saved {json_file}")
    if plot_file:
        from .bench.plot import draw

        draw(document, plot_file)
        click.echo(f"saved {plot_file}")


@click.group()
def bench() -> None:
    """Measure."""


@bench.command("mpi")
@click.option(
    "--wire",
    default="memif",
    show_default=True,
    metavar="WIRE[,WIRE]",
    help="memif, veth, or both with a comma.",
)
@click.option(
    "--sizes",
    default="1..4M",
    show_default=True,
    help="Bytes, as in 8,2048,64K, or a range of powers of two.",
)
@click.option(
    "--repeats",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How often each transport runs; the median is shown.",
)
@click.option(
    "--metrics",
    default="latency_us,bandwidth_MBps,bibandwidth_MBps,messages_per_s",
    show_default=True,
    help="What to measure; the man page defines each.",
)
@click.option(
    "--transports",
    default="tcp,hikyaku,raw,shm",
    show_default=True,
    help="raw: DPDK ping-pong without MPI; shm: Open MPI's shared memory, both ranks on one node.",
)
@click.option(
    "--sample-ms",
    default=30,
    show_default=True,
    type=click.IntRange(1, 10000),
    help="How long each single timing lasts.",
)
@click.option(
    "--mtu",
    default=DEFAULT_MTU,
    show_default=True,
    help="MTU of the kernel's wires, TCP's and Hikyaku's.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save every figure; the form is stable.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save a picture (.png, .svg or .pdf).",
)
def bench_mpi(
    wire: str,
    sizes: str,
    repeats: int,
    metrics: str,
    transports: str,
    sample_ms: int,
    mtu: int,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Latency and bandwidth of MPI over TCP and over Hikyaku, in one run.

    Brings up a lab of two nodes for each wire, runs the same program over each transport, pinned
    the same way, one after the other in each repeat, and takes medians. A quiet machine gives
    quiet figures: the range from minimum to maximum is shown beside each median.

    \b
    Examples:
      hikyaku bench mpi
      hikyaku bench mpi --sizes 8,2048 --metrics latency_us --repeats 9
      hikyaku bench mpi --wire memif,veth --json out/bench.json --plot out/bench.png
    """
    measure(wire, sizes, metrics, transports, repeats, sample_ms, mtu, json_file, plot_file)


@click.command()
def demo() -> None:
    """What 'make demo' shows: two nodes, TCP beside Hikyaku, in a minute or two.

    Saves out/demo.json and out/demo.png. 'hikyaku bench mpi' does the same with choices.
    """
    measure(
        "memif",
        "1,8,64,512,2K,8K,64K,256K,1M,4M",
        "latency_us,bandwidth_MBps",
        "tcp,hikyaku,raw,shm",
        3,
        30,
        DEFAULT_MTU,
        ROOT / "out" / "demo.json",
        ROOT / "out" / "demo.png",
    )
