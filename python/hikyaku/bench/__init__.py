# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench mpi`: the same MPI program over TCP and over Hikyaku, side by side; `bench host`:
Hikyaku's host modes; `bench rtc`: run to completion; `bench
halo`: a solver's neighbour exchange.

    sample.py    one run of one transport: values by metric and size
    driver.py    which runs, in which order; medians; the rows of the JSON file
    phases.py    samples that may be compared: cores equally far apart
    machine.py   what was measured on
    report.py    the table
    plot.py      the picture

    host.py          bench host: its runs, and the rows
    hikyakud.py      daemons and their CPU
    host_report.py   its tables and goals

    rtc.py           bench rtc: its runs, and the rows
    rtc_report.py    its tables and goals
    rtc_plot.py      its picture

    halo.py          bench halo: its runs, and the rows
    halo_report.py   its tables, goals and picture

    goals.py         what a figure is to be, for all of them

How it is kept fair: all transports run in the same lab, with rank 0 on the first core and rank 1 on
the second; TCP has a clean wire of its own of the same kind and MTU; each repeat runs every
transport once, and the order turns by one with each repeat, so that a slow minute of the machine
hits all of them.
"""
