# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab exec` and `lab mpirun`."""

import os
import shutil
import sys

import click

from ...called import as_root
from ...checkout import ROOT
from ...errors import HikyakuError
from .common import SWITCHES, lab_option

# Debian's, of programs that our pages use on nodes and scripts/install-deps does not install.
_PACKAGES = {"ping": "iputils-ping"}


@click.command("exec", context_settings={"ignore_unknown_options": True})
@lab_option
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def lab_exec(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND as a process of NODE.

    \b
    Examples:
      hikyaku lab exec node1 ip address
      hikyaku lab exec node0 ping -c 3 node1-tcp
      hikyaku lab exec node0 bash
    """
    from ...lab import Lab

    argv = Lab.find(name).exec_argv(node, list(command))
    _check_program(command[0])
    os.execvp(argv[0], argv)


def _check_program(name: str) -> None:
    """Raises an error if @name, which a node is to run, is not there."""
    if shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{ROOT}"):
        return
    fix = "check its name and path, or install its package"
    if name in _PACKAGES:
        fix = as_root(f"apt-get install {_PACKAGES[name]}")
    raise HikyakuError(f"there is no program '{name}'", fix)


# The arguments are those of Open MPI's mpirun. click would read `-np` as two options.
@click.command(
    "mpirun",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def lab_mpirun(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Run an MPI program in the lab, over Hikyaku or TCP.

    All other arguments go to mpirun: its options, then the program and its arguments. mpirun's
    options override the settings of the lab: hosts, mapping, binding and BTLs. Consecutive ranks
    are on different nodes, unless you give --map-by slot.

    \b
    Options of the lab itself, before the program:
      --tcp           use TCP, on the lab's TCP wire
      --tag           write MPI function and ranks into the destination address of each
                      frame (docs/tag.md). With --tcp the kernel writes the tag, and the
                      receiving node restores the address (docs/tagger.md). Without --tcp
                      the ranks write it, and Bcast is a multicast (docs/bcast.md); this
                      needs wire ovs and its controller
      --attach WAY    with --tcp --tag: tcx, or clsact for kernels before 6.6
      --mode MODE     the process that polls (docs/modes.md). inline: the rank. hybrid:
                      the rank, and hikyakud while the rank computes. daemon: hikyakud.
                      split: hikyakud for messages, the rank for bulk data. auto: the
                      BTL chooses. hybrid, daemon and split need 'lab up --huge', and
                      hybrid and split also wire memif
      --mpi NAME      the MPI: openmpi, this machine's [default]; or by libfabric
                      (docs/libfabric.md) mpich, impi, openmpi5, which are downloaded
                      on first use, and openmpi-ofi, this machine's. All other options
                      are then those of its mpiexec
      --pool POP      put receive buffers in this memory, such as pop:huge:size=64M
                      (docs/devmem.md); not with --tcp, and only in mode inline
      --lab NAME      the lab  [default: $HIKYAKU_LAB or 'default']
      --help          this text; 'mpirun --help' lists mpirun's options

    \b
    Examples:
      hikyaku lab mpirun -np 2 ./ring
      hikyaku lab mpirun --tcp -np 2 ./ring
      hikyaku lab mpirun --mode hybrid -np 2 ./ring
      hikyaku lab mpirun --mpi mpich -np 2 ./ring-mpich
      hikyaku lab mpirun -np 4 --map-by slot -x OMP_NUM_THREADS=1 ./solver input.txt
      hikyaku lab mpirun -np 2 --mca btl_base_verbose 100 ./ring
      HIKYAKU_RTC_BACKEND=raw hikyaku lab mpirun -np 2 build/examples/sum
    """
    from ...lab import Job, Lab
    from ...lab.openmpi import pool_settings, take_lab_options

    flags, rest = take_lab_options(list(arguments))
    if flags.help or not rest:
        click.echo(ctx.get_help())
        return
    name = flags.lab or os.environ.get("HIKYAKU_LAB") or "default"
    made = SWITCHES if flags.tag and not flags.tcp else ()
    result = Lab.find(name, made=made).launch(
        Job(
            rest,
            tcp=flags.tcp,
            mode=flags.mode,
            tag=flags.tag,
            attach=flags.attach,
            mpi=flags.mpi,
            env=pool_settings(flags),
            capture=False,
        )
    )
    code = result.returncode
    sys.exit(code if code >= 0 else 128 - code)
