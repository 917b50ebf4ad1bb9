# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo`: a short `hikyaku bench mpi` with fixed options, and pictures of the systems."""

import click

from ...checkout import output_dir
from ..bench.mpi import bench_mpi
from .halo import halo
from .learn import learn
from .p2p import p2p
from .sdn import sdn


@click.group(invoke_without_command=True, commands=[halo, learn, p2p, sdn])
@click.pass_context
def demo(ctx: click.Context) -> None:
    """Compare TCP and Hikyaku between two nodes, in a minute or two.

    Saves out/demo.json and out/demo.png. 'hikyaku bench mpi' does the same with options. Each
    command below shows another part of Hikyaku in less than a minute, and saves a picture.
    """
    if ctx.invoked_subcommand:
        return
    from ...lab.network import require_root

    require_root()  # before it says that the checkout's out/ is another user's
    ctx.invoke(
        bench_mpi,
        sizes="1,8,64,512,2K,8K,64K,256K,1M,4M",
        metrics="latency_us,bandwidth_MBps",
        repeats=3,
        json_file=output_dir() / "demo.json",
        plot_file=output_dir() / "demo.png",
    )
