# SPDX-License-Identifier: BSD-3-Clause
"""The links of the network, learned from probes (lldp.py) that the controller sends itself.

Pure: time is an argument, frames are bytes. A link exists when a probe has come through each way.
Probes on ports where hosts were seen do not count, since a host could forward one.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from .graph import Graph
from .hosts import EXPIRY, Hosts, port_name
from .lldp import Port, Probes, Rejected, own_tlv

PROBE_EVERY = 1.0  # seconds
SETTLE = 0.6  # seconds without an answered probe after which a port leads to hosts
# Seconds without probes after which a link is lost. Switches report a cut cable at once: this is
# for links that fail silently. A switch short of CPU delays probes for seconds.
LOST_AFTER = 10.5
ONE_WAY = 3.0  # seconds after which probes that come through one way only are reported
ATTENTIVE = 0.5  # a longer time between two ticks: we did not run, or the clock was set

_REASONS = {
    "forged": "its hash is not ours; a host pretends to be a link",
    "stale": "it came before, or is of another run; a replay?",
}


class Discovery:
    """Keeps the links of @graph, and its hosts (hosts.py). @say: reports to the operator."""

    def __init__(
        self, graph: Graph, key: bytes, say: Callable[[str], None], *, expiry: float = EXPIRY
    ):
        """@expiry: of hosts, in seconds; 0: they are never forgotten."""
        self.graph = graph
        self.counts: Counter[str] = Counter()  # refused frames, by reason
        self.hosts = Hosts(graph, say, self.counts, expiry)
        self._probes = Probes(key)
        self._say = say
        self._known: set[tuple[Port, Port]] = set()  # links that existed, the lower end first
        self._unsettled: dict[Port, float] = {}  # ports that are up, with an unknown other end
        # Ports that are up and were links. They are unused until a probe arrives or the port goes
        # down. The value is the switch that the port led to, if that is disconnected.
        self._severed: dict[Port, int | None] = {}
        self._unproven: set[Port] = set()  # links by the stored state, before any probe
        self._last_probe: dict[Port, float] = {}  # by port: the time of the last probe
        # By port: the sender of its probes, and the times of the first and the last one.
        self._half: dict[Port, tuple[Port, float, float]] = {}
        self._ticked: float | None = None  # the time of the last tick
        self._warned: Counter[tuple[str, Port]] = Counter()

    # ---- ports --------------------------------------------------------------------------------

    def add_switch(
        self, switch: int, ports: Iterable[int], now: float, trunks: Iterable[int] = ()
    ) -> None:
        """Adds a switch that has connected. If it was connected before, it has gone on forwarding,
        so the knowledge of its ports still counts. @trunks: the ports that its own rules treat as
        links.
        """
        graph = self.graph
        if switch not in graph.ports:
            graph.add_switch(switch, ())
        graph.set_disconnected(switch, False)
        known = graph.ports[switch] | {
            p for s, p in [*self._severed, *self._unsettled] if s == switch
        }
        for port in known.difference(ports):
            self.port_down((switch, port))
        for port in ports:
            end = (switch, port)
            if end in graph.links:  # its probes are to come again
                self._last_probe[end] = self._last_probe[graph.links[end]] = now
            elif port not in known and port in trunks:
                self._severed[end] = None
                self._unproven.add(end)
            elif port not in known:
                self._unsettled[end] = now
        for end in [end for end, far in self._severed.items() if far == switch]:
            del self._severed[end]
            self._unsettled[end] = now

    def assume(self, switches: Iterable[int], links: dict[Port, Port]) -> None:
        """Assumes the switches and links that an earlier controller stored, as disconnected
        switches. The hosts in the graph are at their ports."""
        graph = self.graph
        ends = links.keys() | set(graph.hosts.values())
        for switch in switches:
            graph.add_switch(switch, [p for s, p in ends if s == switch])
            graph.set_disconnected(switch, True)
        for a, b in links.items():
            if a < b:
                graph.add_link(a, b)
                self._known.add((a, b))
        self._unproven |= links.keys()

    def lose_switch(self, switch: int) -> None:
        """The connection of @switch has ended. It goes on forwarding, as far as we know. If it has
        died, its neighbours report that their ports are down."""
        if any(end[0] == switch for end in self.graph.links) or self.graph.ports.get(switch):
            self.graph.set_disconnected(switch, True)
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
        if far is not None and far[0] in self.graph.disconnected:
            self._severed[port] = far[0]  # that switch cannot report our probes
        elif port[1] not in self.graph.ports[port[0]]:
            self._unsettled.setdefault(port, now)

    def port_down(self, port: Port) -> None:
        """@port is down. The other end of its link is then severed: it may still be up."""
        other = self.graph.links.get(port)
        for end in (port, other) if other else (port,):
            self._unsettled.pop(end, None)
            self._severed.pop(end, None)
            self._last_probe.pop(end, None)
            self._unproven.discard(end)
            self._half = {a: half for a, half in self._half.items() if end not in (a, half[0])}
            self.graph.port_down(*end)
        if other is None:
            return
        self._severed[other] = None
        disconnected = other[0] in self.graph.disconnected
        if disconnected and not any(end[0] == other[0] for end in self.graph.links):
            self._say(f"switch {other[0]} is disconnected, and all links to it are down: forgotten")
            self._forget_switch(other[0])

    def severed(self) -> list[Port]:
        """The ports that were links, and whose other end is unknown now."""
        return sorted(self._severed)

    def doubt(self, now: float) -> None:
        """All switches have been connected for long. Ports that are links only by the stored state,
        and silent, may be ports of hosts."""
        for end in self._unproven & self._severed.keys():
            del self._severed[end]
            self._unproven.discard(end)
            self._unsettled[end] = now

    def unsettled(self) -> list[Port]:
        return sorted(self._unsettled)

    def undecided(self, now: float) -> set[Port]:
        """The ports whose other end is being determined."""
        half = {
            end
            for port, (other, since, _) in self._half.items()
            if now - since < ONE_WAY
            for end in (port, other)
        }
        return half | self._unsettled.keys()

    def tick(self, now: float) -> bool:
        """Settles ports and ages links; returns whether the graph has changed."""
        changed = False
        self._count_attention(now)
        for port, since in list(self._unsettled.items()):
            if now - since >= SETTLE:
                del self._unsettled[port]
                self.graph.port_up(*port)
                changed = True
        for end, other in list(self.graph.links.items()):
            if {end[0], other[0]} & self.graph.disconnected:
                continue  # a disconnected switch cannot report probes
            if end in self.graph.links and now - self._last_probe.get(end, now) > LOST_AFTER:
                self._say(
                    f"link {port_name(other)} to {port_name(end)} is silent: not used; if hosts "
                    "are there now, take its ports down and up"
                )
                unproven = {end, other} & self._unproven
                self.port_down(end)
                self._severed[end] = None  # it is still up
                self._unproven |= unproven
                changed = True
        for port, (other, since, last) in list(self._half.items()):
            if now - last > LOST_AFTER:
                del self._half[port]
            elif now - since > ONE_WAY:
                self._refuse(
                    "one_way", port, f"from {port_name(other)}, and none arrives there from here"
                )
        self._probes.expire(now)
        return changed

    def _count_attention(self, now: float) -> None:
        """While we did not run, frames waited unread: this time does not count as silence."""
        missed = now - self._ticked - ATTENTIVE if self._ticked is not None else 0
        self._ticked = now
        if missed > 0:
            self._last_probe = {port: at + missed for port, at in self._last_probe.items()}
            self.hosts.delay(missed)
            self._probes.delay(missed)
            self._half = {
                port: (other, since + missed, last + missed)
                for port, (other, since, last) in self._half.items()
            }
            self._unsettled = {p: min(now, at + missed) for p, at in self._unsettled.items()}

    # ---- probes -------------------------------------------------------------------------------

    def probed_ports(self, ports: dict[int, set[int]]) -> list[Port]:
        """The ports of @ports that get probes: not those where hosts were seen, unless they were
        links."""
        links_before = {end for link in self.lost_links() for end in link}
        taken = set(self.graph.hosts.values()) - links_before - self._severed.keys()
        return [(s, p) for s, each in ports.items() for p in sorted(each) if (s, p) not in taken]

    def probe(self, port: Port, now: float) -> bytes:
        return self._probes.make(port, now)

    def _refuse(self, why: str, port: Port, text: str) -> None:
        self.counts[why] += 1
        self._warned[why, port] += 1
        if self._warned[why, port] == 1:
            self._say(f"LLDP on {port_name(port)} refused: {text}")

    def receive_probe(self, port: Port, frame: bytes, now: float) -> bool:
        """An LLDP frame came into @port. Returns whether the graph has changed."""
        self._count_attention(now)
        own = own_tlv(frame)
        if own is None:
            self.counts["foreign_lldp"] += 1  # a host's own LLDP
            return False
        other = self._sender(port, own, now)
        if other is None:
            return False
        self._last_probe[port] = now
        if self.graph.links.get(port) == other:
            return False
        back = self._half.get(other)
        if back is None or back[0] != port:
            return self._record_half(port, other, now)
        for end in (port, other):
            if end in self.graph.links:
                self.port_down(end)  # its other end is severed
            self._unsettled.pop(end, None)
            self._severed.pop(end, None)
            self.graph.port_up(*end)
        self.graph.add_link(port, other)
        self._last_probe[port] = self._last_probe[other] = now  # earlier times do not count
        for end in (port, other):
            self._half.pop(end, None)
            self._unproven.discard(end)
        # a port that either of them was linked to has another cable now
        self._known = {k for k in self._known if not {port, other} & set(k)}
        self._known.add((min(port, other), max(port, other)))
        return True

    def _record_half(self, port: Port, other: Port, now: float) -> bool:
        """A probe from @other came to @port. Until one comes the other way, both ports are severed,
        unless they have links."""
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
        """The links that are lost, and whose ends have not led elsewhere since."""
        return sorted(k for k in self._known if k[0] not in self.graph.links)

    def _sender(self, port: Port, own: bytes, now: float) -> Port | None:
        """The port that sent a probe; None if the probe does not count."""
        try:
            other = self._probes.sender(own, now)
        except Rejected as rejected:
            why = str(rejected)
            if why == "late":  # by a busy machine: counted, not reported
                self.counts[why] += 1
                return None
            return self._refuse(why, port, _REASONS[why])
        switch = other[0]
        if other == port or switch not in self.graph.ports:
            return self._refuse("impossible", port, f"it claims to come from {port_name(other)}")
        if switch in self.graph.disconnected or not self._up(port) or not self._up(other):
            self.counts["late"] += 1  # sent or received before a port went down
            return None
        # hosts behind a link may have been recorded at its port
        before = (min(port, other), max(port, other)) in self._known
        before = before or port in self._severed or other in self._severed
        for end in (port, other):
            if not before and end in self.graph.hosts.values():
                return self._refuse(
                    "host_port", port, f"hosts were seen on {port_name(end)}: no link leads there"
                )
        return other

    def _up(self, port: Port) -> bool:
        return (
            port[1] in self.graph.ports.get(port[0], ())
            or port in self._unsettled
            or port in self._severed
        )
