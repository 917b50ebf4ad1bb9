# SPDX-License-Identifier: BSD-3-Clause
"""The counters of switches, which the controller reads regularly: for the loads of links, to
balance traffic, and to forget silent hosts."""

import asyncio
import contextlib
from collections import Counter

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from . import codec, rules
from .hosts import port_name
from .openflow import Gone
from .priorities import HOST
from .switch import Switch, ours
from .tag import to_mac
from .update import Updates

STATS_EVERY = 2.0
HOSTS_EVERY = 30.0


class Counting(Updates):
    """The part of the controller that reads counters."""

    async def _counting(self) -> None:
        """Measures the load of links by the counters of their ports, and balances by it."""
        while True:
            for switch in list(self.switches.values()):
                with contextlib.suppress(Gone):
                    ask = parser.OFPPortStatsRequest(codec.DESC, 0, of.OFPP_ANY)
                    parts = await switch.channel.request(ask)
                    stats = [s for part in parts for s in part.body]
                    for port, rate in switch.rates(stats, self.clock()).items():
                        self.network.load[switch.number, port] = rate
            await self._balance()
            await asyncio.sleep(STATS_EVERY)

    async def _balance(self) -> None:
        """Moves hosts from loaded ports to equal ones."""
        for number in self.balancer.round(self.network):
            switch = self.switches.get(number)
            if switch is None:
                continue
            with contextlib.suppress(Gone):
                parts = await switch.channel.request(ours(rules.FORWARD, job=0))
                stats = [s for part in parts for s in part.body if s.priority == HOST]
                self.balancer.counted(number, _bytes(stats), self.clock())
        for move in self.balancer.moves(self.network, self.clock()):
            self.counts["balanced"] += 1
            self.say(
                f"traffic to {to_mac(move.host)}, {move.rate / 1e6:.1f} Mbit/s, leaves by "
                f"{port_name((move.switch, move.new))} now, which has less load than port "
                f"{move.old}"
            )
            self._changed()

    async def _forgetting(self) -> None:
        """Forgets silent hosts, by the counters of the rules that admit them. The host of a rank
        stays as long as its job does."""
        expiry = self.discovery.hosts.expiry
        while True:
            await asyncio.sleep(max(1.0, min(HOSTS_EVERY, expiry / 4)))
            for switch in list(self.switches.values()):
                with contextlib.suppress(Gone):
                    parts = await switch.channel.request(ours(rules.ADMIT))
                    self._count_frames(switch, [s for part in parts for s in part.body])
            ranks = {mac for job in self.jobs.values() for mac in job.ranks.values()}
            if self.discovery.hosts.expire(self.clock(), ranks):
                self._save()
                self._changed()

    def _count_frames(self, switch: Switch, stats: list) -> None:
        frames: Counter[tuple[int, tuple[int, int]]] = Counter()
        for each in stats:
            with contextlib.suppress(codec.NotOurs):
                match = codec.flow_back(each, switch.numbers)[0].match
                if match.src is not None and match.in_port is not None:
                    frames[match.src, (switch.number, match.in_port)] += each.packet_count
        self.discovery.hosts.counted(frames, self.clock())


def _bytes(stats: list) -> dict[int, int]:
    """The bytes that a switch has sent to each host."""
    found = {}
    for each in stats:
        with contextlib.suppress(codec.NotOurs):
            found[codec.key_back(each).match.dst] = each.byte_count
    return found
