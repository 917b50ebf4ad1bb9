# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms that route tagged traffic: one file each.

An algorithm is a module with

    NAME: str
    SERVES: str                                      one line for people
    FUNCTIONS: frozenset[Function] | None            None: all that no other algorithm takes
    GROUPS: bool                                     tags to groups, instead of tags to ranks
    rules(network, job) -> iterable of (switch, Key, Does)

rules() is pure and is asked again whenever something has changed; it gives all rules of the job for
these functions, in table FORWARD, with priority TAGGED or up to 9 above, and the job's number in
Does. What it may rely on: a frame that gets there carries a tag of a rank of this job, and came
from the port that this rank is at, or over a link between switches. What it owes: no loops; every
receiver once; the frame leaves for a host only with the host's own address. tests/sdn/networks.py
checks these on random networks for every algorithm of this package.

To add one: a file here, its name in ALL.
"""

from . import allreduce, bcast, p2p

ALL = (p2p, allreduce, bcast)
