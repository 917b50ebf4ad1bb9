# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench mpi` and `hikyaku demo`: parses, measures with a progress bar, shows, saves."""

from pathlib import Path

import click
from rich.console import Console

from ..checkout import built, output_dir
from ..lab.topology import DEFAULT_MTU
from .common import check_outputs, json_option, plot_option, progress_bar, repeats_option, save


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
    from ..bench import driver, report

    plan = driver.Plan(
        driver.parse_names(metrics, driver.METRICS, "metric"),
        driver.parse_sizes(sizes),
        sample_ms,
    )
    wire_names = driver.parse_names(wires, driver.WIRES, "wire")
    transport_names = driver.parse_names(transports, driver.TRANSPORTS, "transport")
    check_outputs(json_file, plot_file)
    built("bench/mpi_bench")
    with progress_bar() as progress:
        document = driver.run(wire_names, plan, repeats, transport_names, mtu, progress)
    report.show(document, Console())
    from ..bench.plot import draw

    save(document, json_file, plot_file, draw)


@click.command("mpi")
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
@repeats_option(5, "How often each transport runs; the median is shown.")
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
@json_option
@plot_option
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
        output_dir() / "demo.json",
        output_dir() / "demo.png",
    )
