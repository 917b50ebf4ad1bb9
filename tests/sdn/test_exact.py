# SPDX-License-Identifier: BSD-3-Clause
"""Rules by whole addresses: the way of frames, the kinds of entries, and tags without a rule."""

import networks
import pytest
from networks import FIRST_HOST

from hikyaku.errors import HikyakuError
from hikyaku.sdn import entries, exact
from hikyaku.sdn.algorithms.bcast import tree_key
from hikyaku.sdn.disconnected import copied_to
from hikyaku.sdn.follow import Frame, Tables
from hikyaku.sdn.network import Job, Network
from hikyaku.sdn.noise import BURST
from hikyaku.sdn.program import compute, learned
from hikyaku.sdn.rules import ADMIT, ALL_BITS, FORWARD, IN_PORT, Group
from hikyaku.sdn.strays import Strays
from hikyaku.sdn.tag import Function, Tag, to_mac

MAKERS = [
    pytest.param(lambda t=t: networks.of_wiring(t), id=t)
    for t in ("leaf-spine:2x2x4", "fat-tree:4")
] + [pytest.param(lambda s=s: networks.at_random(s), id=f"seed{s}") for s in range(4)]
SCAN = Function.SCAN  # one without an algorithm of its own


def job_with_tags(network: Network) -> tuple[Job, set[int]]:
    job = networks.job_on(network, 10, seed=2)
    job.groups = {5: frozenset({1, 4, 7, 9})}
    tags = entries.used(job, [Function.ALLREDUCE, SCAN])
    tags |= {int(Tag(1, Function.BCAST, root, 5, group=True)) for root in (1, 7)}
    return job, tags


@pytest.mark.parametrize("make", MAKERS)
def test_frames_take_the_same_way_as_by_masks(make):
    network = make()
    job, used = job_with_tags(network)
    masked = compute(network, [job])
    programs = exact.compiled(network, [job], masked, {1: used})
    both = [Tables(network.graph, each) for each in (masked, programs)]
    hosts = network.graph.hosts
    sent = [(source, target) for source in hosts for target in hosts]
    sent += [(job.ranks[Tag.parse(to_mac(tag)).source], tag) for tag in used]
    for source, dst in sent:
        ways = [t.send(*hosts[source], Frame(source, dst)) for t in both]
        assert ways[0] == ways[1], f"{dst:x}"
        assert not exact.is_tag(dst) or ways[1].to_controller == 0
    assert any(way.delivered for way in ways)


@pytest.mark.parametrize("make", MAKERS)
def test_only_three_rules_that_forward_have_masks(make):
    network = make()
    job, used = job_with_tags(network)
    programs = exact.compiled(network, [job], compute(network, [job]), {1: used})
    for program in programs.values():
        forward = {key: does for key, does in program.items() if key.table == FORWARD}
        others = {k for k in forward if k.match.dst_mask != ALL_BITS or k.match.dst is None}
        assert len(others) == 3
        assert all(k == k._replace(match=k.match._replace(in_port=None, src=None)) for k in forward)
        groups = {a for does in forward.values() for a in does.actions if isinstance(a, Group)}
        assert not any(group.failover for group in groups)


def test_ranks_that_share_a_port_get_frames_back():
    network = networks.of_wiring("leaf-spine:2x2x2")
    place = network.graph.hosts[FIRST_HOST]
    network.graph.hosts[FIRST_HOST + 9] = place
    job = Job(1, ranks={0: FIRST_HOST, 1: FIRST_HOST + 9})
    tag = int(Tag(1, SCAN, 0, 1))
    programs = exact.compiled(network, [job], compute(network, [job]), {1: {tag}})
    way = Tables(network.graph, programs).send(*place, Frame(FIRST_HOST, tag))
    assert way.delivered == [(*place, FIRST_HOST + 9)]
    (does,) = [d for k, d in programs[place[0]].items() if exact.tag_of(k) == tag]
    assert does.actions[-1].port == IN_PORT


def test_a_restarted_controller_finds_tags_and_trees_in_the_switches():
    network = networks.of_wiring("leaf-spine:2x2x4")
    job, used = job_with_tags(network)
    programs = exact.compiled(network, [job], compute(network, [job]), {1: used})
    again = Network(network.graph)
    strays = Strays(again, {1: job})
    for switch, program in programs.items():
        known = learned(program)
        known.into(again, switch)
        strays.know(known.tags)
    assert strays.used == {1: used}
    key = tree_key(1, 5)
    assert again.standing[key] == network.standing[key]
    assert copied_to(programs[min(programs)], key) == {
        port for switch, port in network.standing[key] if switch == min(programs)
    }
    assert exact.compiled(again, [job], compute(again, [job]), strays.used) == programs


def test_a_tag_is_in_use_from_its_first_frame_to_the_end_of_its_job():
    network = networks.of_wiring("leaf-spine:2x2x4")
    job = networks.job_on(network, 8)
    job.groups = {3: frozenset({0, 2, 5})}
    jobs = {1: job}
    strays = Strays(network, jobs)
    at = network.graph.hosts

    def receive(tag: Tag, sender: int, now: float = 0) -> tuple[bool, list]:
        frame = int(tag).to_bytes(6, "big") + job.ranks[sender].to_bytes(6, "big") + b"rest"
        return strays.receive(at[job.ranks[sender]], frame, now)

    direct = Tag(1, SCAN, 2, 6)
    new, copies = receive(direct, 2)
    assert new
    (copy,) = copies
    assert copy[0] == at[job.ranks[6]]
    assert copy[1] == job.ranks[6].to_bytes(6, "big") + job.ranks[2].to_bytes(6, "big") + b"rest"
    assert receive(direct, 2)[0] is False
    new, copies = receive(Tag(1, Function.BCAST, 0, 3, group=True), 0)
    assert new
    assert [place for place, _ in copies] == [at[job.ranks[2]], at[job.ranks[5]]]
    used = {int(direct), int(Tag(1, Function.BCAST, 0, 3, group=True))}
    assert strays.used == {1: used}
    for tag, sender in (
        (Tag(1, SCAN, 3, 6), 2),  # another rank's
        (Tag(2, SCAN, 2, 6), 2),  # another job's
        (Tag(1, SCAN, 2, 9), 2),  # to nobody
    ):
        assert receive(tag, sender) == (False, [])
    assert strays.used == {1: used}
    delivered = sum(bool(receive(direct, 2)[1]) for _ in range(2 * BURST))
    assert 0 < delivered < BURST
    assert receive(direct, 2, 60.0)[1], "the bucket fills again"
    strays.forget(1)
    assert receive(direct, 2, 120.0)[0]


def test_entries_are_of_one_kind_each():
    network = networks.of_wiring("leaf-spine:2x2x4")
    job = networks.job_on(network, 8)
    for program in compute(network, [job]).values():
        found = exact.count(program)
        assert found.exact + found.masked + found.by_port == len(program)
        admitted = {key for key in program if key.table == ADMIT}
        whole = {k for k in admitted if k.match.dst is not None and k.match.dst_mask == ALL_BITS}
        assert found.exact + len(whole) >= len(network.graph.hosts)


def test_entries_of_leaf_and_spine():
    """The fewest that rules by whole addresses can have: a leaf has those of its own ranks' tags in
    both directions, and the hosts."""
    masked, whole = entries.table([8], [Function.ALLREDUCE])
    assert masked["topology"] == whole["topology"] == "leaf-spine:2x2x4"
    job = Job(1, ranks={rank: FIRST_HOST + rank for rank in range(8)})
    used = entries.used(job, [Function.ALLREDUCE])
    assert whole["leaf"]["exact"] == len(hosts := range(8)) + len(
        {t for t in used if {t & 7, t >> 11 & 7} & set(hosts[:4])}
    )
    assert whole["leaf"]["masked"] < masked["leaf"]["masked"]
    assert masked["leaf"]["groups"] > whole["leaf"]["groups"] > 0


def test_jobs_have_at_most_the_ranks_that_a_tag_can_name():
    text, per_node = entries.shape(5000)
    network = networks.of_wiring(text)
    jobs = entries.jobs_on(network, 5000, per_node)
    assert [len(job.ranks) for job in jobs] == [2048, 2048, 904]
    assert all(min(job.ranks) == 0 for job in jobs)
    with pytest.raises(HikyakuError, match="fewer --ranks"):
        entries.planned(network, jobs, [Function.ALLTOALL])
