# SPDX-License-Identifier: BSD-3-Clause
"""Links and hosts from frames, the forged ones among them."""

import random

import pytest

from hikyaku.sdn.discovery import FRESH, LOST_AFTER, MAX_HOSTS_PER_PORT, SETTLE, Discovery
from hikyaku.sdn.graph import Graph
from hikyaku.sdn.tag import Function, Tag

KEY = bytes(range(32))
A, B = (1, 1), (2, 1)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def found(said) -> Discovery:
    """Two switches of three ports each, settled."""
    made = Discovery(Graph(), KEY, said.append)
    for switch in (1, 2):
        made.add_switch(switch, [1, 2, 3], 0.0)
    made.tick(SETTLE)
    return made


def test_a_probe_that_arrives_is_a_link(found):
    assert found.heard_probe(B, found.probe(A, 10.0), 10.1)
    assert found.graph.links == {A: B, B: A}
    assert not found.heard_probe(B, found.probe(A, 11.0), 11.1), "it is known already"


def test_a_switch_that_comes_again_has_no_links_left(found):
    """Its new connection may be there, and end, before the old one has."""
    found.heard_probe(B, found.probe(A, 10.0), 10.1)
    found.add_switch(1, [1, 2, 3], 20.0)
    assert found.graph.links == {}
    found.heard_probe(B, found.probe(A, 20.0), 20.1)
    found.graph.ports[1].clear()
    found.remove_switch(1)
    assert found.graph.links == {}
    assert found.graph.neighbors(2) == {}


def test_every_changed_bit_is_refused(found, said):
    good = found.probe(A, 10.0)
    changed = 0
    for bit in range(14 * 8, len(good) * 8):
        frame = bytearray(good)
        frame[bit // 8] ^= 1 << bit % 8
        if found.heard_probe(B, bytes(frame), 10.1):
            # what is not hashed repeats what is: LLDP's own names and time to live
            assert found.graph.links == {A: B, B: A}
            found.graph.remove_link(A)
        else:
            changed += 1
    assert changed >= 36 * 8, "at least our own TLV, all of it"
    assert any("hash is not ours" in text for text in said)


def test_noise_and_cut_frames_are_no_links(found):
    rng = random.Random(1)
    good = found.probe(A, 10.0)
    for length in range(len(good) - 2):
        assert not found.heard_probe(B, good[:length], 10.1)
    for _ in range(2000):
        assert not found.heard_probe(B, rng.randbytes(rng.randrange(0, 120)), 10.1)
    assert not found.graph.links


def test_replays_are_refused(found, said):
    frame = found.probe(A, 10.0)
    assert not found.heard_probe(B, frame, 10.0 + FRESH + 0.1)
    assert not found.heard_probe(A, frame, 10.1), "to itself"
    assert found.counts == {"stale": 1, "impossible": 1}
    assert len(said) == 2


def test_hosts_cannot_hand_on_probes(found, said):
    found.heard_host(B, 0x0200_0000_0001)
    assert not found.heard_probe(B, found.probe(A, 10.0), 10.0)
    assert not found.heard_probe(A, found.probe(B, 10.0), 10.0)
    assert found.counts["host_port"] == 2
    assert B not in found.probed_ports({1: {1}, 2: {1, 2}}), "and get none to hand on"
    for _ in range(100):
        found.heard_probe(B, found.probe(A, 10.0), 10.0)
    assert len(said) == 2, "said once a port"


def test_another_controllers_probes_are_not_believed(found):
    other = Discovery(Graph(), bytes(32), print)
    assert not found.heard_probe(B, other.probe(A, 10.0), 10.0)
    assert found.counts["forged"] == 1


def test_silent_links_are_not_used_any_more(found, said):
    found.heard_probe(B, found.probe(A, 10.0), 10.0)
    found.heard_probe(A, found.probe(B, 10.0), 10.0)
    assert not found.tick(10.0 + LOST_AFTER)
    assert found.tick(10.1 + LOST_AFTER)
    assert not found.graph.links
    assert found.lost_links() == [(A, B)]
    assert 1 not in found.graph.ports[1], "nor taken for a port of hosts at once"
    assert "silent" in said[0]


def test_ports_are_nobodys_until_they_have_settled(found):
    found.port_down((1, 2))
    found.port_up((1, 2), 20.0)
    assert not found.heard_host((1, 2), 0x0200_0000_0001)
    found.tick(20.0 + SETTLE)
    assert found.heard_host((1, 2), 0x0200_0000_0001)


def test_frames_that_pass_a_link_make_no_hosts(found):
    found.heard_host(B, 0x0200_0000_0001)
    found.graph.hosts.clear()
    found.heard_probe(B, found.probe(A, 10.0), 10.0)
    assert not found.heard_host(A, 0x0200_0000_0001)
    assert not found.graph.hosts


def test_sources_that_cannot_be(found):
    for mac in (0, (1 << 48) - 1, 0x0100_5E00_0001, int(Tag(1, Function.P2P, 0, 0))):
        assert not found.heard_host(B, mac)
    assert found.counts["bad_source"] == 4


def test_one_port_cannot_fill_the_tables(found):
    for i in range(MAX_HOSTS_PER_PORT + 10):
        found.heard_host(B, 0x0200_0000_0001 + i)
    assert len(found.graph.hosts) == MAX_HOSTS_PER_PORT


def test_a_host_that_moves_is_said(found, said):
    found.heard_host(B, 0x0200_0000_0001)
    assert found.heard_host((1, 2), 0x0200_0000_0001)
    assert "has moved from switch 2 port 1 to switch 1 port 2" in said[0]
