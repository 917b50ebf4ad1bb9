# SPDX-License-Identifier: BSD-3-Clause
"""Hikyaku's command line, its lab (a cluster on one machine) and the benchmarks' driver.

The protocol itself is C and lies in the directories beside this one; Python never touches a frame.

    errors.py      the one exception that users see
    checkout.py    which checkout or installation this is, and the names that follow from it
    process.py     bounded waits, process lookup, killing a tree
    lab/           network namespaces as nodes, wires between them, mpirun inside
    bench/         the driver of bench/mpi_bench.c: repeats, table, plot, JSON
    doctor/        what this machine has and what it lacks
    reach.py       whether two nodes reach each other
    cli.py         the commands
"""

__version__ = "0.1.0"
