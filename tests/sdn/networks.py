# SPDX-License-Identifier: BSD-3-Clause
"""Networks for tests: those that the package has itself, and random ones, each from a seed."""

import random
import struct

from hikyaku.sdn.graph import Graph
from hikyaku.sdn.network import Network
from hikyaku.sdn.wired import FIRST_HOST, hundred_switches, job_on, of_wiring

__all__ = ["FIRST_HOST", "at_random", "hundred_switches", "job_on", "lldp", "of_wiring"]


def at_random(seed: int, switches: int = 8, hosts: int = 12) -> Network:
    """Connected: a random tree, and as many links more. About half of the switches have hosts."""
    rng = random.Random(seed)
    graph = Graph()
    ends: dict[int, int] = dict.fromkeys(range(1, switches + 1), 0)

    def port(switch: int) -> int:
        ends[switch] += 1
        return ends[switch]

    pairs = [(s, rng.randrange(1, s)) for s in range(2, switches + 1)]
    pairs += [tuple(rng.sample(range(1, switches + 1), 2)) for _ in range(switches)]
    links = [((a, port(a)), (b, port(b))) for a, b in pairs]
    some = rng.sample(range(1, switches + 1), max(2, switches // 2))
    places = [(s, port(s)) for s in (rng.choice(some) for _ in range(hosts))]
    for switch, count in ends.items():
        graph.add_switch(switch, range(1, count + 1))
    for a, b in links:
        graph.add_link(a, b)
    for i, place in enumerate(places):
        graph.hosts[FIRST_HOST + i] = place
    return Network(graph)


def lldp(name: bytes, description: bytes = b"", source: int = 0x0200_0000_0001) -> bytes:
    """A frame of a host's LLDP daemon: IEEE 802.1AB, 8.2."""
    mac = source.to_bytes(6, "big")
    fields = [(1, b"\x04" + mac), (2, b"\x03" + mac), (3, b"\0\x78")]
    fields += [(4, description), (5, name), (0, b"")]
    body = b"".join(struct.pack("!H", kind << 9 | len(value)) + value for kind, value in fields)
    return bytes.fromhex("0180c200000e") + mac + b"\x88\xcc" + body
