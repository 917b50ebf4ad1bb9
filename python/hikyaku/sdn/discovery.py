# SPDX-License-Identifier: BSD-3-Clause
"""What the network looks like, learned from frames: links from LLDP that we send ourselves, hosts
from what they send.

Pure: time is an argument, frames are bytes. A probe carries who sent it and a number that is used
once, and a keyed hash (HMAC-SHA256) over both, so nobody else can make one; what was heard before,
or is late, counts for nothing; and where hosts were heard, none is believed, since a host could
hand on what it got. A link is believed when a probe has come through each way. IEEE 802.1AB has
the format of LLDP.
"""

import hashlib
import hmac
import secrets
import struct
from collections import Counter
from collections.abc import Callable, Iterable

from .graph import Graph
from .rules import LLDP_ADDRESS, LLDP_TYPE, MULTICAST
from .tag import PREFIX, PREFIX_MASK, to_mac

PROBE_EVERY = 1.0  # seconds
SETTLE = 0.6  # a port that has answered no probe for so long leads to hosts
# A link whose probes do not arrive any more. That a cable is cut, the switches say at once: this is
# for links that lead nowhere without a word. A switch short of CPU delays probes for seconds.
LOST_AFTER = 10.5
ROUND_TRIP = 3.0  # how long a probe may take, from us to us
ONE_WAY = 3.0  # probes that come through one way only for so long are said
ATTENTIVE = 0.5  # more time than this between two ticks we did not look, or the clock was set
EXPIRY = 300.0  # a host that has sent nothing for so long is forgotten, as bridges do

_SOURCE = 0x0268_6B79_0001  # locally administered; any will do
_OUI = b"\x02hk"  # of the TLV that is our own: locally administered, so nobody's
_TLV = struct.Struct("!QI8sQ")  # switch, port, which run of a controller, its how manieth probe
_HASH = 16  # bytes of it
MAX_HOSTS_PER_PORT = 256
MOVES, MOVES_WITHIN = 4, 20.0  # a host moves so often at most in so many seconds

Port = tuple[int, int]


def port_name(port: Port) -> str:
    return f"switch {port[0]} port {port[1]}"


class Discovery:
    """Keeps @graph. @say is told what an operator should know."""

    def __init__(
        self, graph: Graph, key: bytes, say: Callable[[str], None], *, expiry: float = EXPIRY
    ):
        """@expiry: seconds; 0: hosts are never forgotten."""
        self.graph = graph
        self.expiry = expiry
        self.counts: Counter[str] = Counter()  # of what was refused
        self._key = key
        self._say = say
        self._known: set[tuple[Port, Port]] = set()  # links that there were, the lower end first
        self._unsettled: dict[Port, float] = {}  # up, and what it leads to is not known yet
        # Up, and links before: nobody's until a probe arrives or the port goes down. With the
        # switch that such a port led to, if that is away.
        self._severed: dict[Port, int | None] = {}
        self._unproven: set[Port] = set()  # links by what was written down, before any probe
        self._heard: dict[Port, float] = {}  # when the last probe came into this port
        self._run = secrets.token_bytes(8)
        self._probes = 0
        self._under_way: dict[int, tuple[Port, float]] = {}  # probes, from where, since when
        # ports into which probes came that were sent from another, since when, and the last one
        self._half: dict[Port, tuple[Port, float, float]] = {}
        self._ticked: float | None = None  # the last time
        self._warned: Counter[tuple[str, Port]] = Counter()
        self._sent: dict[int, float] = {}  # when each host was last heard
        self._moves: dict[int, list[float]] = {}  # when each host has moved of late
        self._frames: dict[tuple[int, Port], int] = {}  # what switches had counted of it

    # ---- ports --------------------------------------------------------------------------------

    def add_switch(
        self, switch: int, ports: Iterable[int], now: float, trunks: Iterable[int] = ()
    ) -> None:
        """One that is connected, for the first time or again: it may have gone on forwarding all
        the while, so what was known of its ports still counts. @trunks: those that its own rules
        take for links."""
        graph = self.graph
        if switch not in graph.ports:
            graph.add_switch(switch, ())
        graph.set_away(switch, False)
        known = graph.ports[switch] | {
            p for s, p in [*self._severed, *self._unsettled] if s == switch
        }
        for port in known.difference(ports):
            self.port_down((switch, port))
        for port in ports:
            end = (switch, port)
            if end in graph.links:  # its probes are to come again
                self._heard[end] = self._heard[graph.links[end]] = now
            elif port not in known and port in trunks:
                self._severed[end] = None
                self._unproven.add(end)
            elif port not in known:
                self._unsettled[end] = now
        for end in [end for end, far in self._severed.items() if far == switch]:
            del self._severed[end]
            self._unsettled[end] = now

    def assume(self, switches: Iterable[int], links: dict[Port, Port]) -> None:
        """What an earlier controller has written down, until it is seen: switches, as if they were
        away, and their links. The hosts in the graph are at their ports."""
        graph = self.graph
        ends = links.keys() | set(graph.hosts.values())
        for switch in switches:
            graph.add_switch(switch, [p for s, p in ends if s == switch])
            graph.set_away(switch, True)
        for a, b in links.items():
            if a < b:
                graph.add_link(a, b)
                self._known.add((a, b))
        self._unproven |= links.keys()

    def lose_switch(self, switch: int) -> None:
        """Its connection has ended. It forwards as before, for all that we know; if it has died,
        its neighbours say that their ports are down."""
        if any(end[0] == switch for end in self.graph.links) or self.graph.ports.get(switch):
            self.graph.set_away(switch, True)
        else:
            self._forget_switch(switch)
        self._unsettled = {p: t for p, t in self._unsettled.items() if p[0] != switch}

    def _forget_switch(self, switch: int) -> None:
        self.graph.remove_switch(switch)
        self._severed = {
            p: None if far == switch else far for p, far in self._severed.items() if p[0] != switch
        }

    def port_up(self, port: Port, now: float) -> None:
        far = next((b if a == port else a for a, b in self._known if port in (a, b)), None)
        if far is not None and far[0] in self.graph.away:
            self._severed[port] = far[0]  # it cannot tell us of our probes
        elif port[1] not in self.graph.ports[port[0]]:
            self._unsettled.setdefault(port, now)

    def port_down(self, port: Port) -> None:
        """What it was linked to is nobody's: that port may be up, and a frame of ours come out."""
        other = self.graph.links.get(port)
        for end in (port, other) if other else (port,):
            self._unsettled.pop(end, None)
            self._severed.pop(end, None)
            self._heard.pop(end, None)
            self._unproven.discard(end)
            self._half = {a: half for a, half in self._half.items() if end not in (a, half[0])}
            self.graph.port_down(*end)
        if other is None:
            return
        self._severed[other] = None
        away = other[0] in self.graph.away
        if away and not any(end[0] == other[0] for end in self.graph.links):
            self._say(f"switch {other[0]} is away, and all links to it are down: forgotten")
            self._forget_switch(other[0])

    def severed(self) -> list[Port]:
        """Ports that were links, and that nothing is known of."""
        return sorted(self._severed)

    def doubt(self, now: float) -> None:
        """All switches are there, and have been for long: what is still silent, and was a link only
        by what was written down, may be a port of hosts."""
        for end in self._unproven & self._severed.keys():
            del self._severed[end]
            self._unproven.discard(end)
            self._unsettled[end] = now

    def unsettled(self) -> list[Port]:
        return sorted(self._unsettled)

    def undecided(self, now: float) -> set[Port]:
        """What these lead to is being found out."""
        half = {
            end
            for port, (other, since, _) in self._half.items()
            if now - since < ONE_WAY
            for end in (port, other)
        }
        return half | self._unsettled.keys()

    def tick(self, now: float) -> bool:
        """Lets ports settle and links age; says whether the graph has changed."""
        changed = False
        self._count_attention(now)
        for port, since in list(self._unsettled.items()):
            if now - since >= SETTLE:
                del self._unsettled[port]
                self.graph.port_up(*port)
                changed = True
        for end, other in list(self.graph.links.items()):
            if {end[0], other[0]} & self.graph.away:
                continue  # who cannot speak is not silent
            if end in self.graph.links and now - self._heard.get(end, now) > LOST_AFTER:
                self._say(
                    f"link {port_name(other)} to {port_name(end)} is silent: not used; if hosts "
                    "are there now, take its ports down and up"
                )
                unproven = {end, other} & self._unproven
                self.port_down(end)
                self._severed[end] = None  # up all the same
                self._unproven |= unproven
                changed = True
        for port, (other, since, last) in list(self._half.items()):
            if now - last > LOST_AFTER:
                del self._half[port]
            elif now - since > ONE_WAY:
                self._refuse(
                    "one_way", port, f"from {port_name(other)}, and none arrives there from here"
                )
        while self._under_way:
            first = next(iter(self._under_way))
            if now - self._under_way[first][1] <= ROUND_TRIP:
                break
            del self._under_way[first]
        return changed

    def _count_attention(self, now: float) -> None:
        """While we did not run, what came waits unread: nobody was silent for that."""
        missed = now - self._ticked - ATTENTIVE if self._ticked is not None else 0
        self._ticked = now
        if missed > 0:
            self._heard = {port: at + missed for port, at in self._heard.items()}
            self._sent = {mac: at + missed for mac, at in self._sent.items()}
            self._half = {
                port: (other, since + missed, last + missed)
                for port, (other, since, last) in self._half.items()
            }
            self._unsettled = {p: min(now, at + missed) for p, at in self._unsettled.items()}
            self._under_way = {n: (p, at + missed) for n, (p, at) in self._under_way.items()}

    # ---- probes -------------------------------------------------------------------------------

    def probed_ports(self, ports: dict[int, set[int]]) -> list[Port]:
        """Of all @ports those that a probe goes to: not those where hosts were heard, if there was
        no link before."""
        links_before = {end for link in self.lost_links() for end in link}
        taken = set(self.graph.hosts.values()) - links_before - self._severed.keys()
        return [(s, p) for s, each in ports.items() for p in sorted(each) if (s, p) not in taken]

    def probe(self, port: Port, now: float) -> bytes:
        self._probes += 1
        self._under_way[self._probes] = (port, now)
        body = _TLV.pack(*port, self._run, self._probes)
        own = _OUI + b"\x01" + body + self._hash(body)
        name = struct.pack("!QI", *port)
        tlvs = [(1, b"\x07" + name[:8]), (2, b"\x07" + name[8:]), (3, struct.pack("!H", 4))]
        tlvs += [(127, own), (0, b"")]
        packed = b"".join(struct.pack("!H", kind << 9 | len(v)) + v for kind, v in tlvs)
        head = LLDP_ADDRESS.to_bytes(6, "big") + _SOURCE.to_bytes(6, "big")
        return head + struct.pack("!H", LLDP_TYPE) + packed

    def _hash(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_HASH]

    def _refuse(self, why: str, port: Port, text: str) -> None:
        self.counts[why] += 1
        self._warned[why, port] += 1
        if self._warned[why, port] == 1:
            self._say(f"LLDP on {port_name(port)} refused: {text}")

    def heard_probe(self, port: Port, frame: bytes, now: float) -> bool:
        """An LLDP frame came into @port. Says whether the graph has changed."""
        self._count_attention(now)
        own = _own_tlv(frame)
        if own is None:
            self.counts["foreign_lldp"] += 1  # a host's own LLDP daemon: nothing wrong with that
            return False
        other = self._sender(port, own, now)
        if other is None:
            return False
        self._heard[port] = now
        if self.graph.links.get(port) == other:
            return False
        back = self._half.get(other)
        if back is None or back[0] != port:
            return self._heard_half(port, other, now)
        for end in (port, other):
            if end in self.graph.links:
                self.port_down(end)  # what it led to is nobody's
            self._unsettled.pop(end, None)
            self._severed.pop(end, None)
            self.graph.port_up(*end)
        self.graph.add_link(port, other)
        self._heard[port] = self._heard[other] = now  # what was before counts no more
        for end in (port, other):
            self._half.pop(end, None)
            self._unproven.discard(end)
        # what was joined to either of them before has been plugged into another port
        self._known = {k for k in self._known if not {port, other} & set(k)}
        self._known.add((min(port, other), max(port, other)))
        return True

    def _heard_half(self, port: Port, other: Port, now: float) -> bool:
        """From @other to @port: until the other way is heard they are nobody's, but for the links
        that they have."""
        known = self._half.get(port)
        since = known[1] if known and known[0] == other else now
        self._half[port] = (other, since, now)
        changed = False
        for end in (port, other):
            if end not in self.graph.links and end not in self._severed:
                changed |= self._unsettled.pop(end, None) is None
                self.graph.port_down(*end)
                self._severed[end] = None
        return changed

    def lost_links(self) -> list[tuple[Port, Port]]:
        """Those that there were, and whose ends have led nowhere else since."""
        return sorted(k for k in self._known if k[0] not in self.graph.links)

    def _sender(self, port: Port, own: bytes, now: float) -> Port | None:
        """Where a probe was sent, if it is to be believed."""
        body, given = own[: _TLV.size], own[_TLV.size :]
        if len(own) != _TLV.size + _HASH or not hmac.compare_digest(given, self._hash(body)):
            return self._refuse(
                "forged", port, "its hash is not ours; a host pretends to be a link"
            )
        switch, number, run, which = _TLV.unpack(body)
        other = (switch, number)
        sent = self._under_way.pop(which, None) if run == self._run else None
        if sent is None or now - sent[1] > ROUND_TRIP:
            return self._refuse("stale", port, "it was heard before, or took too long; a replay?")
        if other == port or switch not in self.graph.ports:
            return self._refuse("impossible", port, f"it says to come from {port_name(other)}")
        if switch in self.graph.away or not self._up(port) or not self._up(other):
            self.counts["late"] += 1  # sent, or heard, before it went down
            return None
        # hosts beyond a link may have been taken for hosts on it
        before = (min(port, other), max(port, other)) in self._known
        before = before or port in self._severed or other in self._severed
        for end in (port, other):
            if not before and end in self.graph.hosts.values():
                return self._refuse(
                    "host_port", port, f"hosts were heard on {port_name(end)}: no link leads there"
                )
        return other

    def _up(self, port: Port) -> bool:
        return (
            port[1] in self.graph.ports.get(port[0], ())
            or port in self._unsettled
            or port in self._severed
        )

    # ---- hosts --------------------------------------------------------------------------------

    def heard_host(self, port: Port, mac: int, now: float) -> bool:
        """A frame from @mac came into @port. Says whether the graph has changed."""
        graph = self.graph
        if port in graph.links or port[1] not in graph.ports.get(port[0], ()):
            return False
        if mac == 0 or mac & MULTICAST or mac & PREFIX_MASK == PREFIX or mac == _SOURCE:
            self.counts["bad_source"] += 1
            return False
        if graph.hosts.get(mac) == port:
            self._sent[mac] = now
            return False
        if sum(at == port for at in graph.hosts.values()) >= MAX_HOSTS_PER_PORT:
            self.counts["too_many_hosts"] += 1
            return False
        if mac in graph.hosts:
            if not self._may_move(mac, port, now):
                return False
            was = port_name(graph.hosts[mac])
            self._say(f"host {to_mac(mac)} has moved from {was} to {port_name(port)}")
        graph.hosts[mac] = port
        self._sent[mac] = now
        return True

    def _may_move(self, mac: int, port: Port, now: float) -> bool:
        """Not one that moves all the time: each makes us compute and write anew."""
        moves = [at for at in self._moves.get(mac, ()) if now - at < MOVES_WITHIN]
        if len(moves) < MOVES:
            self._moves[mac] = [*moves, now]
            return True
        self.counts["moves"] += 1
        if len(moves) == MOVES:
            self._moves[mac] = [*moves, now]  # said once, and again when it had been calm
            self._say(
                f"host {to_mac(mac)} is heard at {port_name(self.graph.hosts[mac])} and at "
                f"{port_name(port)} in turn: not moved for now; two hosts have its address, or "
                "cables among hosts make a loop"
            )
        return False

    def counted(self, frames: dict[tuple[int, Port], int], now: float) -> None:
        """@frames: how many a switch has counted from hosts at its ports. Who is known sends past
        the controller; that a count grows is how it is heard. A count starts anew with its rule."""
        for (mac, port), count in frames.items():
            before = self._frames.get((mac, port))
            self._frames[mac, port] = count
            more = count > (before if before is not None and count >= before else 0)
            if more and before is not None and self.graph.hosts.get(mac) == port:
                self._sent[mac] = now

    def expire(self, now: float, keep: Iterable[int] = ()) -> list[int]:
        """Forgets the hosts that were not heard for long, but for @keep, and returns them. Those at
        a switch that is not there cannot be heard: their time begins when it is back."""
        graph = self.graph
        kept = set(keep)
        self._sent = {mac: self._sent.get(mac, now) for mac in graph.hosts}
        for mac in kept & graph.hosts.keys():
            self._sent[mac] = now
        for mac, (switch, _) in graph.hosts.items():
            if switch not in graph.ports or switch in graph.away:
                self._sent[mac] = now
        gone = [m for m, at in self._sent.items() if self.expiry and now - at > self.expiry]
        for mac in gone:
            where = port_name(graph.hosts.pop(mac))
            self._say(f"host {to_mac(mac)} at {where} has been silent: forgotten")
            del self._sent[mac]
        self._moves = {mac: at for mac, at in self._moves.items() if mac in graph.hosts}
        self._frames = {k: n for k, n in self._frames.items() if graph.hosts.get(k[0]) == k[1]}
        return gone


def _own_tlv(frame: bytes) -> bytes | None:
    """The body of our TLV in an LLDP frame; None if there is none, or the frame is broken."""
    at = 14
    while at + 2 <= len(frame):
        (head,) = struct.unpack_from("!H", frame, at)
        kind, length = head >> 9, head & 0x1FF
        value = frame[at + 2 : at + 2 + length]
        if len(value) != length or kind == 0:
            return None
        if kind == 127 and value[:4] == _OUI + b"\x01":
            return value[4:]
        at += 2 + length
    return None
