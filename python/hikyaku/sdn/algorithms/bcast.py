# SPDX-License-Identifier: BSD-3-Clause
"""Bcast: a tree over the switches. Each switch copies a frame to its branches, and the last one
gives each copy its receiver's own address.

A group has one tree for all roots, since a switch does not send a frame back to its port. So a
switch has one entry for each group, and one for each rank that shares its port with other hosts.
Trees of several groups use different branches. Each host gets one copy.
"""

from collections import defaultdict
from collections.abc import Iterable

from ..cubes import tags
from ..network import Job, Network, tree
from ..priorities import TAGGED
from ..rules import FORWARD, IN_PORT, Bucket, Does, Group, Key, Match, Out, SetDst
from ..tag import RANKS, Function

NAME = "bcast"
SERVES = "tags to groups: a multicast tree for each group"
FUNCTIONS = frozenset({Function.BCAST})
GROUPS = True


def tree_key(job: int, group: int) -> Key:
    """The rule for the tree of @group, for all roots."""
    dst, mask = tags(job, function=Function.BCAST, destination=(group, RANKS - 1), group=True)
    return Key(FORWARD, TAGGED, Match(dst=dst, dst_mask=mask))


def rules(network: Network, job: Job) -> Iterable[tuple[int, Key, Does]]:
    located = network.located(job)
    for group in job.group_numbers():
        hosts = {job.ranks[r]: located[r] for r in job.members(group) if r in located}
        key = tree_key(job.number, group)
        ports = tree(network, {switch for switch, _ in hosts.values()}, key)
        network.trees.update(ports)
        buckets: dict[int, list[Bucket]] = defaultdict(list)
        for switch, port in sorted(ports):
            buckets[switch].append(Bucket(None, (Out(port),)))
        for mac, (switch, port) in sorted(hosts.items()):
            buckets[switch].append(Bucket(None, (SetDst(mac), Out(port))))
        for switch, each in buckets.items():
            yield switch, key, Does((Group(False, tuple(each)),), job.number)
        for mac, end in sorted({(job.ranks[r], end) for r, end in located.items()}):
            near = [m for m in sorted(hosts) if hosts[m] == end and m != mac]
            if near:
                yield _back(key, buckets[end[0]], mac, end, near, job.number)


def _back(
    key: Key, buckets: list[Bucket], source: int, end: tuple[int, int], near: list[int], job: int
) -> tuple[int, Key, Does]:
    """The rule that sends frames of @source back to the hosts @near, which share its port. A switch
    sends a frame back only by such a rule. @source itself gets no copy."""
    switch, port = end
    others = [bucket for bucket in buckets if bucket.actions[-1] != Out(port)]
    back = [Bucket(None, (SetDst(mac), Out(IN_PORT))) for mac in near]
    match = key.match._replace(in_port=port, src=source)
    above = Key(key.table, key.priority + 1, match)
    return switch, above, Does((Group(False, (*others, *back)),), job)
