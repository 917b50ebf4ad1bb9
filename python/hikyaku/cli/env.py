# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku env`: prints the settings that let any mpirun use Hikyaku."""

import os
import shlex
from collections.abc import Mapping

import click

from ..ofi import mpich_settings


@click.command()
@click.option("--ofi", is_flag=True, help="The settings for MPICH, by the libfabric provider.")
def env(ofi: bool) -> None:
    """Print the settings to use Hikyaku's BTL from any shell.

    Without a port, each rank chooses one: a UDP socket, and on a NIC AF_XDP before it if
    hikyaku-helper runs (docs/ports.md, auto). mpirun hands Open MPI's settings on to the other
    nodes. The files that they name must be at the same path on every node.

    pkg-config finds the modules hikyaku, hk_halo, hk_halo_fortran and hk_rtc.
    $HIKYAKU_PROMOTER is a library to preload: it turns messages that a program repeats into puts.
    $HIKYAKU_PYTHON is the PYTHONPATH for `from hikyaku import halo`. docs/halo.md explains both.

    \b
    Example:
      eval "$(hikyaku env)"
      export OMPI_MCA_btl_hikyaku_port=pci:0000:3b:02.1     # the port, see docs/ports.md
      mpirun -np 2 --host a,b ./program
      mpicc solver.c $(pkg-config --cflags --libs hk_halo)
      mpirun -np 2 --host a,b -x LD_PRELOAD=$HIKYAKU_PROMOTER -x HK_HALO_REPORT=1 ./program
    """
    if ofi:
        _print(mpich_settings())
        return
    from ..checkout import INSTALLED, ROOT, build_dir
    from ..lab.openmpi import fabric_settings, promoter_settings

    settings = fabric_settings() | {
        "HIKYAKU_PROMOTER": promoter_settings()["LD_PRELOAD"],
        "HIKYAKU_PYTHON": str(ROOT / "python"),
    }
    modules = ROOT.parent / "pkgconfig" if INSTALLED else build_dir() / "scripts/pkgconfig"
    others = os.environ.get("PKG_CONFIG_PATH", "").split(":")
    mine = [str(modules), *(each for each in others if each not in ("", str(modules)))]
    settings["PKG_CONFIG_PATH"] = ":".join(mine)
    _print(settings)


def _print(settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        click.echo(f"export {key}={shlex.quote(value)}")
