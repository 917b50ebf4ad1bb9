# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms that route tagged traffic: one file each.

An algorithm is a module with

    NAME: str
    SERVES: str                                      one line for people
    FUNCTIONS: frozenset[Function] | None            None: all that no other algorithm takes
    GROUPS: bool                                     tags to groups, instead of tags to ranks
    rules(network, job) -> iterable of (switch, Key, Does)

rules() is pure, and is called again after every change. It returns all rules of the job for its
functions. They are in table FORWARD, with priority TAGGED or up to 9 above, and have the job's
number in Does.

rules() may rely on this: a frame in table FORWARD carries a tag of a rank of this job. It came from
the port of this rank, or over a link between switches.

The rules must not make loops. They deliver a frame to every receiver once, and give it the host's
own address before it leaves for a host. tests/sdn/networks.py checks this on random networks.

To add an algorithm: a file here, and its name in ALL.
"""

from . import allreduce, bcast, p2p

ALL = (p2p, allreduce, bcast)
