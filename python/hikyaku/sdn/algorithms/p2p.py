# SPDX-License-Identifier: BSD-3-Clause
"""Point to point, and all that has no algorithm of its own: to the destination's host, the way that
all other traffic goes there, whatever the function and the source.

One entry for each port and few cubes of ranks inside of the fabric; on a rank's own switch one for
each host, and two for those that share a port.
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
SERVES = "everything that has no algorithm of its own, the way of untagged traffic"
FUNCTIONS: frozenset[Function] | None = None
GROUPS = False


def deliver(switch: int, job: Job, at: dict, priority: int) -> Iterable[tuple[int, Key, Does]]:
    """On the last switch: the real address, and out. Takes @priority, and the next one above
    where a port has several hosts: a switch sends nothing back unless it is told so."""
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
