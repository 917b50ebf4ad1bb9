# SPDX-License-Identifier: BSD-3-Clause
"""Links and hosts from frames, the forged ones among them."""

import random

import pytest

from hikyaku.sdn.discovery import (
    ATTENTIVE,
    EXPIRY,
    LOST_AFTER,
    MAX_HOSTS_PER_PORT,
    ONE_WAY,
    ROUND_TRIP,
    SETTLE,
    Discovery,
)
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
    found.heard_probe(B, found.probe(A, 10.0), 10.1)
    assert not found.graph.links, "when one has come the other way, too"
    assert found.heard_probe(A, found.probe(B, 10.0), 10.1)
    assert found.graph.links == {A: B, B: A}
    assert not found.heard_probe(B, found.probe(A, 11.0), 11.1), "it is known already"


def test_probes_that_come_one_way_only_are_no_link_and_no_ports_of_hosts(found, said):
    for tenth in range(100, 200):
        found.heard_probe(B, found.probe(A, tenth / 10), tenth / 10)
        found.tick(tenth / 10)
        assert found.undecided(tenth / 10) == ({A, B} if tenth / 10 - 10 < ONE_WAY else set())
    assert not found.graph.links
    assert found.severed() == [A, B]
    assert len(said) == 1
    assert "from switch 1 port 1, and none arrives there from here" in said[0]
    assert found.heard_probe(A, found.probe(B, 20.0), 20.0)
    assert found.graph.links == {A: B, B: A}


# ---- switches that are away ----------------------------------------------------------------------


def join(found, a, b, now) -> None:
    found.heard_probe(b, found.probe(a, now), now)
    found.heard_probe(a, found.probe(b, now), now)


def tick_to(found, start: float, end: float) -> None:
    for tenth in range(int(10 * start), int(10 * end) + 1):
        found.tick(tenth / 10)


def test_a_switch_without_a_connection_keeps_its_links_and_its_neighbours_learn_nothing(found):
    """It forwards as before: what comes from it is no host, and its port nothing to flood to."""
    join(found, A, B, 10.0)
    found.lose_switch(1)
    tick_to(found, 10.0, 100.0)
    assert found.graph.links == {A: B, B: A}
    assert not found.heard_host(B, 0x0200_0000_0001, 100.0)
    assert found.graph.host_ports(2) == [2, 3]
    found.add_switch(1, [1, 2, 3], 100.0)
    assert found.graph.links == {A: B, B: A}
    assert found.graph.ports[1] == {1, 2, 3}
    assert not found.unsettled()
    assert found.graph.away == set()
    tick_to(found, 100.0, 100.0 + LOST_AFTER)
    assert found.graph.links
    found.tick(100.1 + LOST_AFTER)
    assert not found.graph.links, "but its probes had to come again"


def test_a_switch_that_comes_before_its_old_connection_has_ended(found):
    join(found, A, B, 10.0)
    found.add_switch(1, [1, 3], 20.0)
    assert found.graph.links == {A: B, B: A}
    assert found.graph.ports[1] == {1, 3}, "what it says of its ports counts"
    found.add_switch(1, [3, 4], 30.0)
    assert not found.graph.links
    assert found.unsettled() == [(1, 4)]


def test_a_switch_is_forgotten_when_its_neighbours_say_that_it_has_died(found, said):
    found.port_down((1, 2))
    join(found, A, B, 10.0)
    join(found, (1, 3), (2, 3), 10.0)
    found.lose_switch(1)
    found.port_down(B)
    assert found.graph.away == {1}
    found.port_down((2, 3))
    assert 1 not in found.graph.ports
    assert not found.graph.links
    assert "all links to it are down: forgotten" in said[-1]
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 21.0)
    assert found.heard_host(B, 0x0200_0000_0001, 21.0), "another may be plugged in there"


def test_a_port_to_a_switch_that_is_away_is_nobodys_when_it_comes_up_again(found):
    join(found, A, B, 10.0)
    join(found, (1, 3), (2, 3), 10.0)
    found.lose_switch(1)
    found.port_down(B)
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 40.0)
    assert not found.heard_host(B, 0x0200_0000_0001, 40.0)
    assert found.graph.host_ports(2) == [2]
    found.add_switch(1, [1, 2, 3], 40.0)
    assert B in found.unsettled()
    join(found, A, B, 40.0)
    assert found.graph.links[A] == B


def test_the_other_end_of_a_port_that_goes_down_is_no_port_of_hosts(found):
    """It may be up for a while, or for good."""
    join(found, A, B, 10.0)
    found.port_down(A)
    tick_to(found, 10.0, 20.0)
    assert found.graph.host_ports(2) == [2, 3]
    assert found.severed() == [B]
    found.port_down(B)
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 21.0)
    assert found.graph.host_ports(2) == [1, 2, 3]


def test_what_its_own_rules_call_a_link_is_no_port_of_hosts():
    """A controller with a directory of its own, and switches that another one has left."""
    found = Discovery(Graph(), KEY, print)
    found.add_switch(1, [1, 2, 3], 0.0, trunks=[1])
    tick_to(found, 0.0, 30.0)
    assert found.graph.host_ports(1) == [2, 3]
    found.add_switch(2, [1], 30.0)
    tick_to(found, 30.0, 31.0)
    found.heard_host(B, 0x0200_0000_0001, 31.0)
    assert B[1] in found.graph.ports[2]
    join(found, A, B, 31.0)
    assert found.graph.links, "hosts beyond it, not on it"
    assert not found.graph.hosts


def test_a_link_comes_back_where_hosts_beyond_it_were_heard(found):
    join(found, A, B, 10.0)
    found.port_down(A)
    found.port_down(B)
    for port in (A, B):
        found.port_up(port, 20.0)
    tick_to(found, 20.0, 21.0)
    found.heard_host(B, 0x0200_0000_0001, 21.0)
    assert B in found.probed_ports({2: {1}})
    assert not found.heard_probe((1, 2), found.probe(B, 21.0), 21.0), "but to where it was, alone"
    join(found, A, B, 21.0)
    assert found.graph.links
    assert not found.graph.hosts


# ---- probes --------------------------------------------------------------------------------------


def test_a_probe_that_was_on_its_way_does_not_raise_a_port_that_is_down(found):
    """It would flood there at once when it comes up, whatever it leads to."""
    for down in (A, B):
        frame = found.probe(A, 10.0)
        found.port_down(down)
        assert not found.heard_probe(B, frame, 10.1)
        assert down[1] not in found.graph.ports[down[0]]
        assert found.severed() == []
        found.port_up(down, 11.0)
        assert found.unsettled() == [down]
        tick_to(found, 11.0, 12.0)
    assert found.counts["late"] == 2


def test_every_changed_bit_is_refused(found, said):
    good = found.probe(A, 10.0)
    found.heard_probe(A, found.probe(B, 10.0), 10.1)
    changed = 0
    for bit in range(14 * 8, len(good) * 8):
        frame = bytearray(good)
        frame[bit // 8] ^= 1 << bit % 8
        if found.heard_probe(B, bytes(frame), 10.1):
            # what is not hashed repeats what is: LLDP's own names and time to live
            assert found.graph.links == {A: B, B: A}
            found.port_down(A)
            for port in (A, B):
                found.port_up(port, 10.0)
            good = found.probe(A, 10.0)
            found.heard_probe(A, found.probe(B, 10.0), 10.1)
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
    found.tick(10.0)
    frame, another = found.probe(A, 10.0), found.probe(A, 10.0)
    for tenth in range(100, 100 + int(10 * ROUND_TRIP)):
        found.tick(tenth / 10)
    assert not found.heard_probe(B, frame, 10.1 + ROUND_TRIP)
    found.tick(10.1 + ROUND_TRIP)
    assert not found.heard_probe(B, another, 10.0), "and is forgotten by then"
    assert found.counts == {"stale": 2}
    own = found.probe(A, 14.0)
    assert not found.heard_probe(A, own, 14.0), "to itself"
    assert found.counts["impossible"] == 1
    once = found.probe(A, 14.0)
    found.heard_probe(B, once, 14.0)
    assert found.counts["stale"] == 2
    assert not found.heard_probe((2, 2), once, 14.1), "by somebody who has it too"
    assert found.counts["stale"] == 3
    assert len(said) == 3


def test_another_run_of_the_controller_does_not_take_probes_of_this_one(found):
    """It has the same key, and counts from the beginning."""
    other = Discovery(found.graph, KEY, print)
    other.probe(A, 10.0)
    assert not found.heard_probe(B, other.probe(A, 10.0), 10.0)
    assert found.counts["stale"] == 1


def test_hosts_cannot_hand_on_probes(found, said):
    found.heard_host(B, 0x0200_0000_0001, 10.0)
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


def test_who_did_not_look_does_not_call_anybody_silent(found):
    """The controller got no CPU for a minute, or its clock was set: probes wait in its sockets."""
    found.heard_probe(B, found.probe(A, 10.0), 10.0)
    found.heard_probe(A, found.probe(B, 10.0), 10.0)
    found.tick(10.0)
    assert not found.tick(70.0)
    assert not found.tick(75.0)
    assert found.graph.links


def test_silent_links_are_not_used_any_more(found, said):
    found.tick(10.0)
    found.heard_probe(B, found.probe(A, 10.0), 10.0)
    found.heard_probe(A, found.probe(B, 10.0), 10.0)
    for tenth in range(100, int(100 + 10 * LOST_AFTER) + 1):
        assert not found.tick(tenth / 10)
    assert found.tick(10.1 + LOST_AFTER)
    assert not found.graph.links
    assert found.lost_links() == [(A, B)]
    assert 1 not in found.graph.ports[1], "nor taken for a port of hosts at once"
    assert "silent" in said[0]
    tick_to(found, 11 + LOST_AFTER, 50)
    assert found.graph.host_ports(1) == [2, 3], "nor later: it was silent, not down"
    assert found.severed() == [A, B]


def test_a_link_that_is_there_again_is_not_silent_for_what_was_before(found):
    """One was plugged elsewhere for a while, without going down: through a patch panel."""
    join(found, A, B, 10.0)
    for second in range(11, 30):
        join(found, A, (2, 2), second)
        tick_to(found, second, second + 1)
    assert found.severed() == [B]
    join(found, A, B, 30.0)
    tick_to(found, 30.0, 31.0)
    assert found.graph.links == {A: B, B: A}


def test_ports_are_nobodys_until_they_have_settled(found):
    found.port_down((1, 2))
    found.port_up((1, 2), 20.0)
    assert not found.heard_host((1, 2), 0x0200_0000_0001, 10.0)
    tick_to(found, 20.0, 21.0)
    assert found.heard_host((1, 2), 0x0200_0000_0001, 10.0)


def test_frames_that_pass_a_link_make_no_hosts(found):
    found.heard_host(B, 0x0200_0000_0001, 10.0)
    found.graph.hosts.clear()
    found.heard_probe(B, found.probe(A, 10.0), 10.0)
    assert not found.heard_host(A, 0x0200_0000_0001, 10.0)
    assert not found.graph.hosts


def test_sources_that_cannot_be(found):
    for mac in (0, (1 << 48) - 1, 0x0100_5E00_0001, int(Tag(1, Function.P2P, 0, 0))):
        assert not found.heard_host(B, mac, 10.0)
    assert found.counts["bad_source"] == 4


def test_one_port_cannot_fill_the_tables(found):
    for i in range(MAX_HOSTS_PER_PORT + 10):
        found.heard_host(B, 0x0200_0000_0001 + i, 10.0)
    assert len(found.graph.hosts) == MAX_HOSTS_PER_PORT


def test_a_host_that_moves_is_said(found, said):
    found.heard_host(B, 0x0200_0000_0001, 10.0)
    assert found.heard_host((1, 2), 0x0200_0000_0001, 10.0)
    assert "has moved from switch 2 port 1 to switch 1 port 2" in said[0]


# ---- hosts that go -------------------------------------------------------------------------------

HOST = 0x0200_0000_0001


def test_a_silent_host_is_forgotten(found, said):
    found.heard_host(B, HOST, 10.0)
    assert found.expire(10.0 + EXPIRY) == []
    assert found.expire(10.1 + EXPIRY) == [HOST]
    assert not found.graph.hosts
    assert "at switch 2 port 1 has been silent: forgotten" in said[-1]
    assert found.heard_host(B, HOST, 900.0), "and may come again"


def test_a_host_that_a_switch_counts_is_not_forgotten(found):
    found.heard_host(B, HOST, 0.0)
    for i in range(1, 50):
        found.counted({(HOST, B): i}, i * EXPIRY / 2)
        assert found.expire(i * EXPIRY / 2) == []
    assert found.expire(26 * EXPIRY) == [HOST]


def test_counts_that_stand_still_begin_anew_or_are_of_elsewhere_keep_nobody(found):
    found.heard_host(B, HOST, 0.0)
    found.counted({(HOST, B): 70}, 1.0)
    found.counted({(HOST, B): 70}, EXPIRY)  # stands still
    found.counted({(HOST, B): 0}, EXPIRY)  # its rule is written anew
    found.counted({(HOST, A): 10}, EXPIRY - 1)
    found.counted({(HOST, A): 90}, EXPIRY)  # somebody says to be this host
    assert found.expire(EXPIRY + 1) == [HOST]


def test_a_count_that_begins_anew_and_grows_keeps_its_host(found):
    found.heard_host(B, HOST, 0.0)
    found.counted({(HOST, B): 70}, 1.0)
    found.counted({(HOST, B): 3}, EXPIRY)
    assert found.expire(EXPIRY + 1) == []


def test_who_is_to_be_kept_is_kept(found):
    found.heard_host(B, HOST, 0.0)
    assert found.expire(10 * EXPIRY, keep=[HOST]) == []
    assert found.expire(11 * EXPIRY) == [], "its time begins when it is not kept any more"
    assert found.expire(11 * EXPIRY + 1) == [HOST]


def test_hosts_of_a_switch_that_is_away_have_their_time_when_it_is_back(found):
    found.heard_host(B, HOST, 0.0)
    found.lose_switch(2)
    assert found.expire(5 * EXPIRY) == []
    found.add_switch(2, [1, 2, 3], 5 * EXPIRY)
    assert found.expire(6 * EXPIRY) == []
    assert found.expire(6 * EXPIRY + 1) == [HOST]


def test_a_host_that_moves_takes_its_time_along(found):
    found.heard_host(B, HOST, 0.0)
    found.heard_host((1, 2), HOST, EXPIRY)
    assert found.expire(EXPIRY + 1) == []
    assert found.graph.hosts == {HOST: (1, 2)}


def test_no_expiry():
    never = Discovery(Graph(), KEY, print, expiry=0)
    never.add_switch(1, [1], 0.0)
    never.tick(SETTLE)
    never.heard_host(A, HOST, 0.0)
    assert never.expire(1e9) == []


@pytest.mark.parametrize("seed", range(20))
def test_hosts_go_when_they_should_and_not_before(found, seed):
    """Against a model: each host's last sign of life. Some speak, some are counted, some move, some
    are of a job, switches come and go."""
    rng = random.Random(seed)
    now, alive, counts, away, ticked = 0.0, {}, {}, False, SETTLE
    for _ in range(400):
        now += rng.choice([1.0, 20.0, EXPIRY / 3])
        mac, port = HOST + rng.randrange(6), (rng.choice([1, 2]), rng.randrange(1, 4))
        what = rng.randrange(5)
        if what == 0 and not (away and port[0] == 2):
            found.heard_host(port, mac, now)
            alive[mac] = now
        elif what == 1 and mac in alive:
            at = found.graph.hosts[mac]
            known = (mac, at) in counts
            counts[mac, at] = counts.get((mac, at), 0) + rng.randrange(3)
            grown = found._frames.get((mac, at), 0) < counts[mac, at]
            found.counted({(mac, at): counts[mac, at]}, now)
            if known and grown:
                alive[mac] = now
        elif what == 2:
            away = not away
            if away:
                found.lose_switch(2)
            else:
                found.add_switch(2, [1, 2, 3], now)
                found.tick(now + 1)
                missed = max(0.0, now + 1 - ticked - ATTENTIVE)
                alive = {each: at + missed for each, at in alive.items()}
                ticked = now + 1
        keep = {HOST} if rng.random() < 0.3 else set()
        for each in alive:
            if each in keep or (away and found.graph.hosts[each][0] == 2):
                alive[each] = now
        gone = {each for each, last in alive.items() if now - last > EXPIRY}
        assert set(found.expire(now, keep)) == gone
        for each in gone:
            del alive[each]
            counts = {k: n for k, n in counts.items() if k[0] != each}
        counts = {k: n for k, n in counts.items() if found.graph.hosts.get(k[0]) == k[1]}
        assert found.graph.hosts.keys() == alive.keys()
