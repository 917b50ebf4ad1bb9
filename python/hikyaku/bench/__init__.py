# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks: one package for each suite, with run.py, report.py and most also plot.py.

    mpi      an MPI program over TCP and over Hikyaku
    modes    the polling modes; hikyakud.py: daemons and their CPU
    rtc      run to completion
    halo     a solver's neighbour exchange
    sdn      a network that knows the communication pattern; one module for each experiment
    router   the router, DPDK's L3 example and emulated NICs
    devmem   the routers' plans on emulated devices
    common   the machine, samples, phases, goals, tables and figures of all suites

Transports are compared fairly: all run in the same lab, with rank 0 on the first core and rank 1 on
the second. TCP has a separate wire of the same kind and MTU. Each repeat runs every transport once,
in an order that rotates with each repeat, so that slow periods of the machine affect all of them.
"""
