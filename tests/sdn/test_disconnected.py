# SPDX-License-Identifier: BSD-3-Clause
"""Disconnected switches, which go on forwarding by their rules.

The tests follow frames through the rules of the other switches. They also check what the controller
does when switches disconnect and connect again.
"""

import asyncio
import itertools
import random
import time
from collections import Counter

import networks
import pytest

from hikyaku.sdn.controller import DISCONNECTED_LIMIT, REFUSED_MAX, WAIT_FOR_SWITCHES, Controller
from hikyaku.sdn.disconnected import copied_to
from hikyaku.sdn.discovery import SETTLE
from hikyaku.sdn.follow import Frame, Tables
from hikyaku.sdn.network import Job, Network
from hikyaku.sdn.program import FLOOD_KEY, compute
from hikyaku.sdn.rules import groups
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch
from hikyaku.sdn.tag import Function, Tag
from hikyaku.sdn.update import CONFIRM_S

BROADCAST = (1 << 48) - 1
SHAPES = ["leaf-spine:1x2x2", "leaf-spine:2x2x4", "leaf-spine:4x3x3", "fat-tree:4"]


def connected(network: Network, pair: tuple[int, int]) -> bool:
    return pair[0] in network.graph.distances(pair[1])


def gone(network: Network, disconnected: set[int], jobs=()) -> dict:
    """The programs after the switches @disconnected have disconnected and the load has changed."""
    before = compute(network, jobs)
    for switch in disconnected:
        network.graph.set_disconnected(switch, True)
        network.frozen[switch] = before[switch]
    links = network.graph.links
    network.load = {end: 1e9 * (end[0] % 3) for end in links}
    return compute(network, jobs) | network.frozen


@pytest.mark.parametrize("shape", SHAPES)
def test_floods_and_frames_arrive_once_whichever_switch_is_disconnected(shape):
    for disconnected in networks.of_wiring(shape).graph.ports:
        network = networks.of_wiring(shape)
        job = networks.job_on(network, len(network.graph.hosts))
        tables = Tables(network.graph, gone(network, {disconnected}, [job]))
        hosts = network.graph.hosts
        for source, place in hosts.items():
            journey = tables.send(*place, Frame(source, BROADCAST))
            assert not journey.looped
            assert Counter((s, p) for s, p, _ in journey.delivered) == Counter(
                set(hosts.values()) - {place}
            )
            rank = next(r for r, mac in job.ranks.items() if mac == source)
            tree = tables.send(*place, Frame(source, int(Tag(1, Function.BCAST, rank, 0, True))))
            assert not tree.looped
            assert len(tree.delivered) == len(hosts) - 1
            for to, target in job.ranks.items():
                if target == source:
                    continue
                for dst in (target, int(Tag(1, Function.ALLREDUCE, rank, to))):
                    journey = tables.send(*place, Frame(source, dst))
                    assert journey.delivered == [(*hosts[target], target)]


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_frames_avoid_a_disconnected_switch(shape):
    network = networks.of_wiring(shape)
    tables = Tables(network.graph, gone(network, {1}))  # a spine or core switch
    hosts = network.graph.hosts
    for source, place in hosts.items():
        for dst in (*hosts, BROADCAST):
            assert all(s != 1 for s, _ in tables.send(*place, Frame(source, dst)).crossed)


@pytest.mark.parametrize("seed", range(60))
def test_no_storm_when_switches_are_disconnected_and_cables_are_cut(seed):
    """Some hosts may not be reached, since the rules of disconnected switches cannot change."""
    rng = random.Random(seed)
    network = networks.at_random(seed)
    graph = network.graph
    gone(network, set(rng.sample(sorted(graph.ports), 2)))
    for end in rng.sample(sorted(graph.links), 4):
        other = graph.links.get(end)
        for each in (end, other) if other else ():
            graph.port_down(*each)
    programs = compute(network) | network.frozen
    tables = Tables(graph, programs)
    for source, place in graph.hosts.items():
        if place[1] in graph.ports[place[0]]:
            assert not tables.send(*place, Frame(source, BROADCAST)).looped


def test_the_ports_to_which_a_rule_copies():
    network = networks.of_wiring("leaf-spine:1x2x2")
    programs = compute(network)
    assert copied_to(programs[1], FLOOD_KEY) == {1, 2}
    assert copied_to({}, FLOOD_KEY) == set()


# ---- the controller ------------------------------------------------------------------------------


class Silent:
    """A channel to a switch that accepts every message and sends none."""

    name = "switch"

    def __init__(self) -> None:
        self.written = 0
        self.admitted = False
        self.early: list = []
        self.numbers = itertools.count(1)

    def send(self, _message: object) -> int:
        self.written += 1
        return next(self.numbers)

    async def barrier(self) -> None:
        pass

    def abort(self, _why: str) -> None:
        pass


class Net:
    """A controller with a clock of its own, and a network whose switches have all their rules."""

    def __init__(self, directory, shape: str = "leaf-spine:2x2x2"):
        self.now = 100.0
        self.messages: list[str] = []
        self.c = Controller(Store(directory), self.messages.append, clock=lambda: self.now)
        self.wired = networks.of_wiring(shape).graph
        self.c.network.graph.hosts = dict(self.wired.hosts)
        for number in self.wired.ports:
            self.connect(number, {})
        self.join()
        self.look(10)
        self.write()

    def connect(self, number: int, rules: dict) -> Switch:
        switch = Switch(number, Silent())
        switch.ports = {port: f"p{port}" for port in self.wired.ports[number]}
        switch.rules, switch.groups = dict(rules), groups(rules)
        for group in switch.groups:
            switch.numbers.number(group)
        self.c.switches[number] = switch
        self.c._know(switch)
        return switch

    def join(self) -> None:
        found = self.c.discovery
        for a, b in self.wired.links.items():
            if a[0] in self.c.switches and b[0] in self.c.switches:
                found.receive_probe(b, found.probe(a, self.now), self.now)

    def look(self, tenths: int) -> None:
        for _ in range(tenths):
            self.now += 0.1
            self.c.discovery.tick(self.now)
            self.c._look_after(self.now)

    def write(self) -> None:
        self.c._news.clear()
        asyncio.run(self.c._update())

    def reconnect(self, number: int) -> Switch:
        switch = self.c.switches[number]
        self.c._lost(switch)
        return self.connect(number, switch.rules)


@pytest.fixture
def net(tmp_path) -> Net:
    return Net(tmp_path / "sdn")


def test_a_switch_that_connects_again_changes_nothing(net):
    for number in net.wired.ports:
        switch = net.reconnect(number)
        assert not net.c._news.is_set()
        net.write()
        assert net.c.network.graph.links == net.wired.links
    assert not net.messages
    net.look(10)
    net.join()
    net.write()
    assert all(s.channel.written == 0 for s in net.c.switches.values())
    assert switch.rules == net.c.wanted[switch.number]


def test_traffic_avoids_a_switch_that_stays_disconnected(net):
    """The controller computes the paths once."""
    net.c._lost(net.c.switches[1])
    net.look(int(10 * DISCONNECTED_LIMIT) - 2)
    net.join()
    assert not net.c._news.is_set()
    net.look(5)
    assert net.c._news.is_set()
    net.write()
    tables = Tables(net.c.network.graph, net.c.wanted)
    hosts = net.c.network.graph.hosts
    for source, place in hosts.items():
        for dst in (*hosts, BROADCAST):
            assert all(s != 1 for s, _ in tables.send(*place, Frame(source, dst)).crossed)
    net.look(50)
    assert not net.c._news.is_set()


def test_nothing_is_written_to_a_switch_until_its_ports_have_settled(net):
    """A port has come up while the switch was disconnected. It may lead to a switch or to hosts."""
    leaf = max(net.wired.ports)
    net.wired.ports[leaf].add(50)
    switch = net.reconnect(leaf)
    del switch.rules[next(iter(switch.rules))]
    net.write()
    assert not switch.channel.written
    assert not net.c.is_settled()
    net.look(int(10 * SETTLE) + 2)
    assert net.c._news.is_set()
    net.write()
    assert switch.channel.written
    assert switch.rules == net.c.wanted[leaf]


def test_a_new_controller_waits_for_the_links_in_the_rules_of_switches(net, tmp_path):
    """Its directory is new, and one switch connects late."""
    new = Controller(Store(tmp_path / "new"), print, clock=lambda: net.now)
    old, net.c = net.c, new
    for number in sorted(net.wired.ports)[1:]:
        net.connect(number, old.switches[number].rules)
    net.look(50)
    net.join()
    assert new._starting()
    net.connect(1, old.switches[1].rules)
    net.join()
    net.look(10)
    assert not new._starting()
    net.write()
    assert new.network.graph.links == net.wired.links
    assert not any(s.channel.written for s in new.switches.values())


def test_a_new_controller_does_not_wait_for_ever(net, tmp_path):
    new = Controller(Store(tmp_path / "new"), print, clock=lambda: net.now)
    old, net.c = net.c, new
    for number in sorted(net.wired.ports)[1:]:
        net.connect(number, old.switches[number].rules)
    net.look(int(10 * WAIT_FOR_SWITCHES) + 2)
    net.join()
    assert not new._starting()
    leaf = max(net.wired.ports)
    trunks = {port for s, port in net.wired.links if s == leaf}
    assert not trunks & set(new.network.graph.host_ports(leaf)), (
        "its links did not become host ports"
    )


def test_a_port_with_another_name_is_another_port(net):
    """Open vSwitch was restarted, and has given its ports other numbers."""
    leaf = max(net.wired.ports)
    end, other = next((a, b) for a, b in net.wired.links.items() if a[0] == leaf)
    switch = net.c.switches[leaf]
    net.c._lost(switch)
    new = Switch(leaf, Silent())
    new.ports = switch.ports | {end[1]: "another"}
    net.c.switches[leaf] = new
    net.c._know(new)
    assert end not in net.c.network.graph.links
    assert end in net.c.discovery.unsettled()
    assert other in net.c.discovery.severed()


def test_a_restarted_controller_waits_for_the_same_switches(net, tmp_path):
    """The one before it ended before all switches had connected."""
    net.c._save()
    net.c.keep()
    again = Controller(net.c.store, print, clock=lambda: net.now)
    net.c = again
    net.connect(1, {})
    again._save()
    again.keep()
    assert Store(tmp_path / "sdn").load()[2] == set(net.wired.ports)
    for leaf in (3, 4):
        again.discovery.port_down((leaf, 2))
    net.look(1)
    again._save()
    again.keep()
    assert Store(tmp_path / "sdn").load()[2] == {1, 3, 4}, (
        "without the one whose links are all down"
    )


def test_setting_the_clock_changes_only_the_times_of_events(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    controller = Controller(Store(tmp_path / "sdn"), print)
    before = controller.clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert controller.clock() >= before
    assert controller.clock() != 0.0
    controller.say("something")
    assert controller.events[-1] == (0.0, "something")


def test_the_old_connection_of_a_switch_does_not_count_as_refused(net, monkeypatch):
    async def taken_over(channel: Silent, *, exact: bool) -> Switch:
        made = Switch(1, channel)
        made.ports = dict(net.c.switches[1].ports)
        return made

    monkeypatch.setattr(Switch, "taken_over", taken_over)
    first, second = Silent(), Silent()
    asyncio.run(net.c._admit(first))
    asyncio.run(net.c._admit(second))
    net.c._ended(first, "switch 1 has connected again")
    assert net.c.refused == {}
    assert net.c.switches[1].channel is second
    net.c._ended(second, "it has closed the connection")
    assert net.c.refused == {}
    assert net.c.disconnected.keys() == {1}


def test_the_list_of_refused_switches_has_a_limit(net):
    for i in range(3 * REFUSED_MAX):
        stranger = Silent()
        stranger.name = f"switch at 10.0.0.{i}"
        net.c._ended(stranger, "speaks OpenFlow 1.0")
    assert len(net.c.refused) == REFUSED_MAX
    assert stranger.name in net.c.refused


def test_a_host_was_plugged_into_the_port_of_a_link_while_no_controller_ran(net):
    """The rules of the switch still say that the port is a link.

    It becomes a host port once all switches have been connected for long, and no probe came.
    """
    net.c._save()
    net.c.keep()
    old, net.c = net.c, Controller(net.c.store, print, clock=lambda: net.now)
    a, b = min(net.wired.links.items())
    del net.wired.links[a], net.wired.links[b]
    for number in net.wired.ports:
        net.connect(number, old.switches[number].rules)
    for _ in range(8):
        net.look(10)
        net.join()
    assert a[1] not in net.c.network.graph.host_ports(a[0])
    for _ in range(20):
        net.look(10)
        net.join()
    assert a[1] in net.c.network.graph.host_ports(a[0])
    assert b[1] in net.c.network.graph.host_ports(b[0])
    assert net.c.network.graph.links == net.wired.links


def test_a_restarted_controller_keeps_the_links_of_a_switch_that_connects_late(net):
    """The late switch goes on forwarding. Frames avoid it where they can, and none loops."""
    net.c.keep()
    old = net.c
    for late in net.wired.ports:
        net.c = Controller(old.store, print, clock=lambda: net.now)
        for number in net.wired.ports.keys() - {late}:
            net.connect(number, old.switches[number].rules)
        for _ in range(3 * int(WAIT_FOR_SWITCHES)):
            net.join()
            net.look(10)
        assert not net.c._starting()
        net.write()
        assert net.c.network.graph.links == net.wired.links
        assert net.c.network.graph.hosts == old.network.graph.hosts
        rules = {number: switch.rules for number, switch in net.c.switches.items()}
        tables = Tables(net.wired, rules | {late: old.wanted[late]})
        hosts = net.wired.hosts
        for source, place in hosts.items():
            journey = tables.send(*place, Frame(source, BROADCAST))
            assert not journey.looped
            assert len(journey.delivered) == len(hosts) - 1
            for target in hosts.keys() - {source}:
                journey = tables.send(*place, Frame(source, target))
                assert journey.delivered == [(*hosts[target], target)]
        net.connect(late, old.switches[late].rules)
        net.join()
        net.look(10)
        net.write()
        assert net.c.switches[late].rules == net.c.wanted[late]
        assert not net.c.disconnected


def test_stored_links_count_until_probes_show_other_links(net):
    """A cable was plugged elsewhere while no controller ran."""
    net.c.keep()
    old, net.c = net.c, Controller(net.c.store, print, clock=lambda: net.now)
    a, b = min(net.wired.links.items())
    for number in net.wired.ports:
        net.wired.ports[number].add(90)
    del net.wired.links[a], net.wired.links[b]
    net.wired.links |= {(a[0], 90): (b[0], 90), (b[0], 90): (a[0], 90)}
    for number in net.wired.ports:
        net.connect(number, old.switches[number].rules)
    net.join()
    net.look(int(10 * SETTLE) + 2)
    net.join()
    for _ in range(15):
        net.look(10)
        net.join()
    assert net.c.network.graph.links == net.wired.links


def test_ranks_of_a_new_job_at_a_disconnected_switch_are_reached_once_it_connects(net):
    hosts = sorted(net.wired.hosts.items())
    here = next(mac for mac, (switch, _) in hosts if switch == 3)
    there = next(mac for mac, (switch, _) in hosts if switch == 4)
    before, job = Job(1, ranks={0: here, 1: there}), Job(2, ranks={0: here, 1: there})
    net.c.set_job(before)
    net.write()
    switch = net.c.switches[4]
    net.c._lost(switch)
    net.c.set_job(job)
    net.write()
    net.now += 2 * CONFIRM_S
    assert net.c.reached(before) == {0, 1}
    assert net.c.reached(job) == {0}, "that switch does not admit tags of this job"
    net.connect(4, switch.rules)
    net.look(10)
    net.write()
    assert net.c.reached(job) == {0, 1}
