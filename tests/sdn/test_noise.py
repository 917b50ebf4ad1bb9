# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that say too much: what the controller looks at, and what its switches are told."""

import random

import pytest
from networks import lldp
from os_ken.ofproto import ofproto_v1_3_parser as parser
from test_disconnected import Net

from hikyaku.errors import HikyakuError
from hikyaku.sdn import codec
from hikyaku.sdn.hosts import MOVES, MOVES_WITHIN, RIVAL_S, read_bindings
from hikyaku.sdn.network import Job
from hikyaku.sdn.noise import BURST, QUIET_FIRST, QUIET_MAX, RATE, Noise
from hikyaku.sdn.priorities import LLDP, NO_LLDP, UNKNOWN
from hikyaku.sdn.program import learned
from hikyaku.sdn.rules import ADMIT, CONTROLLER, Key, Match, Out
from hikyaku.sdn.tag import to_mac
from hikyaku.sdn.update import CONFIRM_S

PORT = (3, 7)


def used_up(noise: Noise, now: float) -> int:
    count = 0
    while noise.admits(PORT, now):
        count += 1
    return count


def test_a_bucket_has_a_burst_and_a_rate():
    noise = Noise()
    assert used_up(noise, 0.0) == BURST
    assert used_up(noise, 1.0) == RATE
    assert used_up(noise, 1000.0) == BURST
    assert noise.admits((3, 8), 1000.0), "each port has its own"


def test_a_port_is_quiet_for_longer_each_time():
    noise, now, pauses = Noise(), 0.0, []
    for _ in range(8):
        used_up(noise, now)
        pauses.append(noise.exceeded(PORT, now))
        assert noise.exceeded(PORT, now) is None
        assert not noise.admits(PORT, now + 5)
        assert noise.over(now + pauses[-1] - 0.1) == set()
        now += pauses[-1]
        assert noise.over(now) == {PORT}
    assert pauses[:3] == [QUIET_FIRST, 2 * QUIET_FIRST, 4 * QUIET_FIRST]
    assert pauses[-1] == QUIET_MAX
    now += 2 * QUIET_MAX
    used_up(noise, now)
    assert noise.exceeded(PORT, now) == QUIET_FIRST, "it was calm in between"


@pytest.fixture
def net(tmp_path) -> Net:
    return Net(tmp_path / "sdn")


def frame(net: Net, port: tuple[int, int], source: int, eth_type: int = 0x0800) -> None:
    message = parser.OFPPacketIn(codec.DESC, match=parser.OFPMatch(in_port=port[1]))
    message.data = bytes(6) + source.to_bytes(6, "big") + eth_type.to_bytes(2, "big") + bytes(46)
    net.c._told(net.c.switches[port[0]].channel, message)


def access(net: Net) -> tuple[int, int]:
    return min(net.wired.hosts.values())


def test_a_host_tells_its_name_by_lldp(net):
    message = parser.OFPPacketIn(codec.DESC, match=parser.OFPMatch(in_port=access(net)[1]))
    message.data = lldp(b"alpha", source=0x0200_0000_0001)
    net.c._told(net.c.switches[access(net)[0]].channel, message)
    assert net.c.names.name(0x0200_0000_0001) == "alpha"
    assert net.c.discovery.counts["foreign_lldp"] == 1


@pytest.mark.parametrize("eth_type", [0x0800, 0x88CC])
def test_random_sources_end_at_the_switch(net, eth_type):
    rng = random.Random(3)
    port = access(net)
    for _ in range(5 * BURST):
        frame(net, port, rng.randrange(1 << 47) & ~(1 << 40), eth_type)
    assert net.c.counts["too_much"] == 4 * BURST
    assert len([line for line in net.messages if "ignored for 10 s" in line]) == 1
    net.write()
    program = net.c.switches[port[0]].rules
    unknown = program[Key(ADMIT, UNKNOWN, Match(in_port=port[1]))]
    assert Out(CONTROLLER) not in unknown.actions
    assert unknown.actions, "but forwarded as before"
    mine = [k for k in program if k.priority == NO_LLDP]
    assert [k.match.in_port for k in mine] == [port[1]]
    assert program[mine[0]].actions == ()
    assert sum(k.priority == LLDP for k in program) == 1
    assert port[1] not in learned(program)[2]
    net.c._news.clear()
    for _ in range(int(QUIET_FIRST)):
        net.join()
        net.look(10)
    net.look(1)
    assert net.c._news.is_set()
    net.write()
    assert Out(CONTROLLER) in program[Key(ADMIT, UNKNOWN, Match(in_port=port[1]))].actions
    assert not [k for k in program if k.priority == NO_LLDP]
    assert net.c.network.graph.links == net.wired.links


def test_a_link_is_never_quiet(net):
    port = min(net.wired.links)
    for i in range(2 * BURST):
        frame(net, port, 0x0200_0000_0100 + i, 0x88CC)
    assert not net.c.noise.quiet


def test_an_address_at_two_ports_moves_a_few_times_and_is_said_once(net):
    mac, ports = min(net.wired.hosts), sorted(net.wired.hosts.values())[:2]
    for i in range(100):
        frame(net, ports[i % 2], mac)
    assert len([line for line in net.messages if "has moved" in line]) == MOVES
    assert len([line for line in net.messages if "two hosts have its address" in line]) == 1
    net.now += MOVES_WITHIN + 1
    for i in range(10):
        frame(net, ports[i % 2], mac)
    assert len([line for line in net.messages if "has moved" in line]) == 2 * MOVES


def test_a_rank_that_sends_from_elsewhere_is_said_once_and_how_it_may_move(net):
    mac, ports = min(net.wired.hosts), sorted(net.wired.hosts.values())
    net.c.set_job(Job(1, ranks={0: mac}))
    old = net.wired.hosts[mac]
    for port in ports[1:] * 3:
        frame(net, port, mac)
    assert net.c.network.graph.hosts[mac] == old
    lines = [line for line in net.messages if "not believed" in line]
    assert len(lines) == len(ports) - 1
    assert "a rank of job 1 at switch 3 port" in lines[0]
    assert "end the job, or take the port down" in lines[0]
    net.c.discovery.port_down(old)
    frame(net, ports[1], mac)
    assert net.c.network.graph.hosts[mac] == ports[1]
    net.c.remove_job(1)
    assert not net.c._elsewhere


def test_a_frame_in_the_name_of_a_host_gives_its_rank_to_nobody(net):
    """The attacker speaks before the rank registers."""
    mac, (right, wrong) = min(net.wired.hosts), sorted(net.wired.hosts.values())[:2]
    frame(net, wrong, mac)
    assert "was heard at switch" in net.c.rivals(mac)
    frame(net, right, mac)
    assert net.c.rivals(mac), "also after the host has spoken again"
    net.now += RIVAL_S + 1
    assert not net.c.rivals(mac)
    frame(net, wrong, mac)
    net.c.discovery.port_down(right)
    assert not net.c.rivals(mac), "it was moved there, by its cable"


def test_an_attacker_that_spoke_first_does_not_get_the_rank(net):
    """The rank shows itself elsewhere right after it registered, and is not located then."""
    mac, (right, wrong) = min(net.wired.hosts), sorted(net.wired.hosts.values())[:2]
    net.c.network.graph.hosts[mac] = wrong
    job = Job(1, ranks={0: mac})
    net.c.set_job(job)
    net.write()
    assert net.c.reached(job) == set(), "it may still show itself"
    frame(net, right, mac)
    net.now += 2 * CONFIRM_S
    net.write()
    assert (net.c.network.located(job), net.c.reached(job)) == ({}, set())
    net.now += RIVAL_S
    net.c._end_disputes()
    net.write()
    assert net.c.reached(job) == {0}


def test_a_rank_that_was_confirmed_stays(net):
    mac, (right, wrong) = min(net.wired.hosts), sorted(net.wired.hosts.values())[:2]
    net.c.network.graph.hosts[mac] = right
    job = Job(1, ranks={0: mac})
    net.c.set_job(job)
    net.now += 2 * CONFIRM_S
    net.write()
    frame(net, wrong, mac)
    assert net.c.reached(job) == {0}
    assert net.c.network.located(job) == {0: right}


def test_a_bound_address_is_believed_at_its_port_only(net, tmp_path):
    mac, (right, wrong) = min(net.wired.hosts), sorted(net.wired.hosts.values())[:2]
    path = tmp_path / "hosts"
    path.write_text(f"# ours\n{to_mac(mac)} {right[0]:#x} {right[1]}\n")
    net.c.network.graph.hosts[mac] = wrong
    net.c.discovery.hosts.bind(read_bindings(path))
    assert mac not in net.c.network.graph.hosts
    for port in (wrong, right, wrong):
        frame(net, port, mac)
    assert net.c.network.graph.hosts[mac] == right
    assert not net.c.rivals(mac)
    assert len([line for line in net.messages if "which is bound to" in line]) == 1
    for line in ("x 1 2", "02:00:00:00:00:01 1", "02:00:00:00:00:01 one 2"):
        path.write_text(line)
        with pytest.raises(HikyakuError, match="line 1 is not an address"):
            read_bindings(path)
