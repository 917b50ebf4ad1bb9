# SPDX-License-Identifier: BSD-3-Clause
"""The controller: keeps what switches are told equal to what program.py computes.

A thin shell around pure parts. Switches connect and are taken over as they are: what another
controller of ours has left in them stays until everything is known, and then only differences are
written. A change is made before the old is broken: new groups and rules first, everywhere; then
rules whose action changes; then what is not wanted any more goes; a barrier on every switch
between these. A tree that moves is first cut down to what stays of it, everywhere: parts of two
trees could make a loop. What a switch refuses is sent again when something has gone from it, and
after a while.
"""

import asyncio
import contextlib
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from ..errors import HikyakuError
from . import codec, rules
from .away import assumed
from .discovery import EXPIRY, LOST_AFTER, PROBE_EVERY, SETTLE, Discovery, port_name
from .leases import Leases
from .network import Job, Network
from .noise import RATE, Noise
from .openflow import Channel, Gone, describe
from .program import compute, learned, trunk
from .rules import Key, Program
from .store import Store
from .switch import Switch, ours
from .tag import to_mac

CALM = 0.05  # seconds between two looks
WAIT_FOR_SWITCHES = 10.0  # seconds for those to come that the controller before had
AWAY_LIMIT = 10.0  # then traffic leaves a switch that is away, where there is another way
STATS_EVERY = 2.0
HOSTS_EVERY = 30.0
LISTEN_BACKLOG = 256
RETRY_FIRST, RETRY_MAX = 1.0, 64.0  # seconds until what a switch refused is sent again
REFUSED_MAX = 64  # switches that are not used, and why; the latest
_PACKET_OUT = bytes([of.OFPT_PACKET_OUT])
EARLY_MAX = 4096  # port changes kept while a switch is taken over


class Controller:
    def __init__(
        self,
        store: Store,
        say: Callable[[str], None],
        *,
        clock=time.monotonic,
        host_expiry: float = EXPIRY,
    ):
        self.network = Network()
        self.store = store
        self.clock = clock
        self.events: deque[tuple[float, str]] = deque(maxlen=200)
        self._print = say
        self.discovery = Discovery(self.network.graph, store.key(), self.say, expiry=host_expiry)
        self._elsewhere: set[tuple[int, tuple[int, int]]] = set()  # said: a rank's address, where
        self.noise = Noise()
        self.network.quiet = self.noise.quiet
        self.switches: dict[int, Switch] = {}
        self.away: dict[int, tuple[Switch, float]] = {}  # as they were, and since when
        self._passed_by: set[int] = set()  # those that are away for long
        self._taking_over: dict[int, float] = {}  # nothing is written to these yet; since when
        self.refused: dict[str, str] = {}  # switches that lack something, and what
        self.jobs: dict[int, Job] = {}
        self.counts: Counter[str] = Counter()
        self.lost: asyncio.Future | None = None  # why the controller has to end
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._unsaved = False
        self.wanted: dict[int, Program] = {}
        self._written: dict[int, dict[int, int]] = {}  # of each job: ranks, with their addresses
        self._started = self._incomplete = clock()
        self.jobs, self.network.graph.hosts, self._assumed, self._links = store.load()
        self.discovery.assume(self._assumed, self._links)
        self.away = {s: (Switch(s, None), self._started) for s in self.network.graph.away}
        self.leases = Leases(time.monotonic())
        for job in self.jobs.values():
            self.renew(job)

    def say(self, text: str) -> None:
        self.events.append((time.time(), text))
        self._print(text)

    # ---- life ---------------------------------------------------------------------------------

    async def run(
        self, listening: list, tls: ssl.SSLContext | None, ready: Callable[[], None]
    ) -> None:
        """@listening: sockets that switches connect to. Until cancelled, or until another
        controller takes over, which raises."""
        self.lost = asyncio.get_running_loop().create_future()
        servers = [
            await asyncio.start_server(self._connected, sock=s, ssl=tls, backlog=LISTEN_BACKLOG)
            for s in listening
        ]
        tasks = [
            asyncio.create_task(each())
            for each in (
                self._probing,
                self._updating,
                self._counting,
                self._watching_role,
                self._ending_leases,
                *([self._forgetting] if self.discovery.expiry else []),
            )
        ]
        try:
            ready()
            done, _ = await asyncio.wait([*tasks, self.lost], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for server in servers:
                server.close()
            for switch in list(self.switches.values()):
                switch.channel.close()
            self.keep()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, self._told)
        tasks = []
        try:
            await channel.run(lambda: tasks.append(asyncio.create_task(self._admit(channel))))
        except Gone as gone:
            self._ended(channel, channel.failed or str(gone))
        finally:
            for task in tasks:
                task.cancel()

    def _ended(self, channel: Channel, why: str) -> None:
        if switch := self._switch(channel):
            self.say(why)
            self._lost(switch)
        elif not channel.admitted:  # else its switch has another one already
            # one that comes again and again with the same is said once
            if self.refused.pop(channel.name, None) != why:
                self.say(why)
            self.refused[channel.name] = why
            if len(self.refused) > REFUSED_MAX:
                del self.refused[next(iter(self.refused))]

    def _lost(self, switch: Switch) -> None:
        """It forwards by what is in it: nothing changes, but that nobody can tell it anything."""
        del self.switches[switch.number]
        self.discovery.lose_switch(switch.number)
        if self._taking_over.pop(switch.number, None) is not None:
            self._changed()  # who waits for it waits no more
        if switch.number in self.network.graph.away:
            self.away[switch.number] = (switch, self.clock())
            self.network.frozen[switch.number] = switch.rules

    def _switch(self, channel: Channel) -> Switch | None:
        return next((s for s in self.switches.values() if s.channel is channel), None)

    async def _admit(self, channel: Channel) -> None:
        """Takes a switch over, and what it and the controller before know of the network."""
        try:
            switch = await Switch.taken_over(channel)
        except Exception as bad:  # whatever it has answered
            why = bad if isinstance(bad, HikyakuError) else f"its answers make no sense: {bad!r}"
            channel.failed = f"{channel.name} is not used: {why}"
            channel.close()
            return
        old = self.switches.get(switch.number)
        if old:  # it comes again before its old connection has ended
            old.channel.abort(f"{channel.name} has connected again")
            self._lost(old)
        self.refused.clear()  # the others come again, and say it again
        self.switches[switch.number] = switch
        channel.admitted = True
        self._know(switch)
        for message in channel.early:
            self._told(channel, message)
        channel.early.clear()
        self.say(f"{channel.name} is connected, {len(switch.ports)} ports are up")
        self._probe(switch)
        self._save()
        self._changed()

    def _know(self, switch: Switch) -> None:
        """What it has itself of the network, with what was known of it."""
        number, now = switch.number, self.clock()
        self._taking_over[number] = now
        self.network.frozen.pop(number, None)
        known = learned(switch.rules)
        if away := self.away.pop(number, None):
            before = away[0].ports
            for port in [p for p, name in switch.ports.items() if before.get(p, name) != name]:
                self.discovery.port_down((number, port))  # another one, by the number of the old
        self.discovery.add_switch(number, switch.ports, now, known.trunks)
        known.into(self.network, number)

    async def _watching_role(self) -> None:
        """Whoever came last is the master of a switch. One that is not any more ends: two that
        write into the same switches would undo each other's work."""
        while True:
            await asyncio.sleep(STATS_EVERY)
            for switch in list(self.switches.values()):
                with contextlib.suppress(Gone):
                    if await switch.has_another_master():
                        self._displaced(switch)

    def _displaced(self, switch: Switch) -> None:
        if not self.lost.done():
            self.lost.set_exception(
                HikyakuError(
                    f"another controller is the master of {switch.channel.name} now",
                    "run one controller at a time; the one that was started last has the network",
                )
            )

    # ---- what switches tell -------------------------------------------------------------------

    def _told(self, channel: Channel, message: object) -> None:
        switch = self._switch(channel)
        if switch is None:
            if isinstance(message, parser.OFPPortStatus) and len(channel.early) < EARLY_MAX:
                channel.early.append(message)
            return
        if isinstance(message, parser.OFPPacketIn):
            self._frame(switch, message)
        elif isinstance(message, parser.OFPPortStatus):
            self._port(switch, message)
        elif isinstance(message, parser.OFPErrorMsg):
            self._failed(switch, message)

    def _port(self, switch: Switch, message: parser.OFPPortStatus) -> None:
        number = message.desc.port_no
        name = switch.ports.get(number)  # of one that goes
        up = switch.port(message.desc, gone=message.reason == of.OFPPR_DELETE)
        if up is None:
            return
        port = (switch.number, number)
        if up:
            self.say(f"switch {switch.number} port {number} ({switch.ports[number]}) is up")
            self.discovery.port_up(port, self.clock())
            self._probe(switch)
        else:
            self.say(f"switch {switch.number} port {number} ({name}) is down")
            self.discovery.port_down(port)
            self.noise.forget([port])
        self._changed()

    def _frame(self, switch: Switch, message: parser.OFPPacketIn) -> None:
        self.counts["packet_in"] += 1
        port = (switch.number, message.match.get("in_port", 0))
        now = self.clock()
        if port[1] not in switch.ports:
            return
        if not self.noise.heard(port, now):
            self._noisy(port, now)
            return
        frame = bytes(message.data)
        if len(frame) < 14:
            return
        if int.from_bytes(frame[12:14], "big") == rules.LLDP_TYPE:
            changed = self.discovery.heard_probe(port, frame, now)
        else:
            source = int.from_bytes(frame[6:12], "big")
            if self._rank_elsewhere(source, port):
                return
            changed = self.discovery.heard_host(port, source, now)
            if changed:
                self._save()
        if changed:
            self._changed()

    def _noisy(self, port: tuple[int, int], now: float) -> None:
        """What is heard from links is ours alone, and not so much."""
        self.counts["too_much"] += 1
        if port in self.network.graph.links:
            return
        pause = self.noise.exceeded(port, now)
        if pause:
            self.say(
                f"{port_name(port)}: more than {RATE:g} frames a second from hosts that are not "
                f"known; not looked at for {pause:g} s"
            )
            self._changed()

    def _rank_elsewhere(self, source: int, port: tuple[int, int]) -> bool:
        """Does a frame claim to come from a rank that is at another port, which is up? Somebody
        wants its traffic, or its right to send tags."""
        graph = self.network.graph
        at = graph.hosts.get(source)
        if at in (None, port) or at[1] not in graph.ports.get(at[0], ()):
            return False
        job = next((j for j in self.jobs.values() if source in j.ranks.values()), None)
        if job is None:
            return False
        self.counts["rank_elsewhere"] += 1
        if (source, port) not in self._elsewhere:
            self._elsewhere.add((source, port))
            self.say(
                f"{port_name(port)}: frames from {to_mac(source)}, which is a rank of job "
                f"{job.number} at {port_name(at)}: not believed; if its host has moved, end the "
                "job, or take the port down where it was"
            )
        return True

    def _failed(self, switch: Switch, message: parser.OFPErrorMsg) -> None:
        what = describe(message)
        self.counts["errors"] += 1
        if message.type == of.OFPET_BAD_REQUEST and message.code == of.OFPBRC_IS_SLAVE:
            self._displaced(switch)
            return
        if message.data[1:2] == _PACKET_OUT:
            # a probe: the port has gone since, which is said anyway
            if (message.type, message.code) != (of.OFPET_BAD_ACTION, of.OFPBAC_BAD_OUT_PORT):
                self.say(f"switch {switch.number} refused to send a probe: {what}")
            return
        taken = (message.type, message.code) == (of.OFPET_GROUP_MOD_FAILED, of.OFPGMFC_GROUP_EXISTS)
        switch.refuses(message.xid, what, taken=taken)
        switch.failed = True
        if switch.problem != what:
            switch.problem = what
            full = (
                message.type == of.OFPET_FLOW_MOD_FAILED and message.code == of.OFPFMFC_TABLE_FULL
            )
            self.say(
                f"switch {switch.number} refused a rule: {what}"
                + (
                    "; its flow table is full: what found no room is not routed by its tag"
                    if full
                    else ""
                )
            )

    # ---- regular work -------------------------------------------------------------------------

    async def _probing(self) -> None:
        last = 0.0
        while True:
            now = self.clock()
            every = SETTLE / 3 if self.discovery.undecided(now) else PROBE_EVERY
            if now - last >= every:
                last = now
                for switch in list(self.switches.values()):
                    self._probe(switch)
            if self.discovery.tick(now):
                self._changed()
            self._look_after(now)
            await asyncio.sleep(0.1)

    def _look_after(self, now: float) -> None:
        """Switches whose ports have settled after they came, and those that do not come back."""
        waiting = {s for s, _ in self.discovery.undecided(now)}
        # links by its rules, whose other end has not come yet
        waiting |= {
            s
            for s, p in self.discovery.severed()
            if s in self.switches and trunk(p) in self.switches[s].rules
        }
        for number, since in list(self._taking_over.items()):
            settled = number not in waiting and now - since >= SETTLE
            if settled or now - since >= WAIT_FOR_SWITCHES:
                self._say_severed(self.switches[number])
                del self._taking_over[number]
                self._changed()
        if self.away or not self._assumed:
            self._incomplete = now
        elif now - self._incomplete > LOST_AFTER:
            self.discovery.doubt(now)
        if self.noise.over(now):
            self._changed()
        for number in self.away.keys() - self.network.graph.away:  # forgotten
            del self.away[number]
            self.network.frozen.pop(number, None)
        overdue = {n for n, (_, since) in self.away.items() if now - since >= AWAY_LIMIT}
        if overdue - self._passed_by:
            self._changed()
        self._passed_by = overdue

    def _say_severed(self, switch: Switch) -> None:
        ports = [p for s, p in self.discovery.severed() if s == switch.number]
        ports = [str(p) for p in ports if trunk(p) in switch.rules]
        if ports:
            self.say(
                f"switch {switch.number} port {', '.join(ports)}: was a link, by the switch's "
                "rules, and leads to no switch that is here: not used; if hosts are there now, "
                "take it down and up"
            )

    def _probe(self, switch: Switch) -> None:
        now = self.clock()
        ports = self.discovery.probed_ports({switch.number: set(switch.ports)})
        for port in ports:
            switch.channel.send(
                parser.OFPPacketOut(
                    codec.DESC,
                    of.OFP_NO_BUFFER,
                    of.OFPP_CONTROLLER,
                    [parser.OFPActionOutput(port[1])],
                    self.discovery.probe(port, now),
                )
            )

    async def _counting(self) -> None:
        """The load of links, from the counters of ports."""
        while True:
            for switch in list(self.switches.values()):
                with contextlib.suppress(Gone):
                    ask = parser.OFPPortStatsRequest(codec.DESC, 0, of.OFPP_ANY)
                    parts = await switch.channel.request(ask)
                    stats = [s for part in parts for s in part.body]
                    for port, rate in switch.rates(stats, self.clock()).items():
                        self.network.load[switch.number, port] = rate
            await asyncio.sleep(STATS_EVERY)

    async def _forgetting(self) -> None:
        """Asks who has sent, by the counters of the rules that let hosts in, and forgets who has
        not. A rank's host stays as long as its job does."""
        expiry = self.discovery.expiry
        while True:
            await asyncio.sleep(max(1.0, min(HOSTS_EVERY, expiry / 4)))
            for switch in list(self.switches.values()):
                with contextlib.suppress(Gone):
                    parts = await switch.channel.request(ours(rules.ADMIT))
                    self._heard(switch, [s for part in parts for s in part.body])
            ranks = {mac for job in self.jobs.values() for mac in job.ranks.values()}
            if self.discovery.expire(self.clock(), ranks):
                self._save()
                self._changed()

    def _heard(self, switch: Switch, stats: list) -> None:
        frames: Counter[tuple[int, tuple[int, int]]] = Counter()
        for each in stats:
            with contextlib.suppress(codec.NotOurs):
                match = codec.flow_back(each, switch.numbers)[0].match
                if match.src is not None and match.in_port is not None:
                    frames[match.src, (switch.number, match.in_port)] += each.packet_count
        self.discovery.counted(frames, self.clock())

    async def _ending_leases(self) -> None:
        while True:
            await asyncio.sleep(1)
            for number in self.leases.expired(time.monotonic()):
                job = self.jobs[number]
                self.say(
                    f"job {number} ({job.name}) is taken away: its registrar has not been heard of "
                    f"for {job.lease} s"
                )
                self.remove_job(number)

    # ---- what they are told -------------------------------------------------------------------

    def _changed(self) -> None:
        self._news.set()
        self._idle.clear()

    def _save(self) -> None:
        """Before the next update: much that comes at once is written once."""
        self._unsaved = True

    def keep(self) -> None:
        """Writes what is new into the directory."""
        graph = self.network.graph
        if not self._unsaved and graph.links == self._links:
            return
        try:
            self.store.save(self.jobs, graph.hosts, self._remembered(), graph.links)
        except OSError as bad:
            self.say(f"cannot write {bad.filename or self.store.directory}: {bad.strerror}")
            return  # it is tried again with each update
        self._unsaved, self._links = False, dict(graph.links)

    def _remembered(self) -> set[int]:
        """The switches that the next controller is to wait for: those that this one still waits
        for are among them."""
        return self.switches.keys() | self.away.keys()

    def is_settled(self) -> bool:
        return self._idle.is_set()

    async def settled(self, limit: float = 20) -> None:
        """Returns when all that is known has been written into the switches."""
        await asyncio.wait_for(self._idle.wait(), limit)

    async def _updating(self) -> None:
        pause = RETRY_FIRST
        while True:
            again = any(s.refused for s in self.switches.values())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause if again else None)
            pause = RETRY_FIRST if self._news.is_set() else min(2 * pause, RETRY_MAX)
            while self._starting():
                await asyncio.sleep(CALM)
            self._news.clear()
            try:
                if await self._update():
                    self._news.set()
                    await asyncio.sleep(CALM)
            except Gone as gone:
                self.say(str(gone))
                self._news.set()
                await asyncio.sleep(CALM)
            if not self._news.is_set() and not self._taking_over:
                self._idle.set()

    def _starting(self) -> bool:
        """Nothing has been written yet, and what is there is not all known: ports may turn out to
        be links, and switches that the controller before this one had may still come."""
        if self.wanted:
            return False
        now = self.clock()
        waits = (self.away or self._taking_over) and now - self._started < WAIT_FOR_SWITCHES
        return bool(waits or self.discovery.undecided(now))

    async def _update(self) -> bool:
        """Returns whether to do it again at once, since what was refused may find room now."""
        self.keep()
        for number in self.away.keys() - self.network.frozen.keys():
            self.network.frozen[number] = assumed(self.network.graph, self.network.standing, number)
        self.wanted = compute(self.network, self.jobs.values())
        self.wanted |= {s: p for s, p in self.network.frozen.items() if s in self.wanted}
        self.counts["updates"] += 1
        located = {job.number: self._to_be_reached(job) for job in self.jobs.values()}
        switches = [
            s
            for s in self.switches.values()
            if s.number in self.wanted and s.number not in self._taking_over
        ]

        async def everywhere(step: Callable[[Switch, Program], bool]) -> None:
            await self._barriers([s for s in switches if step(s, self.wanted[s.number])])

        await everywhere(Switch.prepare)
        await everywhere(Switch.add)
        await everywhere(Switch.change)
        held = {
            key: None if s.number in self._taking_over else s.name
            for s in self.switches.values()
            for key in s.uncut(self.wanted.get(s.number, {}))
        }
        await everywhere(lambda switch, program: switch.grow(program, held))
        await everywhere(Switch.remove)
        again = [s.answered(self.wanted[s.number]) for s in switches]
        if not self._taking_over:
            self._written = located
        return any(again)

    async def _barriers(self, switches: list[Switch]) -> None:
        """Returns when all have done what they were sent. One that does not say so is let go: what
        it has is not known, and the next steps rely on it. Then all is computed anew."""
        results = await asyncio.gather(
            *(s.channel.barrier() for s in switches), return_exceptions=True
        )
        gone = None
        for switch, result in zip(switches, results, strict=True):
            if isinstance(result, Gone):
                switch.channel.abort(str(result))
                gone = result
            elif isinstance(result, BaseException):
                raise result
        if gone:
            raise gone

    # ---- jobs ---------------------------------------------------------------------------------

    def refused_rules(self, job: int) -> dict[int, dict[Key, str]]:
        """Of @job, by switch: what that has refused in the last update that is done, and why."""
        found = {s.number: s.refused_of(job, self.wanted) for s in self.switches.values()}
        return {switch: keys for switch, keys in found.items() if keys}

    def _to_be_reached(self, job: Job) -> dict[int, int]:
        """Ranks, with their addresses, that have rules when all have been written: one at a switch
        that is away has those from before, if any."""
        before = self._written.get(job.number, {})
        return {
            rank: job.ranks[rank]
            for rank, (switch, _) in self.network.located(job).items()
            if switch not in self.away or before.get(rank) == job.ranks[rank]
        }

    def reached(self, job: Job) -> set[int]:
        """The ranks whose host is known, with rules for them in the switches."""
        written = self._written.get(job.number, {})
        return {r for r in self.network.located(job) if written.get(r) == job.ranks[r]}

    def set_job(self, job: Job) -> None:
        self.jobs[job.number] = job
        self.renew(job)
        self._save()
        self._changed()

    def renew(self, job: Job) -> None:
        if job.lease is not None:
            self.leases.renew(job.number, job.lease)

    def remove_job(self, number: int) -> None:
        ranks = set(self.jobs.pop(number).ranks.values())
        self._elsewhere = {each for each in self._elsewhere if each[0] not in ranks}
        self.leases.drop(number)
        self._save()
        self._changed()
