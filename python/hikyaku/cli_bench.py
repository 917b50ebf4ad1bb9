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


def check_outputs(json_file: Path | None, plot_file: Path | None = None) -> None:
    if plot_file and plot_file.suffix not in PICTURES:
        raise HikyakuError(f"{plot_file} is no picture", f"end it in {', '.join(PICTURES)}")
    for path in filter(None, (json_file, plot_file)):
        check_output(path)


def save(
    document: dict,
    json_file: Path | None,
    plot_file: Path | None = None,
    draw: Callable[[dict, Path], None] | None = None,
) -> None:
    """Saves what is asked for, and says so. @draw makes the picture."""
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n")
        click.echo(f"saved {json_file}")
    if plot_file and draw:
        draw(document, plot_file)
        click.echo(f"saved {plot_file}")


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
    check_outputs(json_file, plot_file)
    built("bench/mpi_bench")
    with progress_bar() as progress:
        document = driver.run(wire_names, plan, repeats, transport_names, mtu, progress)
    report.show(document, Console())
    from .bench.plot import draw

    save(document, json_file, plot_file, draw)


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


@bench.command("host")
@click.option(
    "--hosts",
    default="inline,hybrid",
    show_default=True,
    help="Host modes (btl_hikyaku_host): inline, hybrid, split, daemon.",
)
@click.option(
    "--metrics",
    default="latency,bandwidth,busy,pickup,flood,idle,attach",
    show_default=True,
    help="What to measure; see below.",
)
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How often each mode runs; the median is shown.",
)
@click.option(
    "--messages",
    default=20000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="busy: how many are sent to the rank that computes.",
)
@click.option(
    "--compute-ms",
    default=200,
    show_default=True,
    type=click.IntRange(0, 60000),
    help="busy: how long it computes.",
)
@click.option(
    "--idle-seconds",
    default=10,
    show_default=True,
    type=click.IntRange(1, 600),
    help="idle: how long the CPU is looked at.",
)
@click.option(
    "--huge",
    "huge_mb",
    default=512,
    show_default=True,
    help="Megabytes of huge pages for each node.",
)
@click.option(
    "--mca",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of Open MPI for every run, as mpirun's; may be given again.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save every figure; the form is stable.",
)
def bench_host(
    hosts: str,
    metrics: str,
    repeats: int,
    messages: int,
    compute_ms: int,
    idle_seconds: int,
    huge_mb: int,
    mca: tuple[tuple[str, str], ...],
    json_file: Path | None,
) -> None:
    """Who polls (the host modes), side by side, in one run.

    Brings up a lab of two nodes with huge pages on the memif wire; within each repeat each metric
    runs in every mode, one after the other, with one core a node. Shows medians, the range, and
    the ratio to inline; then which goals are met.

    \b
    latency    8 B, and
    bandwidth  1 MiB, as in `hikyaku bench mpi`.
    busy       A rank computes; another one sends it messages of 256 B meanwhile. When was the
               last MPI_Send back; when had the last message left (so that all but a window of
               them are acknowledged); how many packets were sent again.
    pickup     A rank says that it leaves MPI, and computes; eight messages are sent to it at once.
               Taken in: when the rank, which does not enter MPI, sees the BTL's counter of
               messages that were kept for it grow. Acknowledged: when the sender, whose window is
               of eight packets, sees a ninth one leave.
    flood      Two ranks a node: one pair plays ping-pong, first alone, then while one of the other
               pair floods its partner, which sleeps 1 ms after every 16 messages. The flood is
               numbered and checked. All ranks yield, since they share cores. Not for inline.
    idle       CPU of hikyakud and its poller together, from /proc, in per cent of a core: all
               ranks poll; all ranks sleep; a daemon without ranks. Not for inline.
    attach     What a rank does from the start of the BTL until the poller may serve it, with a
               daemon that runs and with one that has to be started. Not for inline.

    \b
    Examples:
      hikyaku bench host
      hikyaku bench host --metrics latency,busy --repeats 5 --json out/host.json
      hikyaku bench host --hosts hybrid --metrics busy --mca btl_hikyaku_window 256
    """
    from .bench import driver, host, host_report

    plan = host.Plan(
        metrics=driver.parse_names(metrics, host.METRICS, "metric"),
        modes=driver.parse_names(hosts, host.MODES, "host mode"),
        repeats=repeats,
        messages=messages,
        compute_ms=compute_ms,
        idle_seconds=idle_seconds,
        huge_mb=huge_mb,
        mca=dict(mca),
    )
    if not plan.steps():
        raise HikyakuError(
            f"{metrics} cannot be measured in mode {hosts}",
            "add a mode with a daemon: --hosts inline,hybrid",
        )
    check_outputs(json_file)
    for program in ("mpi_bench", "host_bench", "attach_bench"):
        built(f"bench/{program}")
    with progress_bar() as progress:
        document = host.run(plan, progress)
    document["goals"] = host_report.goals(document["rows"])
    host_report.show(document, Console())
    save(document, json_file)


@bench.command("halo")
@click.option(
    "--experiments",
    default="A,B,C",
    show_default=True,
    help="Which; see below.",
)
@click.option(
    "--processes",
    default=2,
    show_default=True,
    type=click.IntRange(2, 8),
    help="Ranks of B and C, on two nodes.",
)
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How often each transport runs; the median is shown.",
)
@click.option(
    "-n",
    "cube",
    default=100,
    show_default=True,
    type=click.IntRange(2, 200),
    help="B and C: points along an edge of the cube.",
)
@click.option(
    "--doubles",
    default="100,1000,3000,10000,30000,100000",
    show_default=True,
    help="A: how many are sent each way.",
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
def bench_halo(
    experiments: str,
    processes: int,
    repeats: int,
    cube: int,
    doubles: str,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """A solver's neighbour exchange: MPI over TCP and over Hikyaku, and the halo library.

    Brings up a lab of two nodes on the memif wire. Over Hikyaku, Isend and Irecv, persistent
    requests and the halo library take turns within each run; runs over TCP come in between.
    Shows medians, and which goals are met.

    \b
    A  two ranks send each other one piece of 100 to 100 000 doubles
    B  what a product with the 27-point matrix on n³ needs, blocks of rows
    C  the same, parts by METIS

    \b
    Examples:
      hikyaku bench halo
      hikyaku bench halo --experiments A --repeats 5 --json out/halo.json --plot out/halo.png
      hikyaku bench halo --experiments B,C --processes 4 -n 64
    """
    from .bench import driver, halo, halo_report

    plan = halo.Plan(
        experiments=driver.parse_names(experiments, halo.EXPERIMENTS, "experiment"),
        processes=processes,
        repeats=repeats,
        cube=cube,
        doubles=driver.parse_sizes(doubles),
    )
    check_outputs(json_file, plot_file)
    built("bench/halo_bench")
    with progress_bar() as progress:
        document = halo.run(plan, progress)
    document["goals"] = halo_report.judge(document["rows"])
    halo_report.show(document, Console())
    save(document, json_file, plot_file, halo_report.draw)


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
