# SPDX-License-Identifier: BSD-3-Clause
"""Networks as the controller finds them, but without switches: for tests and for `bench sdn`.

Pure.
"""

import random

from ..lab import wiring
from .graph import Graph
from .network import Job, Network

FIRST_HOST = 0x0200_0000_0000


def of_wiring(text: str) -> Network:
    made = wiring.parse(text)
    number = {name: i + 1 for i, name in enumerate(made.switches)}
    graph = Graph()
    ports: dict[int, set[int]] = {each: set() for each in number.values()}
    for link in made.links:
        ports[number[link.a]].add(link.port_a)
    for link in (*made.links, *made.access):
        ports[number[link.b]].add(link.port_b)
    for switch, each in ports.items():
        graph.add_switch(switch, each)
    for link in made.links:
        graph.add_link((number[link.a], link.port_a), (number[link.b], link.port_b))
    for i, link in enumerate(made.access):
        graph.hosts[FIRST_HOST + i] = (number[link.b], link.port_b)
    return Network(graph)


def hundred_switches() -> Network:
    """10 spines, 90 leaves, 1000 hosts."""
    graph = Graph()
    for switch in range(1, 101):
        graph.add_switch(switch, range(1, 101))
    for leaf in range(11, 101):
        for spine in range(1, 11):
            graph.add_link((leaf, spine), (spine, leaf))
    for i in range(1000):
        graph.hosts[FIRST_HOST + i] = (11 + i % 90, 20 + i // 90)
    return Network(graph)


def job_on(network: Network, ranks: int, *, number: int = 1, seed: int | None = None) -> Job:
    """A job whose ranks are assigned to the hosts in turn, or at random."""
    hosts = sorted(network.graph.hosts)
    rng = random.Random(seed)
    place = (lambda r: hosts[r % len(hosts)]) if seed is None else (lambda _: rng.choice(hosts))
    return Job(number, ranks={r: place(r) for r in range(ranks)})
