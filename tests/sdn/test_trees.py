# SPDX-License-Identifier: BSD-3-Clause
"""Trees of broadcasts and groups stay while they are useful, and change without a loop."""

import asyncio
import itertools
import random

import networks
import pytest
from os_ken.ofproto import ofproto_v1_3_parser as parser
from soft_switch import FULL, SoftSwitch

from hikyaku.sdn.controller import Controller
from hikyaku.sdn.follow import Frame, Tables
from hikyaku.sdn.network import Network, tree
from hikyaku.sdn.program import FLOOD_KEY, compute, learned
from hikyaku.sdn.rules import Program
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch
from hikyaku.sdn.tag import Function, Tag

SEEDS = range(12)
BROADCAST = (1 << 48) - 1


def loaded(network: Network, rng: random.Random) -> None:
    network.load = {end: rng.uniform(0, 1e9) for end in network.graph.links}


def crowd(network: Network, rng: random.Random) -> list:
    """Two jobs with a group each."""
    jobs = [networks.job_on(network, 10, number=n, seed=rng.random()) for n in (1, 2)]
    for job in jobs:
        job.groups[3] = frozenset(rng.sample(range(10), 5))
    return jobs


@pytest.mark.parametrize("seed", SEEDS)
def test_trees_stay_when_loads_change_and_links_come(seed):
    rng = random.Random(seed)
    network = networks.at_random(seed)
    jobs = crowd(network, rng)
    before = compute(network, jobs)
    loaded(network, rng)
    assert compute(network, jobs) == before
    standing = dict(network.standing)
    network.graph.add_switch(1, [*network.graph.ports[1], 90])
    network.graph.add_switch(8, [*network.graph.ports[8], 90])
    network.graph.add_link((1, 90), (8, 90))
    compute(network, jobs)
    assert network.standing == standing


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restarted_controller_does_not_change_trees(seed):
    rng = random.Random(seed)
    network, again = networks.at_random(seed), networks.at_random(seed)
    loaded(network, rng)
    jobs = crowd(network, rng)
    before = compute(network, jobs)
    for switch, program in before.items():
        learned(program).into(again, switch)
    assert compute(again, jobs) == before


@pytest.mark.parametrize("seed", SEEDS)
def test_old_ports_are_kept_as_far_as_they_form_a_tree(seed):
    """From any old ports, the result is a tree that spans the members and ends only at them."""
    rng = random.Random(seed)
    network = networks.at_random(seed, switches=20)
    switches = sorted(network.graph.ports)
    for _ in range(10):
        members = set(rng.sample(switches, 6))
        ends = sorted(network.graph.links)
        standing = set(rng.sample(ends, rng.randrange(len(ends)))) | {(1, 99), (77, 1)}
        network.standing[FLOOD_KEY] = standing | {network.graph.links.get(e, e) for e in standing}
        ports = tree(network, members, FLOOD_KEY)
        assert all(network.graph.links[p] in ports for p in ports)
        inside = {s for s, _ in ports}
        assert members <= inside
        assert len(ports) == 2 * (len(inside) - 1)
        leaves = [s for s in inside if sum(s == at for at, _ in ports) == 1]
        assert set(leaves) <= members


def test_a_cut_link_changes_only_its_part_of_the_tree():
    network = networks.of_wiring("leaf-spine:4x8x2")
    compute(network)
    (flood,) = network.standing.values()
    end = max(end for end in flood if end[0] == 1)
    network.graph.remove_link(end)
    compute(network)
    (now,) = network.standing.values()
    assert len(flood - now) == 2
    assert len(now - flood) <= 4


# ---- while switches are updated ------------------------------------------------------------------


class Watched(Controller):
    """Records the rules of all switches after each step of an update."""

    def start(self, network: Network) -> None:
        self.network = network
        self.steps: list[dict[int, Program]] = []
        for number in network.graph.ports:
            self.switches[number] = Switch(number, SoftSwitch(self._report))

    def _report(self, channel: object, message: object) -> None:
        self._told(channel, message)

    def installed(self) -> dict[int, Program]:
        return {n: dict(s.channel.program()) for n, s in self.switches.items()}

    async def _barriers(self, switches: list[Switch]) -> None:
        await super()._barriers(switches)
        self.steps.append(self.installed())


@pytest.fixture
def controller(tmp_path) -> Watched:
    return Watched(Store(tmp_path / "sdn"), lambda _: None)


def looping(network: Network, steps: list[dict[int, Program]], jobs: list, rng) -> bool:
    """Does a frame loop while some switches have made a step and others have not?"""
    frames = [(source, BROADCAST) for source in network.graph.hosts]
    for job in jobs:
        tags = [(r, int(Tag(job.number, Function.BCAST, r, 3, group=True))) for r in job.members(3)]
        frames += [(job.ranks[r], tag) for r, tag in tags]
    for before, after in itertools.pairwise(steps):
        for _ in range(3 if before != after else 0):
            mix = {n: rng.choice((before, after))[n] for n in before}
            tables = Tables(network.graph, mix)
            for source, dst in frames:
                at = network.graph.hosts[source]
                if tables.send(*at, Frame(source, dst)).looped:
                    return True
    return False


def move(controller: Watched, seed: int, rng: random.Random) -> bool:
    """Moves all trees. Returns whether there was a loop during the update."""
    controller.start(networks.at_random(seed))
    jobs = crowd(controller.network, rng)
    controller.jobs = {job.number: job for job in jobs}
    loaded(controller.network, rng)
    asyncio.run(controller._update())
    first = controller.installed()
    controller.network.standing = {}
    loaded(controller.network, rng)
    controller.steps = [first]
    asyncio.run(controller._update())
    return looping(controller.network, controller.steps, jobs, rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_of_an_update_has_a_loop(controller, seed):
    assert not move(controller, seed, random.Random(seed))
    assert controller.installed() == controller.wanted


def test_an_update_in_one_step_would_have_a_loop(controller):
    """So the test above can fail."""
    rng = random.Random(1)
    loops = 0
    for seed in SEEDS:
        move(controller, seed, rng)
        ends = [controller.steps[0], controller.steps[-1]]
        loops += looping(controller.network, ends, list(controller.jobs.values()), rng)
    assert loops


def test_a_tree_does_not_grow_while_a_switch_refuses_to_cut_it(controller):
    for seed in SEEDS:
        rng = random.Random(seed)
        controller.start(networks.at_random(seed))
        loaded(controller.network, rng)
        asyncio.run(controller._update())
        first = controller.installed()
        controller.network.standing = {}
        loaded(controller.network, rng)
        refusing = controller.switches[rng.choice(sorted(controller.switches))].channel
        refusing.refuse = lambda m: FULL if isinstance(m, parser.OFPFlowMod) else None
        controller.steps = [first]
        asyncio.run(controller._update())
        assert not looping(controller.network, controller.steps, [], rng)
        refusing.refuse = lambda _: None
        asyncio.run(controller._update())
        assert not looping(controller.network, controller.steps, [], rng)
        assert controller.installed() == controller.wanted
