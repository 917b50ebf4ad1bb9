# SPDX-License-Identifier: BSD-3-Clause
"""Paths that follow the loads, simulated: they settle, and neither noise nor demands that alternate
make them flap."""

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import networks
import pytest
from networks import FIRST_HOST

from hikyaku.sdn.balance import (
    FLOOR,
    HOLD_FIRST,
    HOLD_MAX,
    MOVES,
    SETTLE,
    STEADY,
    WINDOW,
    Balancer,
    Move,
    _Uneven,
)
from hikyaku.sdn.network import Network, choose_paths

ROUND = 2.0  # seconds
NOISE = 0.15


class World:
    """Hosts with demands, in bits a second, by the switch that sends to them. A port's load is the
    sum of its hosts, with noise."""

    def __init__(self, shape: str, seed: int = 1):
        self.network: Network = networks.of_wiring(shape)
        choose_paths(self.network)
        self.balancer = Balancer()
        self.rng = random.Random(seed)
        self.demand: dict[tuple[int, int], float] = defaultdict(float)
        self.bytes: Counter[tuple[int, int]] = Counter()
        self.now = 0.0
        self.moved: list[tuple[float, Move]] = []

    def leaf(self) -> int:
        graph = self.network.graph
        return min(s for s in graph.ports if graph.host_ports(s))

    def loads(self, noise: float = 0.0) -> dict[tuple[int, int], float]:
        found: dict[tuple[int, int], float] = dict.fromkeys(self.network.graph.links, 0.0)
        for (switch, host), rate in self.demand.items():
            if (switch, host) in self.network.paths:
                drawn = rate * (1 + self.rng.uniform(-noise, noise))
                found[switch, self.network.paths[switch, host]] += drawn
        return found

    def run(self, rounds: int, noise: float = NOISE) -> int:
        """The moves of @rounds."""
        before = len(self.moved)
        for _ in range(rounds):
            self.now += ROUND
            for place, rate in self.demand.items():
                self.bytes[place] += int(rate * (1 + self.rng.uniform(-noise, noise)) * ROUND / 8)
            self.network.load = self.loads(noise)
            for switch in self.balancer.round(self.network):
                counts = {host: n for (s, host), n in self.bytes.items() if s == switch}
                self.balancer.counted(switch, counts, self.now)
            made = self.balancer.moves(self.network, self.now)
            assert len(made) <= MOVES
            self.moved += [(self.now, move) for move in made]
        return len(self.moved) - before

    def run_bursts(self, rounds: int, late: float = 0.5) -> int:
        """The moves of @rounds in which each stream stalls and catches up. The counters of hosts
        are read up to @late of a round after those of ports."""
        before = len(self.moved)
        behind: dict[tuple[int, int], float] = dict.fromkeys(self.demand, 0.0)
        for _ in range(rounds):
            self.now += ROUND
            self.network.load = dict.fromkeys(self.network.graph.links, 0.0)
            unread = {}
            share = self.rng.uniform(0, late)
            for place, rate in self.demand.items():
                due = behind[place] + rate * ROUND
                sent = due * self.rng.choice([0, 0.3, 1])
                behind[place] = due - sent
                self.network.load[place[0], self.network.paths[place]] += sent / ROUND
                unread[place] = int(sent * share / 8)
                self.bytes[place] += int(sent / 8) - unread[place]
            for switch in self.balancer.round(self.network):
                counts = {host: n for (s, host), n in self.bytes.items() if s == switch}
                self.balancer.counted(switch, counts, self.now)
            self.moved += [(self.now, m) for m in self.balancer.moves(self.network, self.now)]
            self.bytes.update(unread)
        return len(self.moved) - before


def far_hosts(world: World, leaf: int) -> list[int]:
    return [mac for mac, at in sorted(world.network.graph.hosts.items()) if at[0] != leaf]


def test_two_busy_hosts_of_one_port_part():
    world = World("leaf-spine:2x2x4")
    leaf = world.leaf()
    paths = world.network.paths
    busy = [mac for mac in far_hosts(world, leaf) if paths[leaf, mac] == 1]
    assert len(busy) == 2
    world.demand |= {(leaf, mac): 5e8 for mac in busy}
    assert world.run(STEADY - 1) == 0, "a short burst moves nothing"
    assert world.run(2) == 1
    assert {paths[leaf, mac] for mac in busy} == {1, 2}
    assert world.run(500) == 0


@pytest.mark.parametrize("noise", [0.0, NOISE])
@pytest.mark.parametrize("seed", range(6))
def test_loads_become_even_and_stay(seed, noise):
    world = World("leaf-spine:4x3x8", seed)
    rng = random.Random(seed)
    for leaf in (s for s in world.network.graph.ports if world.network.graph.host_ports(s)):
        for mac in far_hosts(world, leaf):
            world.demand[leaf, mac] = rng.choice([0, 1e6, 5e7, 1e8])
    world.run(200, noise)
    assert world.run(500, noise) == 0, "no move after it has settled"
    by_switch = defaultdict(list)
    for (switch, _), load in world.loads().items():
        by_switch[switch].append(load)
    for loads in by_switch.values():
        assert max(loads) - min(loads) <= 1.5 * 1e8, "one host at most"


def test_moves_are_bounded_in_time():
    world = World("leaf-spine:4x3x8", 3)
    rng = random.Random(9)
    leaves = [s for s in world.network.graph.ports if world.network.graph.host_ports(s)]
    for _ in range(100):  # all demands change all the time
        for leaf in leaves:
            for mac in far_hosts(world, leaf):
                world.demand[leaf, mac] = rng.choice([0, 1e9])
        world.run(5)
    assert world.moved
    for switch in leaves:
        times = [at for at, move in world.moved if move.switch == switch]
        assert all(b - a >= SETTLE for a, b in pairwise(times))
    for place in {(m.switch, m.host) for _, m in world.moved}:
        times = [at for at, m in world.moved if (m.switch, m.host) == place]
        assert all(b - a >= HOLD_FIRST for a, b in pairwise(times))


def test_demands_that_alternate_move_hosts_ever_less():
    """The worst case for hosts: each time that one has moved, the load is where it went."""
    world = World("leaf-spine:2x2x4")
    leaf, paths = world.leaf(), world.network.paths
    hosts = far_hosts(world, leaf)
    hours = 2
    for _ in range(int(hours * 3600 / (5 * ROUND))):
        loaded = Counter(paths[leaf, mac] for mac in hosts[:3]).most_common(1)[0][0]
        for mac in hosts:
            world.demand[leaf, mac] = 5e8 if paths[leaf, mac] == loaded else 0
        world.run(5)
    each = Counter(move.host for _, move in world.moved)
    doublings = 1 + math.log2(HOLD_MAX / HOLD_FIRST)
    assert each
    assert max(each.values()) <= doublings + hours * 3600 / HOLD_MAX


def test_a_load_that_no_move_lowers_stays():
    world = World("leaf-spine:2x2x4")
    leaf = world.leaf()
    world.demand[leaf, far_hosts(world, leaf)[0]] = 9e8
    assert world.run(100) == 0


@pytest.mark.parametrize("seed", range(6))
def test_the_only_load_of_a_port_stays_also_if_it_comes_in_bursts(seed):
    """Two ports with a busy host each. Neither older traffic nor a late reading makes the load of a
    port look greater than the rate of its only host."""
    world = World("leaf-spine:2x2x4", seed)
    leaf, paths = world.leaf(), world.network.paths
    for port in (1, 2):
        host = next(mac for mac in far_hosts(world, leaf) if paths[leaf, mac] == port)
        world.demand[leaf, host] = 4e6
    assert world.run_bursts(2000) == 0


@pytest.mark.parametrize("seed", range(6))
def test_bursts_of_two_hosts_of_one_port_part(seed):
    world = World("leaf-spine:2x2x4", seed)
    leaf, paths = world.leaf(), world.network.paths
    busy = [mac for mac in far_hosts(world, leaf) if paths[leaf, mac] == 1]
    world.demand |= {(leaf, mac): 4e6 for mac in busy}
    assert world.run_bursts(2000) == 1
    assert {paths[leaf, mac] for mac in busy} == {1, 2}


def test_small_loads_do_not_matter():
    world = World("leaf-spine:2x2x4")
    leaf, paths = world.leaf(), world.network.paths
    for mac in far_hosts(world, leaf):
        world.demand[leaf, mac] = FLOOR / 3 if paths[leaf, mac] == 1 else 0
    assert world.run(100) == 0


def test_a_count_that_starts_again_is_no_rate():
    uneven = _Uneven()
    uneven.counted({FIRST_HOST: 10**9}, {}, 0)
    uneven.counted({FIRST_HOST: 10}, {}, 2)
    assert uneven.rate(FIRST_HOST) == 0
    for second in range(2, 2 + 2 * WINDOW, 2):
        uneven.counted({FIRST_HOST: 10 + 500 * second}, {}, 2 + second)
    assert uneven.rate(FIRST_HOST) == 4000
