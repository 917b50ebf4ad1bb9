# SPDX-License-Identifier: BSD-3-Clause
"""Bcast: a tree over the switches; each copies a frame to its branches, and the last one gives each
copy its receiver's own address.

One tree for a group, whoever the root is, since a switch never sends a frame back where it came
from: so one entry a switch and group, and one for each rank that shares its port with other hosts.
Trees of several groups take different branches. Each host gets one copy, whichever of its ranks are
members.
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
        for mac, end in sorted({(job.ranks[r], end) for r, end in located.items()}):
            near = [m for m in sorted(hosts) if hosts[m] == end and m != mac]
            if near:
                yield _back(key, buckets[end[0]], mac, end, near, job.number)


def _back(
    key: Key, buckets: list[Bucket], source: int, end: tuple[int, int], near: list[int], job: int
) -> tuple[int, Key, Does]:
    """What @source sends goes back to those @near, who share its port: a switch does that only if
    it is told so, and @source itself gets nothing."""
    switch, port = end
    others = [bucket for bucket in buckets if bucket.actions[-1] != Out(port)]
    back = [Bucket(None, (SetDst(mac), Out(IN_PORT))) for mac in near]
    match = key.match._replace(in_port=port, src=source)
    above = Key(key.table, key.priority + 1, match)
    return switch, above, Does((Group(False, (*others, *back)),), job)
