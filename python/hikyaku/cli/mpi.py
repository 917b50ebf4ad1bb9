# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku mpi`: other MPIs than the machine's Open MPI."""

import click


@click.group()
def mpi() -> None:
    """Other MPIs, which use Hikyaku by its libfabric provider."""


@mpi.command()
@click.argument("name")
def install(name: str) -> None:
    """Download the MPI NAME and print where it is.

    NAME is mpich, impi (Intel MPI, which has no compiler: take MPICH's) or openmpi5. Each is the
    unmodified build of the Python package index, in a directory of its own. `hikyaku lab mpirun
    --mpi` does this on first use.

    \b
    Example:
      hikyaku mpi install mpich
      $(hikyaku mpi install mpich)/bin/mpicc ring.c -o ring-mpich
      hikyaku lab mpirun --mpi mpich -np 2 ./ring-mpich
    """
    from .. import mpi as mpis

    mpis.check_name(name)
    click.echo(mpis.install(name))
