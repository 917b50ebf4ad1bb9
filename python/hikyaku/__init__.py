# SPDX-License-Identifier: BSD-3-Clause
"""Hikyaku's command line, its lab (a cluster on one machine), its benchmarks and its controller.

The protocol is written in C, in the directories beside this one; Python never handles its frames.

    cli/           the commands, one module for each
    lab/           network namespaces as nodes, wires between them, mpirun inside
    guest/         virtual machines with emulated NICs and device memory
    bench/         the benchmarks, one package for each suite
    sdn/           the network's controller
    devmem/        DMA between devices
    doctor/        what this machine has and what it lacks
    stats/         the counters of ranks and daemons
    learn/         gossip learning
    halo.py        the halo library for NumPy arrays
    rtc.py         run-to-completion nodes
    native.py      what the bindings of our C libraries share
    hostd.py       a client of hikyakud
    reach.py       whether two nodes reach each other
    checkout.py    which checkout or installation this is, and the names that follow from it
    packages.py    the Python packages of others, and the fix where one is missing
    process.py     bounded waits, process lookup, ending processes
    errors.py      the exception that users see
"""

__version__ = "0.1.0"
