# SPDX-License-Identifier: BSD-3-Clause
"""Rules that repair themselves, without the controller: for the time until it has computed anew.

Pure. A switch sends by the first of its equal ports that is up. One that has no way on sends the
frame back to where it came from, and there it takes the next of the equal ports; when it has come
back from all of them it is dropped, so it cannot circle. A switch with hosts sends nothing back:
it might be to a host.
"""

from collections.abc import Iterable

from .network import Network
from .rules import IN_PORT, Does, Key, out


def repaired(
    network: Network, switch: int, ports: tuple[int, ...], key: Key, job: int = 0
) -> Iterable[tuple[int, Key, Does]]:
    """@key sends by the first of @ports that is up, in their order. Takes its priority and the next
    one above."""
    transit = not network.graph.host_ports(switch)
    yield switch, key, Does(out((*ports, IN_PORT) if transit else ports), job)
    if len(ports) == 1:
        return  # to where it came from a frame does not go: it is dropped without a rule
    for i, port in enumerate(ports):
        back = Key(key.table, key.priority + 1, key.match._replace(in_port=port))
        yield switch, back, Does(out(ports[i + 1 :]), job)
