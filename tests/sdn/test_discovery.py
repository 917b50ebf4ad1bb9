# SPDX-License-Identifier: BSD-3-Clause
"""Links and hosts that the controller learns from frames, some of them forged."""

import random

import pytest

from hikyaku.sdn.discovery import ATTENTIVE, LOST_AFTER, ONE_WAY, SETTLE, Discovery
from hikyaku.sdn.graph import Graph
from hikyaku.sdn.hosts import EXPIRY, MAX_HOSTS_PER_PORT
from hikyaku.sdn.lldp import LATE_MAX, ROUND_TRIP
from hikyaku.sdn.tag import Function, Tag

KEY = bytes(range(32))
A, B = (1, 1), (2, 1)


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def found(messages) -> Discovery:
    """Two switches of three ports each, settled."""
    made = Discovery(Graph(), KEY, messages.append)
    for switch in (1, 2):
        made.add_switch(switch, [1, 2, 3], 0.0)
    made.tick(SETTLE)
    return made


def test_a_probe_that_arrives_is_a_link(found):
    found.receive_probe(B, found.probe(A, 10.0), 10.1)
    assert not found.graph.links, "a probe the other way is missing"
    assert found.receive_probe(A, found.probe(B, 10.0), 10.1)
    assert found.graph.links == {A: B, B: A}
    assert not found.receive_probe(B, found.probe(A, 11.0), 11.1), "the link is known already"


def test_probes_in_one_direction_make_no_link_and_no_host_ports(found, messages):
    for tenth in range(100, 200):
        found.receive_probe(B, found.probe(A, tenth / 10), tenth / 10)
        found.tick(tenth / 10)
        assert found.undecided(tenth / 10) == ({A, B} if tenth / 10 - 10 < ONE_WAY else set())
    assert not found.graph.links
    assert found.severed() == [A, B]
    assert len(messages) == 1
    assert "from switch 1 port 1, and none arrives there from here" in messages[0]
    assert found.receive_probe(A, found.probe(B, 20.0), 20.0)
    assert found.graph.links == {A: B, B: A}


# ---- disconnected switches -----------------------------------------------------------------------


def join(found, a, b, now) -> None:
    found.receive_probe(b, found.probe(a, now), now)
    found.receive_probe(a, found.probe(b, now), now)


def tick_to(found, start: float, end: float) -> None:
    for tenth in range(int(10 * start), int(10 * end) + 1):
        found.tick(tenth / 10)


def test_a_disconnected_switch_keeps_its_links(found):
    """It forwards as before. So frames from it show no host, and neighbours do not flood to it."""
    join(found, A, B, 10.0)
    found.lose_switch(1)
    tick_to(found, 10.0, 100.0)
    assert found.graph.links == {A: B, B: A}
    assert not found.hosts.learn(B, 0x0200_0000_0001, 100.0)
    assert found.graph.host_ports(2) == [2, 3]
    found.add_switch(1, [1, 2, 3], 100.0)
    assert found.graph.links == {A: B, B: A}
    assert found.graph.ports[1] == {1, 2, 3}
    assert not found.unsettled()
    assert found.graph.disconnected == set()
    tick_to(found, 100.0, 100.0 + LOST_AFTER)
    assert found.graph.links
    found.tick(100.1 + LOST_AFTER)
    assert not found.graph.links, "no probe has come since it connected again"


def test_a_switch_that_connects_again_before_its_old_connection_has_ended(found):
    join(found, A, B, 10.0)
    found.add_switch(1, [1, 3], 20.0)
    assert found.graph.links == {A: B, B: A}
    assert found.graph.ports[1] == {1, 3}, "the ports that the switch has reported now"
    found.add_switch(1, [3, 4], 30.0)
    assert not found.graph.links
    assert found.unsettled() == [(1, 4)]


def test_a_disconnected_switch_is_forgotten_when_all_its_links_are_down(found, messages):
    found.port_down((1, 2))
    join(found, A, B, 10.0)
    join(found, (1, 3), (2, 3), 10.0)
    found.lose_switch(1)
    found.port_down(B)
    assert found.graph.disconnected == {1}
    found.port_down((2, 3))
    assert 1 not in found.graph.ports
    assert not found.graph.links
    assert "all links to it are down: forgotten" in messages[-1]
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 21.0)
    assert found.hosts.learn(B, 0x0200_0000_0001, 21.0), "a host may be there now"


def test_a_port_to_a_disconnected_switch_does_not_become_a_host_port(found):
    join(found, A, B, 10.0)
    join(found, (1, 3), (2, 3), 10.0)
    found.lose_switch(1)
    found.port_down(B)
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 40.0)
    assert not found.hosts.learn(B, 0x0200_0000_0001, 40.0)
    assert found.graph.host_ports(2) == [2]
    found.add_switch(1, [1, 2, 3], 40.0)
    assert B in found.unsettled()
    join(found, A, B, 40.0)
    assert found.graph.links[A] == B


def test_the_other_end_of_a_port_that_goes_down_does_not_become_a_host_port(found):
    """It may go down later, or never."""
    join(found, A, B, 10.0)
    found.port_down(A)
    tick_to(found, 10.0, 20.0)
    assert found.graph.host_ports(2) == [2, 3]
    assert found.severed() == [B]
    found.port_down(B)
    found.port_up(B, 20.0)
    tick_to(found, 20.0, 21.0)
    assert found.graph.host_ports(2) == [1, 2, 3]


def test_a_link_by_the_rules_of_a_switch_does_not_become_a_host_port():
    """The controller's directory is empty; the switches have rules of an earlier controller."""
    found = Discovery(Graph(), KEY, print)
    found.add_switch(1, [1, 2, 3], 0.0, trunks=[1])
    tick_to(found, 0.0, 30.0)
    assert found.graph.host_ports(1) == [2, 3]
    found.add_switch(2, [1], 30.0)
    tick_to(found, 30.0, 31.0)
    found.hosts.learn(B, 0x0200_0000_0001, 31.0)
    assert B[1] in found.graph.ports[2]
    join(found, A, B, 31.0)
    assert found.graph.links, "the host is behind the link"
    assert not found.graph.hosts


def test_a_link_comes_back_after_hosts_behind_it_were_seen(found):
    join(found, A, B, 10.0)
    found.port_down(A)
    found.port_down(B)
    for port in (A, B):
        found.port_up(port, 20.0)
    tick_to(found, 20.0, 21.0)
    found.hosts.learn(B, 0x0200_0000_0001, 21.0)
    assert B in found.probed_ports({2: {1}})
    assert not found.receive_probe((1, 2), found.probe(B, 21.0), 21.0), (
        "only the old link may come back"
    )
    join(found, A, B, 21.0)
    assert found.graph.links
    assert not found.graph.hosts


# ---- probes --------------------------------------------------------------------------------------


def test_a_late_probe_does_not_make_a_link_of_a_port_that_is_down(found):
    """Otherwise the switch would flood to the port as soon as it is up, wherever it leads."""
    for down in (A, B):
        frame = found.probe(A, 10.0)
        found.port_down(down)
        assert not found.receive_probe(B, frame, 10.1)
        assert down[1] not in found.graph.ports[down[0]]
        assert found.severed() == []
        found.port_up(down, 11.0)
        assert found.unsettled() == [down]
        tick_to(found, 11.0, 12.0)
    assert found.counts["late"] == 2


def test_every_changed_bit_is_refused(found, messages):
    good = found.probe(A, 10.0)
    found.receive_probe(A, found.probe(B, 10.0), 10.1)
    refused = 0
    for bit in range(14 * 8, len(good) * 8):
        frame = bytearray(good)
        frame[bit // 8] ^= 1 << bit % 8
        if found.receive_probe(B, bytes(frame), 10.1):
            # LLDP's names and time to live are not hashed; they only repeat hashed values
            assert found.graph.links == {A: B, B: A}
            found.port_down(A)
            for port in (A, B):
                found.port_up(port, 10.0)
            good = found.probe(A, 10.0)
            found.receive_probe(A, found.probe(B, 10.0), 10.1)
        else:
            refused += 1
    assert refused >= 36 * 8, "at least every bit of our own TLV"
    assert any("hash is not ours" in text for text in messages)


def test_random_and_truncated_frames_make_no_links(found):
    rng = random.Random(1)
    good = found.probe(A, 10.0)
    for length in range(len(good) - 2):
        assert not found.receive_probe(B, good[:length], 10.1)
    for _ in range(2000):
        assert not found.receive_probe(B, rng.randbytes(rng.randrange(0, 120)), 10.1)
    assert not found.graph.links


def test_replays_are_refused(found, messages):
    found.tick(10.0)
    own = found.probe(A, 14.0)
    assert not found.receive_probe(A, own, 14.0), "a probe back to its sender"
    assert found.counts["impossible"] == 1
    once = found.probe(A, 14.0)
    found.receive_probe(B, once, 14.0)
    assert found.counts["stale"] == 0
    assert not found.receive_probe((2, 2), once, 14.1), "a replay on another port"
    assert found.counts["stale"] == 1
    assert len(messages) == 2


def test_late_probes_are_counted_and_not_reported(found, messages):
    """On a busy machine a probe takes seconds. It proves no link, but it is not a replay either."""
    found.tick(10.0)
    frame, another, third = (found.probe(A, 10.0) for _ in range(3))
    tick_to(found, 10.0, 10.0 + ROUND_TRIP)
    assert not found.receive_probe(B, frame, 10.1 + ROUND_TRIP)
    found.tick(10.1 + ROUND_TRIP)
    assert not found.receive_probe(B, another, 10.0), "also if the clock was set back"
    assert found.counts == {"late": 2}
    assert messages == []
    assert not found.receive_probe(B, frame, 10.2 + ROUND_TRIP), "a replay of a late probe"
    tick_to(found, 10.2 + ROUND_TRIP, 10.1 + LATE_MAX)
    assert not found.receive_probe(B, third, 10.1 + LATE_MAX), "too late even for a busy machine"
    assert found.counts == {"late": 2, "stale": 2}
    assert len(messages) == 1


def test_probes_of_another_run_of_the_controller_are_refused(found):
    """The other run has the same key and the same numbers."""
    other = Discovery(found.graph, KEY, print)
    other.probe(A, 10.0)
    assert not found.receive_probe(B, other.probe(A, 10.0), 10.0)
    assert found.counts["stale"] == 1


def test_probes_on_the_ports_of_hosts_are_refused(found, messages):
    found.hosts.learn(B, 0x0200_0000_0001, 10.0)
    assert not found.receive_probe(B, found.probe(A, 10.0), 10.0)
    assert not found.receive_probe(A, found.probe(B, 10.0), 10.0)
    assert found.counts["host_port"] == 2
    assert B not in found.probed_ports({1: {1}, 2: {1, 2}}), "the host gets no probe to forward"
    for _ in range(100):
        found.receive_probe(B, found.probe(A, 10.0), 10.0)
    assert len(messages) == 2, "reported once for each port"


def test_probes_of_another_controller_are_refused(found):
    other = Discovery(Graph(), bytes(32), print)
    assert not found.receive_probe(B, other.probe(A, 10.0), 10.0)
    assert found.counts["forged"] == 1


def test_time_in_which_the_controller_did_not_run_is_not_silence(found):
    """It got no CPU for a minute, or its clock was set. Probes wait in its sockets."""
    found.receive_probe(B, found.probe(A, 10.0), 10.0)
    found.receive_probe(A, found.probe(B, 10.0), 10.0)
    found.tick(10.0)
    assert not found.tick(70.0)
    assert not found.tick(75.0)
    assert found.graph.links


def test_silent_links_are_not_used_any_longer(found, messages):
    found.tick(10.0)
    found.receive_probe(B, found.probe(A, 10.0), 10.0)
    found.receive_probe(A, found.probe(B, 10.0), 10.0)
    for tenth in range(100, int(100 + 10 * LOST_AFTER) + 1):
        assert not found.tick(tenth / 10)
    assert found.tick(10.1 + LOST_AFTER)
    assert not found.graph.links
    assert found.lost_links() == [(A, B)]
    assert 1 not in found.graph.ports[1], "does not become a host port at once"
    assert "silent" in messages[0]
    tick_to(found, 11 + LOST_AFTER, 50)
    assert found.graph.host_ports(1) == [2, 3], "nor later: the link was silent, not down"
    assert found.severed() == [A, B]


def test_a_link_that_comes_back_does_not_count_as_silent(found):
    """A cable was plugged elsewhere for a while, in a patch panel: its ports stayed up."""
    join(found, A, B, 10.0)
    for second in range(11, 30):
        join(found, A, (2, 2), second)
        tick_to(found, second, second + 1)
    assert found.severed() == [B]
    join(found, A, B, 30.0)
    tick_to(found, 30.0, 31.0)
    assert found.graph.links == {A: B, B: A}


def test_a_port_has_no_hosts_until_it_has_settled(found):
    found.port_down((1, 2))
    found.port_up((1, 2), 20.0)
    assert not found.hosts.learn((1, 2), 0x0200_0000_0001, 10.0)
    tick_to(found, 20.0, 21.0)
    assert found.hosts.learn((1, 2), 0x0200_0000_0001, 10.0)


def test_frames_on_a_link_show_no_host(found):
    found.hosts.learn(B, 0x0200_0000_0001, 10.0)
    found.graph.hosts.clear()
    found.receive_probe(B, found.probe(A, 10.0), 10.0)
    assert not found.hosts.learn(A, 0x0200_0000_0001, 10.0)
    assert not found.graph.hosts


def test_impossible_source_addresses_are_refused(found):
    for mac in (0, (1 << 48) - 1, 0x0100_5E00_0001, int(Tag(1, Function.P2P, 0, 0))):
        assert not found.hosts.learn(B, mac, 10.0)
    assert found.counts["bad_source"] == 4


def test_one_port_cannot_fill_the_tables(found):
    for i in range(MAX_HOSTS_PER_PORT + 10):
        found.hosts.learn(B, 0x0200_0000_0001 + i, 10.0)
    assert len(found.graph.hosts) == MAX_HOSTS_PER_PORT


def test_a_host_that_moves_is_reported(found, messages):
    found.hosts.learn(B, 0x0200_0000_0001, 10.0)
    assert found.hosts.learn((1, 2), 0x0200_0000_0001, 10.0)
    assert "has moved from switch 2 port 1 to switch 1 port 2" in messages[0]


# ---- silent hosts --------------------------------------------------------------------------------

HOST = 0x0200_0000_0001


def test_a_silent_host_is_forgotten(found, messages):
    found.hosts.learn(B, HOST, 10.0)
    assert found.hosts.expire(10.0 + EXPIRY) == []
    assert found.hosts.expire(10.1 + EXPIRY) == [HOST]
    assert not found.graph.hosts
    assert "at switch 2 port 1 has been silent: forgotten" in messages[-1]
    assert found.hosts.learn(B, HOST, 900.0), "it may come back"


def test_a_host_whose_frames_a_switch_counts_is_not_forgotten(found):
    found.hosts.learn(B, HOST, 0.0)
    for i in range(1, 50):
        found.hosts.counted({(HOST, B): i}, i * EXPIRY / 2)
        assert found.hosts.expire(i * EXPIRY / 2) == []
    assert found.hosts.expire(26 * EXPIRY) == [HOST]


def test_other_counts_do_not_keep_a_host(found):
    found.hosts.learn(B, HOST, 0.0)
    found.hosts.counted({(HOST, B): 70}, 1.0)
    found.hosts.counted({(HOST, B): 70}, EXPIRY)  # no new frames
    found.hosts.counted({(HOST, B): 0}, EXPIRY)  # its rule was written again
    found.hosts.counted({(HOST, A): 10}, EXPIRY - 1)
    found.hosts.counted({(HOST, A): 90}, EXPIRY)  # frames with its address at another port
    assert found.hosts.expire(EXPIRY + 1) == [HOST]


def test_a_count_that_starts_again_and_grows_keeps_its_host(found):
    found.hosts.learn(B, HOST, 0.0)
    found.hosts.counted({(HOST, B): 70}, 1.0)
    found.hosts.counted({(HOST, B): 3}, EXPIRY)
    assert found.hosts.expire(EXPIRY + 1) == []


def test_hosts_to_keep_are_kept(found):
    found.hosts.learn(B, HOST, 0.0)
    assert found.hosts.expire(10 * EXPIRY, keep=[HOST]) == []
    assert found.hosts.expire(11 * EXPIRY) == [], "its time begins when it is no longer kept"
    assert found.hosts.expire(11 * EXPIRY + 1) == [HOST]


def test_the_time_of_hosts_begins_when_their_switch_has_connected_again(found):
    found.hosts.learn(B, HOST, 0.0)
    found.lose_switch(2)
    assert found.hosts.expire(5 * EXPIRY) == []
    found.add_switch(2, [1, 2, 3], 5 * EXPIRY)
    assert found.hosts.expire(6 * EXPIRY) == []
    assert found.hosts.expire(6 * EXPIRY + 1) == [HOST]


def test_a_host_that_moves_keeps_its_time(found):
    found.hosts.learn(B, HOST, 0.0)
    found.hosts.learn((1, 2), HOST, EXPIRY)
    assert found.hosts.expire(EXPIRY + 1) == []
    assert found.graph.hosts == {HOST: (1, 2)}


def test_hosts_are_never_forgotten_without_expiry():
    never = Discovery(Graph(), KEY, print, expiry=0)
    never.add_switch(1, [1], 0.0)
    never.tick(SETTLE)
    never.hosts.learn(A, HOST, 0.0)
    assert never.hosts.expire(1e9) == []


@pytest.mark.parametrize("seed", range(20))
def test_hosts_are_forgotten_as_in_a_model(found, seed):
    """The model has the time of each host's last frame. At random, hosts send, are counted, move or
    belong to a job, and a switch disconnects and connects."""
    rng = random.Random(seed)
    now, alive, counts, disconnected, ticked = 0.0, {}, {}, False, SETTLE
    for _ in range(400):
        now += rng.choice([1.0, 20.0, EXPIRY / 3])
        mac, port = HOST + rng.randrange(6), (rng.choice([1, 2]), rng.randrange(1, 4))
        event = rng.randrange(5)
        if event == 0 and not (disconnected and port[0] == 2):
            found.hosts.learn(port, mac, now)
            alive[mac] = now
        elif event == 1 and mac in alive:
            at = found.graph.hosts[mac]
            known = (mac, at) in counts
            counts[mac, at] = counts.get((mac, at), 0) + rng.randrange(3)
            grown = found.hosts._frames.get((mac, at), 0) < counts[mac, at]
            found.hosts.counted({(mac, at): counts[mac, at]}, now)
            if known and grown:
                alive[mac] = now
        elif event == 2:
            disconnected = not disconnected
            if disconnected:
                found.lose_switch(2)
            else:
                found.add_switch(2, [1, 2, 3], now)
                found.tick(now + 1)
                missed = max(0.0, now + 1 - ticked - ATTENTIVE)
                alive = {each: at + missed for each, at in alive.items()}
                ticked = now + 1
        keep = {HOST} if rng.random() < 0.3 else set()
        for each in alive:
            if each in keep or (disconnected and found.graph.hosts[each][0] == 2):
                alive[each] = now
        gone = {each for each, last in alive.items() if now - last > EXPIRY}
        assert set(found.hosts.expire(now, keep)) == gone
        for each in gone:
            del alive[each]
            counts = {k: n for k, n in counts.items() if k[0] != each}
        counts = {k: n for k, n in counts.items() if found.graph.hosts.get(k[0]) == k[1]}
        assert found.graph.hosts.keys() == alive.keys()
