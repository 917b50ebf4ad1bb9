# SPDX-License-Identifier: BSD-3-Clause
"""The controller: takes over switches, handles their messages, and keeps them up to date.

A thin shell around pure parts. A switch that connects is taken over with its rules. Those of an
earlier controller stay until the network is known; then only differences are written (update.py).
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from ..errors import HikyakuError
from . import codec, rules
from .certificates import Datapaths, names_of
from .counting import STATS_EVERY, Counting
from .discovery import LOST_AFTER, PROBE_EVERY, SETTLE
from .exact import is_tag
from .hosts import port_name
from .listener import Listener
from .lldp import own_tlv
from .noise import RATE
from .openflow import Channel, Gone, describe
from .program import learned, trunk
from .switch import Switch
from .tag import to_mac
from .update import CONFIRM_S, WAIT_FOR_SWITCHES

DISCONNECTED_LIMIT = 10.0  # seconds after which traffic avoids a disconnected switch, if it can
CONNECTING = 256  # connections of switches that have not been taken over
REFUSED_MAX = 64  # unusable switches that are remembered, with the reasons
_PACKET_OUT = bytes([of.OFPT_PACKET_OUT])
EARLY_MAX = 4096  # port changes that are stored while a switch is taken over
STOOD_STILL = 2.0  # seconds without a turn of this process, which the log tells


class Controller(Counting):
    """The connections of the switches, their messages, and the regular work."""

    _listeners: tuple[Listener, ...] = ()  # while it runs
    datapaths: Datapaths | None = None  # with TLS: which switch may be which
    _ending = False

    # ---- life ---------------------------------------------------------------------------------

    async def run(
        self, listening: list, tls: ssl.SSLContext | None, ready: Callable[[], None]
    ) -> None:
        """Runs until it is cancelled, or until another controller takes over, which raises.
        @listening: the sockets that switches connect to."""
        self.lost = asyncio.get_running_loop().create_future()
        self._listeners = tuple(
            Listener(s, self._accepted, strangers=CONNECTING, tls=tls) for s in listening
        )
        tasks = [
            asyncio.create_task(each())
            for each in (
                *(listener.run for listener in self._listeners),
                self._probing,
                self._updating,
                self._counting,
                self._watching_role,
                self._ending_leases,
                *([self._forgetting] if self.discovery.hosts.expiry else []),
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
            self._ending = True
            for switch in list(self.switches.values()):
                switch.channel.close()
            self.keep()

    def _accepted(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader()
        return asyncio.StreamReaderProtocol(reader, self._connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, self._told)
        if self.datapaths:
            names = names_of(writer.get_extra_info("peercert") or {})
            channel.check_claim = lambda number: self.datapaths.check(number, names)
        tasks = []
        try:
            await channel.run(lambda: tasks.append(asyncio.create_task(self._admit(channel))))
        except Gone as gone:
            self._ended(channel, channel.failed or str(gone))
        finally:
            for task in tasks:
                task.cancel()

    def _ended(self, channel: Channel, why: str) -> None:
        if self._ending:  # we close it
            return
        if switch := self._switch(channel):
            self.say(why)
            self._lost(switch)
        elif not channel.admitted:  # else its switch has another one already
            # a switch that connects again and again with the same error is reported once
            if self.refused.pop(channel.name, None) != why:
                self.say(why)
            self.refused[channel.name] = why
            if len(self.refused) > REFUSED_MAX:
                del self.refused[next(iter(self.refused))]

    def _lost(self, switch: Switch) -> None:
        """Its connection has ended. It goes on forwarding by its rules."""
        del self.switches[switch.number]
        self.discovery.lose_switch(switch.number)
        if self._taking_over.pop(switch.number, None) is not None:
            self._changed()  # the update waits for it no longer
        if switch.number in self.network.graph.disconnected:
            self.disconnected[switch.number] = (switch, self.clock())
            self.network.frozen[switch.number] = switch.rules

    def _switch(self, channel: Channel) -> Switch | None:
        return next((s for s in self.switches.values() if s.channel is channel), None)

    async def _admit(self, channel: Channel) -> None:
        """Takes a switch over, with its knowledge of the network."""
        try:
            switch = await Switch.taken_over(channel, exact=self.strays is not None)
        except Exception as bad:  # its answers may hold anything
            why = bad if isinstance(bad, HikyakuError) else f"its answers are invalid: {bad!r}"
            channel.failed = f"{channel.name} is not used: {why}"
            channel.close()
            return
        old = self.switches.get(switch.number)
        if old:  # it has connected again before its old connection ended
            old.channel.abort(f"{channel.name} has connected again")
            self._lost(old)
        self.refused.clear()  # unusable switches connect again, and are reported again
        self.switches[switch.number] = switch
        channel.admitted = True
        for listener in self._listeners:
            listener.known(channel.transport)
        self._know(switch)
        for message in channel.early:
            self._told(channel, message)
        channel.early.clear()
        self.say(f"{channel.name} is connected, {len(switch.ports)} ports are up")
        self._probe(switch)
        self._save()
        self._changed()

    def _know(self, switch: Switch) -> None:
        """Merges the switch's rules and ports into the known network."""
        number, now = switch.number, self.clock()
        self.names.learn_ports(switch.number, switch.ports)
        self._taking_over[number] = now
        self.network.frozen.pop(number, None)
        known = learned(switch.rules)
        if disconnected := self.disconnected.pop(number, None):
            before = disconnected[0].ports
            for port in [p for p, name in switch.ports.items() if before.get(p, name) != name]:
                self.discovery.port_down(
                    (number, port)
                )  # another port with the number of the old one
        self.discovery.add_switch(number, switch.ports, now, known.trunks)
        known.into(self.network, number)
        if self.strays:
            self.strays.know(known.tags)

    async def _watching_role(self) -> None:
        """Ends this controller when another one has become the master of a switch. Two controllers
        that write to the same switches would undo each other's work."""
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
                    f"another controller is the master of {self.switch_name(switch.number)} now",
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
        up = switch.port(message.desc, gone=message.reason == of.OFPPR_DELETE)
        if up is None:
            return
        port = (switch.number, number)
        if up:
            self.names.learn_ports(switch.number, switch.ports)
            self.say(f"{port_name(port)} is up")
            self.discovery.port_up(port, self.clock())
            self._probe(switch)
        else:
            self.say(f"{port_name(port)} is down")
            self.discovery.port_down(port)
            self.noise.forget([port])
        self._changed()

    def _frame(self, switch: Switch, message: parser.OFPPacketIn) -> None:
        self.counts["packet_in"] += 1
        port = (switch.number, message.match.get("in_port", 0))
        now = self.clock()
        if port[1] not in switch.ports:
            return
        frame = bytes(message.data)
        if len(frame) < 14:
            return
        if self.strays and is_tag(int.from_bytes(frame[:6], "big")):
            self._stray(port, frame, now)
            return
        if not self.noise.admits(port, now):
            self._noisy(port, now)
            return
        if int.from_bytes(frame[12:14], "big") == rules.LLDP_TYPE:
            changed = self.discovery.receive_probe(port, frame, now)
            if port not in self.network.graph.links and own_tlv(frame) is None:
                self.names.learn(frame)
        else:
            source = int.from_bytes(frame[6:12], "big")
            if self._rank_elsewhere(source, port):
                return
            changed = self.discovery.hosts.learn(port, source, now)
            if changed:
                self._save()
        if changed:
            self._changed()

    def _stray(self, port: tuple[int, int], frame: bytes, now: float) -> None:
        """A tagged frame found no rule by its whole address."""
        self.counts["strays"] += 1
        new, copies = self.strays.receive(port, frame, now)
        for (number, out), copy in copies:
            if switch := self.switches.get(number):
                switch.channel.send(codec.frame_out(out, copy))
        if new:
            self._changed()

    def _noisy(self, port: tuple[int, int], now: float) -> None:
        """A port has exceeded its rate. Ports of links are exempt: their frames are ours."""
        self.counts["too_much"] += 1
        if port in self.network.graph.links:
            return
        pause = self.noise.exceeded(port, now)
        if pause:
            self.say(
                f"{port_name(port)}: more than {RATE:g} frames a second from hosts that are not "
                f"known; ignored for {pause:g} s"
            )
            self._changed()

    def _rank_elsewhere(self, source: int, port: tuple[int, int]) -> bool:
        """Does a frame use the address of a rank at another port, which is up? A host that does so
        wants the rank's traffic, or its right to send tags."""
        graph = self.network.graph
        at = graph.hosts.get(source)
        if at in (None, port) or at[1] not in graph.ports.get(at[0], ()):
            return False
        job = next((j for j in self.jobs.values() if source in j.ranks.values()), None)
        if job is None:
            return False
        self.counts["rank_elsewhere"] += 1
        now = self.clock()
        self.discovery.hosts.hear(source, port, now)
        if source in self.discovery.hosts.bound:
            pass
        elif now - self._registered.get(source, -CONFIRM_S) < CONFIRM_S:
            self.network.disputed.add(source)
            self._changed()
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
            # a probe through a port that is gone; its end is reported anyway
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
                    "; its flow table is full: frames without a rule are not routed by their tag"
                    if full
                    else ""
                )
            )

    # ---- regular work -------------------------------------------------------------------------

    async def _probing(self) -> None:
        last, before = 0.0, self.clock()
        while True:
            now = self.clock()
            if now - before > STOOD_STILL:
                self.say(
                    f"the controller did not run for {now - before:.0f} s: the machine was busy, "
                    "or stopped this process"
                )
            before = now
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
        """Ends the take-over of settled switches, and marks those that stay disconnected."""
        waiting = {s for s, _ in self.discovery.undecided(now)}
        # links by its rules, whose other end has not connected yet
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
        if self._look_for_parts and not waiting and not self._taking_over:
            self._say_separated()
        if self.disconnected or not self._assumed:
            self._incomplete = now
        elif now - self._incomplete > LOST_AFTER:
            self.discovery.doubt(now)
        if self.noise.over(now):
            self._changed()
        self._end_disputes()
        for number in self.disconnected.keys() - self.network.graph.disconnected:  # forgotten
            del self.disconnected[number]
            self.network.frozen.pop(number, None)
        overdue = {
            n for n, (_, since) in self.disconnected.items() if now - since >= DISCONNECTED_LIMIT
        }
        if overdue - self._passed_by:
            self._changed()
        self._passed_by = overdue

    def _end_disputes(self) -> None:
        still = {mac for mac in self.network.disputed if self.rivals(mac)} & self._registered.keys()
        if still != self.network.disputed:
            self.network.disputed = still
            self._changed()

    def _say_severed(self, switch: Switch) -> None:
        ports = [each for each in self.discovery.severed() if each[0] == switch.number]
        ports = [port_name(each) for each in ports if trunk(each[1]) in switch.rules]
        if ports:
            self.say(
                f"{', '.join(ports)}: was a link, by the switch's rules, and leads to no switch "
                "that is here: not used; if hosts are there now, take it down and up"
            )

    def _probe(self, switch: Switch) -> None:
        now = self.clock()
        ports = self.discovery.probed_ports({switch.number: set(switch.ports)})
        for port in ports:
            switch.channel.send(codec.frame_out(port[1], self.discovery.probe(port, now)))

    async def _ending_leases(self) -> None:
        while True:
            await asyncio.sleep(1)
            for number in self.leases.expired(time.monotonic()):
                job = self.jobs[number]
                self.say(
                    f"job {number} ({job.name}) is removed: its registrar has been silent for "
                    f"{job.lease} s"
                )
                self.remove_job(number)
