# SPDX-License-Identifier: BSD-3-Clause
"""Rules that repair themselves until the controller has computed new ones.

Pure. A switch sends by the first of its equal ports that is up. A switch without such a port sends
the frame back, and the switch before takes its next equal port. A frame that has come back from all
ports is dropped, so it cannot circle. A switch with hosts sends nothing back, since it might be to
a host.
"""

from collections.abc import Iterable

from .network import Network
from .rules import IN_PORT, Does, Key, out


def repaired(
    network: Network, switch: int, ports: tuple[int, ...], key: Key, job: int = 0
) -> Iterable[tuple[int, Key, Does]]:
    """The rules for @key that send by the first port of @ports that is up. They use its priority
    and the next higher one."""
    transit = not network.graph.host_ports(switch)
    yield switch, key, Does(out((*ports, IN_PORT) if transit else ports), job)
    if len(ports) == 1:
        return  # a switch does not send a frame back without a rule: it is dropped
    for i, port in enumerate(ports):
        back = Key(key.table, key.priority + 1, key.match._replace(in_port=port))
        yield switch, back, Does(out(ports[i + 1 :]), job)
