# SPDX-License-Identifier: BSD-3-Clause
"""What a switch refuses, and when it counts: a controller, and a switch with room for few rules."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import networks
import pytest
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from soft_switch import FULL, SoftSwitch

from hikyaku.sdn import codec
from hikyaku.sdn import controller as module
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.openflow import Gone
from hikyaku.sdn.rules import Does, Key, groups
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch


class FullSwitch:
    """A channel to a switch. It takes @room rules, and tells of the others at the next barrier."""

    def __init__(self, controller: Controller, room: int):
        self.controller = controller
        self.room = room
        self.errors: list[int] = []
        self.seen: list[int] = []  # how many were called refused while it had not answered yet
        self.numbers = itertools.count(1)

    def send(self, message: object) -> int:
        xid = next(self.numbers)
        if isinstance(message, parser.OFPFlowMod) and message.command == of.OFPFC_ADD:
            if self.room:
                self.room -= 1
            else:
                self.errors.append(xid)
        return xid

    async def barrier(self) -> None:
        (switch,) = self.controller.switches.values()
        self.seen.append(len(switch.refused))
        for xid in self.errors:
            full = of.OFPFMFC_TABLE_FULL
            error = parser.OFPErrorMsg(codec.DESC, of.OFPET_FLOW_MOD_FAILED, full, b"")
            error.set_xid(xid)
            self.controller._told(self, error)
        self.errors.clear()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def controller(tmp_path, said) -> Controller:
    made = Controller(Store(tmp_path / "sdn"), said.append)
    made.network = networks.of_wiring("leaf-spine:1x2x4")
    number = min(made.network.graph.ports)
    made.switches[number] = Switch(number, FullSwitch(made, 10))
    return made


def update(controller: Controller) -> Switch:
    asyncio.run(controller._update())
    (switch,) = controller.switches.values()
    return switch


def test_what_finds_no_room_is_said_once_and_counted(controller, said):
    switch = update(controller)
    program = controller.wanted[switch.number]
    assert len(switch.rules) == 10
    assert len(switch.refused) == len(program) - 10 > 0
    update(controller)
    assert len([line for line in said if "its flow table is full" in line]) == 1


def test_it_is_said_again_after_there_was_room(controller, said):
    full = "its flow table is full"
    switch = update(controller)
    switch.channel.room = 1000
    assert update(controller).refused == {}
    controller.network.graph.hosts.clear()
    update(controller)
    assert len([line for line in said if full in line]) == 1
    controller.network = networks.of_wiring("leaf-spine:1x2x4")
    switch.channel.room = 0
    update(controller)
    update(controller)
    assert len([line for line in said if full in line]) == 2


def test_it_counts_while_it_is_sent_again(controller):
    switch = update(controller)
    count = len(switch.refused)
    switch.channel.seen.clear()
    assert len(update(controller).refused) == count
    assert set(switch.channel.seen) == {count}


def test_what_finds_room_counts_no_more(controller):
    switch = update(controller)
    switch.channel.room = 1
    count = len(switch.refused)
    assert len(update(controller).refused) == count - 1
    switch.channel.room = count
    assert update(controller).refused == {}
    assert switch.rules == controller.wanted[switch.number]


def test_what_is_not_wanted_any_more_counts_no_more(controller):
    switch = update(controller)
    assert switch.refused
    controller.network.graph.hosts.clear()
    switch.channel.room = 1000
    wanted = len(update(controller).refused)
    assert wanted == 0


def test_what_a_job_was_refused_is_told_by_switch(controller):
    switch = update(controller)
    switch.channel.room = 1000
    update(controller)
    controller.jobs[1] = networks.job_on(controller.network, 4)
    controller.jobs[2] = networks.job_on(controller.network, 4, number=2)
    switch.channel.room = 0
    update(controller)
    program = controller.wanted[switch.number]
    for job in (1, 2):
        left = {k for k, does in program.items() if does.job == job and k not in switch.rules}
        assert left
        told = controller.refused_rules(job)
        assert told.keys() == {switch.number}
        assert told[switch.number].keys() == left
        assert "TABLE_FULL" in next(iter(told[switch.number].values()))
    switch.channel.room = 1000
    update(controller)
    assert controller.refused_rules(1) == {}


# ---- and what is really in the switch ------------------------------------------------------------


@pytest.fixture
def switch(controller) -> Switch:
    """A leaf; what it has is looked at."""
    controller.switches.clear()
    number = max(controller.network.graph.ports)
    controller.switches[number] = Switch(number, SoftSwitch(controller._told))
    return controller.switches[number]


def same(controller: Controller, switch: Switch) -> bool:
    """Does the controller know what is in the switch?"""
    soft = switch.channel
    return switch.rules == soft.program() and switch.groups == soft.its_groups()


def group_of_others(number: int, kind: int = of.OFPGT_SELECT) -> parser.OFPGroupMod:
    buckets = [parser.OFPBucket(1, actions=[parser.OFPActionOutput(7)])]
    return parser.OFPGroupMod(codec.DESC, of.OFPGC_ADD, kind, number, buckets)


@contextlib.asynccontextmanager
async def updating(controller: Controller) -> AsyncIterator[None]:
    """As run() does, in an event loop of its own."""
    controller._news, controller._idle = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(controller._updating())
    controller._changed()
    try:
        yield
    finally:
        task.cancel()


def settle(controller: Controller) -> None:
    async def until_settled() -> None:
        async with updating(controller):
            await controller.settled()

    asyncio.run(until_settled())


def test_what_finds_room_when_old_rules_have_gone_is_sent_again(controller, switch):
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    switch.channel.room = len(switch.rules)
    controller.jobs = {2: networks.job_on(controller.network, 8, number=2)}
    settle(controller)
    assert switch.refused == {}
    assert switch.rules == controller.wanted[switch.number]
    assert same(controller, switch)


def test_it_is_sent_again_after_a_while(controller, switch, monkeypatch):
    monkeypatch.setattr(module, "RETRY_FIRST", 0.01)
    settle(controller)
    controller.jobs[1] = networks.job_on(controller.network, 8)

    async def until_room() -> None:
        switch.channel.room = len(switch.rules)
        async with updating(controller):
            await controller.settled()
            assert switch.refused
            switch.channel.room = 1000
            while switch.refused:
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(until_room(), 20))
    assert switch.rules == controller.wanted[switch.number]


def test_a_group_without_room_is_sent_again(controller, switch):
    switch.channel.group_room = len(switch.channel.groups)
    settle(controller)
    used = [k for k, d in controller.wanted[switch.number].items() if groups({k: d})]
    assert switch.refused.keys() == set(used)
    assert all("OUT_OF_GROUPS" in why for why in switch.refused.values())
    assert same(controller, switch)
    switch.channel.group_room = 1000
    settle(controller)
    assert switch.refused == {}
    assert switch.rules == controller.wanted[switch.number]
    assert same(controller, switch)


@pytest.fixture
def unchanged(controller, switch) -> dict[Key, Does]:
    """What a switch still does that has refused all changes of its rules with groups."""
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    switch.channel.refuse = lambda m: (
        FULL if isinstance(m, parser.OFPFlowMod) and m.command == of.OFPFC_ADD else None
    )
    before = dict(switch.rules)
    leaf = switch.number
    for end in [e for e in controller.network.graph.links if e[0] == leaf][:1]:
        controller.network.graph.port_down(*end)
    controller.network.graph.add_switch(99, [1])  # spread anew
    settle(controller)
    return {k: d for k, d in before.items() if controller.wanted[leaf].get(k, d) != d}


def test_a_refused_change_leaves_what_was_there_and_its_group(controller, switch, unchanged):
    assert any(groups({k: d}) for k, d in unchanged.items())
    assert unchanged.items() <= switch.rules.items()
    assert unchanged.keys() <= switch.refused.keys()
    assert same(controller, switch)


def test_a_refused_change_goes_with_its_job(controller, switch, unchanged):
    assert any(does.job == 1 for does in unchanged.values())
    controller.jobs.clear()
    settle(controller)
    assert not [d for d in switch.channel.program().values() if d.job]
    assert same(controller, switch)


def test_a_switch_that_does_not_say_that_it_is_done_is_let_go(controller, switch):
    async def silent() -> None:
        raise Gone("switch did not answer OFPBarrierRequest within 10 s")

    switch.channel.barrier = silent
    with pytest.raises(Gone):
        update(controller)
    assert "did not answer" in switch.channel.failed


# ---- groups of others ----------------------------------------------------------------------------


async def taken_over(channel: SoftSwitch, number: int) -> Switch:
    switch = Switch(number, channel)
    await switch._read_back()
    await channel.barrier()
    return switch


def again(controller: Controller, switch: Switch) -> Switch:
    """As by a controller that starts anew."""
    made = asyncio.run(taken_over(switch.channel, switch.number))
    controller.switches[switch.number] = made
    return made


def test_what_was_written_is_read_back_and_nothing_written_anew(controller, switch):
    settle(controller)
    switch = again(controller, switch)
    switch.channel.sent.clear()
    settle(controller)
    assert switch.channel.sent == []
    assert same(controller, switch)


def test_groups_of_others_and_their_flows_stay(controller, switch):
    soft = switch.channel
    soft.send(group_of_others(1, of.OFPGT_ALL))
    soft.send(group_of_others(77, of.OFPGT_ALL))
    actions = [parser.OFPActionGroup(77)]
    apply = parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions)
    theirs = parser.OFPFlowMod(codec.DESC, cookie=5, table_id=9, instructions=[apply])
    soft.send(theirs)
    switch = again(controller, switch)
    settle(controller)
    assert {1, 77} <= soft.groups.keys()
    assert theirs in soft.flows.values()
    assert same(controller, switch)


def test_rules_of_ours_that_cannot_be_read_are_written_anew_or_go(controller, switch):
    """As those of another release, which numbered groups otherwise."""
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    soft = switch.channel
    soft.send(group_of_others(77, of.OFPGT_ALL))
    apply = parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, [parser.OFPActionGroup(77)])
    for mod in soft.flows.values():
        mod.instructions = [apply]
    again(controller, switch)
    controller.jobs.clear()
    settle(controller)
    assert soft.program() == controller.wanted[switch.number]


def test_a_number_that_somebody_has_taken_is_passed_over(controller, switch):
    settle(controller)
    taken = dict(switch.numbers.of_group)
    soft = SoftSwitch(controller._told)
    theirs = [group_of_others(number) for number in taken.values()]
    for each in theirs:
        soft.send(each)
    controller.switches[switch.number] = fresh = Switch(switch.number, soft)
    settle(controller)
    assert fresh.refused == {}
    assert fresh.rules == controller.wanted[fresh.number] == soft.program()
    assert all(soft.groups[each.group_id] is each for each in theirs)
    # and one that starts anew knows
    before = dict(soft.groups)
    fresh = again(controller, fresh)
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    assert fresh.refused == {}
    assert before.items() <= soft.groups.items()


def test_a_group_that_is_there_twice_goes_whole(controller, switch):
    settle(controller)
    soft = switch.channel
    mod = next(m for n, m in soft.groups.items() if n != codec.ALIVE)
    second = parser.OFPGroupMod(codec.DESC, of.OFPGC_ADD, mod.type, codec.GROUPS[-1], mod.buckets)
    soft.send(second)
    switch = again(controller, switch)
    controller.network.graph.hosts.clear()
    controller.network.graph.ports = {switch.number: set()}
    controller.network.graph.links.clear()
    controller.network.graph._changed()
    settle(controller)
    assert soft.groups.keys() == {codec.ALIVE}


def test_a_group_that_should_be_alive_and_is_not_is_mended(controller, switch):
    soft = switch.channel
    soft.groups[codec.ALIVE] = group_of_others(codec.ALIVE, of.OFPGT_ALL)
    again(controller, switch)
    assert codec.is_alive(soft.groups[codec.ALIVE])


# ---- not a rule ----------------------------------------------------------------------------------


def test_a_probe_that_finds_no_port_is_no_refused_rule(controller, switch, said):
    settle(controller)

    def send(error: tuple[int, int]) -> None:
        switch.channel.refuse = lambda _: error
        out = [parser.OFPActionOutput(99)]
        switch.channel.send(
            parser.OFPPacketOut(codec.DESC, of.OFP_NO_BUFFER, of.OFPP_CONTROLLER, out, bytes(60))
        )
        asyncio.run(switch.channel.barrier())

    send((of.OFPET_BAD_ACTION, of.OFPBAC_BAD_OUT_PORT))
    assert not said
    assert controller.counts["errors"] == 1
    send((of.OFPET_BAD_REQUEST, of.OFPBRC_BUFFER_UNKNOWN))
    assert "refused to send a probe: OFPBRC_BUFFER_UNKNOWN" in said[0]
