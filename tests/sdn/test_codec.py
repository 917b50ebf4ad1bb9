# SPDX-License-Identifier: BSD-3-Clause
"""Rules to OpenFlow and back: what is read from a switch is what was written."""

import networks
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from hikyaku.sdn import codec
from hikyaku.sdn.program import compute, learned
from hikyaku.sdn.rules import COOKIE, groups


def parsed(message: parser.MsgBase) -> parser.MsgBase:
    """As it arrives at the other end."""
    message.set_xid(1)
    message.serialize()
    version, kind, length, xid = ofproto_parser.header(message.buf)
    return ofproto_parser.msg(codec.DESC, version, kind, length, xid, bytes(message.buf))


def test_programs_come_back_as_they_were():
    for text in ("leaf-spine:2x2x4", "fat-tree:4"):
        network = networks.of_wiring(text)
        jobs = [networks.job_on(network, 16, number=n) for n in (1, 2)]
        for program in compute(network, jobs).values():
            numbers, fresh = codec.GroupNumbers(), codec.GroupNumbers()
            for group in groups(program):
                sent = codec.group_add(group, numbers)
                got = parser.OFPGroupDescStats(
                    type_=sent.type, group_id=sent.group_id, buckets=sent.buckets
                )
                assert codec.group_back(got, fresh) == group
                fresh.take(sent.group_id, group)
            for key, does in program.items():
                mod = parsed(codec.flow_add(key, does, numbers))
                assert mod.cookie >> 32 == COOKIE >> 32
                assert codec.flow_back(mod, fresh) == (key, does)


def test_groups_get_the_same_numbers_again():
    network = networks.of_wiring("fat-tree:4")
    program = compute(network, [networks.job_on(network, 16)])[5]
    first, second = codec.GroupNumbers(), codec.GroupNumbers()
    made = sorted(groups(program), key=repr)
    assert [first.number(g) for g in made] == [second.number(g) for g in made]
    assert codec.ALIVE not in first.of_group.values()
    assert len(set(first.of_group.values())) == len(made)


def test_a_restarted_controller_learns_what_the_last_one_chose():
    network = networks.of_wiring("leaf-spine:4x4x4")
    network.load = {(5, 1): 9e8}
    before = compute(network)
    again = networks.of_wiring("leaf-spine:4x4x4")
    again.graph.hosts.clear()
    for switch, program in before.items():
        learned(program).into(again, switch)
    assert compute(again) == before


def test_what_others_have_written_is_not_ours():
    numbers = codec.GroupNumbers()
    match = parser.OFPMatch(vlan_vid=5)
    mod = parser.OFPFlowMod(codec.DESC, table_id=0, match=match, instructions=[])
    try:
        codec.flow_back(mod, numbers)
    except codec.NotOurs as no:
        assert "vlan_vid" in str(no)
    else:
        raise AssertionError("taken for ours")
    assert of.OFP_VERSION == 4
