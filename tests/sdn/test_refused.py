# SPDX-License-Identifier: BSD-3-Clause
"""Rules that a switch refuses, and how the controller counts, reports and retries them."""

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
from hikyaku.sdn import update as module
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.openflow import Gone
from hikyaku.sdn.rules import Does, Key, groups
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch


class FullSwitch:
    """A channel to a switch that accepts @space rules, and refuses others at the next barrier."""

    def __init__(self, controller: Controller, space: int):
        self.controller = controller
        self.space = space
        self.errors: list[int] = []
        self.seen: list[int] = []  # at each barrier: the number of rules that count as refused
        self.numbers = itertools.count(1)

    def send(self, message: object) -> int:
        xid = next(self.numbers)
        if isinstance(message, parser.OFPFlowMod) and message.command == of.OFPFC_ADD:
            if self.space:
                self.space -= 1
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
def messages() -> list[str]:
    return []


@pytest.fixture
def controller(tmp_path, messages) -> Controller:
    made = Controller(Store(tmp_path / "sdn"), messages.append)
    made.network = networks.of_wiring("leaf-spine:1x2x4")
    number = min(made.network.graph.ports)
    made.switches[number] = Switch(number, FullSwitch(made, 10))
    return made


def update(controller: Controller) -> Switch:
    asyncio.run(controller._update())
    (switch,) = controller.switches.values()
    return switch


def test_rules_without_space_are_reported_once_and_counted(controller, messages):
    switch = update(controller)
    program = controller.wanted[switch.number]
    assert len(switch.rules) == 10
    assert len(switch.refused) == len(program) - 10 > 0
    update(controller)
    assert len([line for line in messages if "its flow table is full" in line]) == 1


def test_a_full_table_is_reported_again_after_it_had_space(controller, messages):
    full = "its flow table is full"
    switch = update(controller)
    switch.channel.space = 1000
    assert update(controller).refused == {}
    controller.network.graph.hosts.clear()
    update(controller)
    assert len([line for line in messages if full in line]) == 1
    controller.network = networks.of_wiring("leaf-spine:1x2x4")
    switch.channel.space = 0
    update(controller)
    update(controller)
    assert len([line for line in messages if full in line]) == 2


def test_a_refused_rule_counts_as_refused_while_it_is_sent_again(controller):
    switch = update(controller)
    count = len(switch.refused)
    switch.channel.seen.clear()
    assert len(update(controller).refused) == count
    assert set(switch.channel.seen) == {count}


def test_a_rule_that_finds_space_no_longer_counts_as_refused(controller):
    switch = update(controller)
    switch.channel.space = 1
    count = len(switch.refused)
    assert len(update(controller).refused) == count - 1
    switch.channel.space = count
    assert update(controller).refused == {}
    assert switch.rules == controller.wanted[switch.number]


def test_a_rule_that_is_not_wanted_any_longer_does_not_count_as_refused(controller):
    switch = update(controller)
    assert switch.refused
    controller.network.graph.hosts.clear()
    switch.channel.space = 1000
    wanted = len(update(controller).refused)
    assert wanted == 0


def test_refused_rules_of_a_job_are_listed_by_switch(controller):
    switch = update(controller)
    switch.channel.space = 1000
    update(controller)
    controller.jobs[1] = networks.job_on(controller.network, 4)
    controller.jobs[2] = networks.job_on(controller.network, 4, number=2)
    switch.channel.space = 0
    update(controller)
    program = controller.wanted[switch.number]
    for job in (1, 2):
        left = {k for k, does in program.items() if does.job == job and k not in switch.rules}
        assert left
        refused = controller.refused_rules(job)
        assert refused.keys() == {switch.number}
        assert refused[switch.number].keys() == left
        assert "TABLE_FULL" in next(iter(refused[switch.number].values()))
    switch.channel.space = 1000
    update(controller)
    assert controller.refused_rules(1) == {}


# ---- installed rules and groups ------------------------------------------------------------------


@pytest.fixture
def switch(controller) -> Switch:
    """A leaf, as a SoftSwitch: tests look at its installed rules and groups."""
    controller.switches.clear()
    number = max(controller.network.graph.ports)
    controller.switches[number] = Switch(number, SoftSwitch(controller._told))
    return controller.switches[number]


def same(controller: Controller, switch: Switch) -> bool:
    """Does the controller know what the switch has installed?"""
    soft = switch.channel
    return switch.rules == soft.program() and switch.groups == soft.installed_groups()


def group_of_others(number: int, kind: int = of.OFPGT_SELECT) -> parser.OFPGroupMod:
    buckets = [parser.OFPBucket(1, actions=[parser.OFPActionOutput(7)])]
    return parser.OFPGroupMod(codec.DESC, of.OFPGC_ADD, kind, number, buckets)


@contextlib.asynccontextmanager
async def updating(controller: Controller) -> AsyncIterator[None]:
    """Updates switches in the background, as Controller.run() does."""
    controller._news, controller._idle = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(controller._updating())
    controller._changed()
    try:
        yield
    finally:
        if not task.cancel():
            task.result()  # raises what ended it


def settle(controller: Controller) -> None:
    async def until_settled() -> None:
        async with updating(controller):
            await controller.settled()

    asyncio.run(until_settled())


def test_refused_rules_are_sent_again_when_removed_rules_leave_space(controller, switch):
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    switch.channel.space = len(switch.rules)
    controller.jobs = {2: networks.job_on(controller.network, 8, number=2)}
    settle(controller)
    assert switch.refused == {}
    assert switch.rules == controller.wanted[switch.number]
    assert same(controller, switch)


def test_refused_rules_are_sent_again_after_a_while(controller, switch, monkeypatch):
    monkeypatch.setattr(module, "RETRY_FIRST", 0.01)
    settle(controller)
    controller.jobs[1] = networks.job_on(controller.network, 8)

    async def until_space() -> None:
        switch.channel.space = len(switch.rules)
        async with updating(controller):
            await controller.settled()
            assert switch.refused
            switch.channel.space = 1000
            while switch.refused:
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(until_space(), 20))
    assert switch.rules == controller.wanted[switch.number]


def test_a_group_without_space_is_sent_again(controller, switch):
    switch.channel.group_space = len(switch.channel.groups)
    settle(controller)
    used = [k for k, d in controller.wanted[switch.number].items() if groups({k: d})]
    assert switch.refused.keys() == set(used)
    assert all("OUT_OF_GROUPS" in why for why in switch.refused.values())
    assert same(controller, switch)
    switch.channel.group_space = 1000
    settle(controller)
    assert switch.refused == {}
    assert switch.rules == controller.wanted[switch.number]
    assert same(controller, switch)


@pytest.fixture
def unchanged(controller, switch) -> dict[Key, Does]:
    """The rules that stay in a switch because it refused to change them."""
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    switch.channel.refuse = lambda m: (
        FULL if isinstance(m, parser.OFPFlowMod) and m.command == of.OFPFC_ADD else None
    )
    before = dict(switch.rules)
    leaf = switch.number
    for end in [e for e in controller.network.graph.links if e[0] == leaf][:1]:
        controller.network.graph.port_down(*end)
    controller.network.graph.add_switch(99, [1])  # so the paths are spread again
    settle(controller)
    return {k: d for k, d in before.items() if controller.wanted[leaf].get(k, d) != d}


def test_a_refused_change_leaves_the_old_rule_and_its_group(controller, switch, unchanged):
    assert any(groups({k: d}) for k, d in unchanged.items())
    assert unchanged.items() <= switch.rules.items()
    assert unchanged.keys() <= switch.refused.keys()
    assert same(controller, switch)


def test_the_old_rule_of_a_refused_change_is_removed_with_its_job(controller, switch, unchanged):
    assert any(does.job == 1 for does in unchanged.values())
    controller.jobs.clear()
    settle(controller)
    assert not [d for d in switch.channel.program().values() if d.job]
    assert same(controller, switch)


def test_a_switch_that_does_not_answer_a_barrier_is_disconnected(controller, switch):
    async def silent() -> None:
        raise Gone("switch did not answer OFPBarrierRequest within 10 s")

    switch.channel.barrier = silent
    with pytest.raises(Gone):
        update(controller)
    assert "did not answer" in switch.channel.failed


# ---- groups of other controllers -----------------------------------------------------------------


async def taken_over(channel: SoftSwitch, number: int) -> Switch:
    switch = Switch(number, channel)
    await switch._read_back()
    await channel.barrier()
    return switch


def again(controller: Controller, switch: Switch) -> Switch:
    """The switch as a restarted controller reads it."""
    made = asyncio.run(taken_over(switch.channel, switch.number))
    controller.switches[switch.number] = made
    return made


def test_a_restarted_controller_reads_its_rules_and_writes_nothing(controller, switch):
    settle(controller)
    switch = again(controller, switch)
    switch.channel.sent.clear()
    settle(controller)
    assert switch.channel.sent == []
    assert same(controller, switch)


def test_groups_and_flows_of_other_controllers_stay(controller, switch):
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


def test_rules_that_the_controller_cannot_read_are_replaced_or_removed(controller, switch):
    """Another release of the controller may have numbered groups otherwise."""
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


def test_a_group_number_of_another_controller_is_not_used(controller, switch):
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
    # a restarted controller does not use them either
    before = dict(soft.groups)
    fresh = again(controller, fresh)
    controller.jobs[1] = networks.job_on(controller.network, 8)
    settle(controller)
    assert fresh.refused == {}
    assert before.items() <= soft.groups.items()


def test_both_copies_of_a_group_are_removed(controller, switch):
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


def test_a_wrong_alive_group_is_replaced(controller, switch):
    soft = switch.channel
    soft.groups[codec.ALIVE] = group_of_others(codec.ALIVE, of.OFPGT_ALL)
    again(controller, switch)
    assert codec.is_alive(soft.groups[codec.ALIVE])


# ---- errors that are not about rules -------------------------------------------------------------


def test_an_error_about_a_probe_is_not_a_refused_rule(controller, switch, messages):
    settle(controller)

    def send(error: tuple[int, int]) -> None:
        switch.channel.refuse = lambda _: error
        out = [parser.OFPActionOutput(99)]
        switch.channel.send(
            parser.OFPPacketOut(codec.DESC, of.OFP_NO_BUFFER, of.OFPP_CONTROLLER, out, bytes(60))
        )
        asyncio.run(switch.channel.barrier())

    send((of.OFPET_BAD_ACTION, of.OFPBAC_BAD_OUT_PORT))
    assert not messages
    assert controller.counts["errors"] == 1
    send((of.OFPET_BAD_REQUEST, of.OFPBRC_BUFFER_UNKNOWN))
    assert "refused to send a probe: OFPBRC_BUFFER_UNKNOWN" in messages[0]
