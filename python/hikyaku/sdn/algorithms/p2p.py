# SPDX-License-Identifier: BSD-3-Clause
"""Point-to-point traffic, and all functions without an algorithm of their own.

Frames go to the destination's host over the path of all other traffic to it. Inside of the fabric a
switch has one entry for each port and few cubes of ranks. The switch of a rank has one entry for
each host, and two for hosts that share a port.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from ..cubes import cover, tags
from ..network import Job, Network
from ..priorities import TAGGED
from ..repair import repaired
from ..rules import FORWARD, IN_PORT, Does, Key, Match, Out, SetDst
from ..tag import Function

NAME = "p2p"
SERVES = "functions without an algorithm of their own, over the path of untagged traffic"
FUNCTIONS: frozenset[Function] | None = None
GROUPS = False


def deliver(switch: int, job: Job, at: dict, priority: int) -> Iterable[tuple[int, Key, Does]]:
    """The rules of the last switch: they restore the address and send the frame to its host. They
    use @priority, and the next higher one where a port has several hosts."""
    here: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, (where, port) in at.items():
        if where == switch:
            here[port, job.ranks[rank]].append(rank)
    hosts = Counter(port for port, _ in here)
    for (port, mac), ranks in here.items():
        for cube in cover(ranks, job.ranks):
            dst, mask = tags(job.number, destination=cube, group=False)
            match = Match(dst=dst, dst_mask=mask)
            yield (
                switch,
                Key(FORWARD, priority, match),
                Does((SetDst(mac), Out(port)), job.number),
            )
            if hosts[port] > 1:
                back = Key(FORWARD, priority + 1, match._replace(in_port=port))
                yield switch, back, Does((SetDst(mac), Out(IN_PORT)), job.number)


def rules(network: Network, job: Job) -> Iterable[tuple[int, Key, Does]]:
    graph, at = network.graph, network.located(job)
    for switch in graph.ports:
        yield from deliver(switch, job, at, TAGGED + 2)
        by_ports: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for rank, (target, _) in at.items():
            first = network.paths.get((switch, job.ranks[rank]))
            if target != switch and first is not None:
                by_ports[network.spares(switch, target, first)].append(rank)
        for ports, ranks in by_ports.items():
            for cube in cover(ranks, job.ranks):
                dst, mask = tags(job.number, destination=cube, group=False)
                key = Key(FORWARD, TAGGED, Match(dst=dst, dst_mask=mask))
                yield from repaired(network, switch, ports, key, job.number)
