# SPDX-License-Identifier: BSD-3-Clause
"""Bcast: a tree over the switches; each copies a frame to its branches, and the last one gives each
copy its receiver's own address.

One tree for a group, whoever the root is, since a switch never sends a frame back where it came
from: so one entry a switch and group. Trees of several groups take different branches. Each host
gets one copy, whichever of its ranks are members.
"""

from collections import defaultdict
from collections.abc import Iterable

from ..cubes import tags
from ..network import Job, Network, tree
from ..priorities import TAGGED
from ..rules import FORWARD, Bucket, Does, Group, Key, Match, Out, SetDst
from ..tag import RANKS, Function

NAME = "bcast"
SERVES = "tags to groups: a multicast tree for each group"
FUNCTIONS = frozenset({Function.BCAST})
GROUPS = True


def rules(network: Network, job: Job) -> Iterable[tuple[int, Key, Does]]:
    located = network.located(job)
    for group in job.group_numbers():
        hosts = {job.ranks[r]: located[r] for r in job.members(group) if r in located}
        dst, mask = tags(
            job.number, function=Function.BCAST, destination=(group, RANKS - 1), group=True
        )
        key = Key(FORWARD, TAGGED, Match(dst=dst, dst_mask=mask))
        ports = tree(network, {switch for switch, _ in hosts.values()}, key)
        network.trees.update(ports)
        buckets: dict[int, list[Bucket]] = defaultdict(list)
        for switch, port in sorted(ports):
            buckets[switch].append(Bucket(None, (Out(port),)))
        for mac, (switch, port) in sorted(hosts.items()):
            buckets[switch].append(Bucket(None, (SetDst(mac), Out(port))))
        for switch, each in buckets.items():
            yield switch, key, Does((Group(False, tuple(each)),), job.number)
