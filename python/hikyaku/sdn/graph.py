# SPDX-License-Identifier: BSD-3-Clause
"""The network as a graph: switches, links between their ports, and hosts; distances and next hops.

Pure. Switches are numbers (datapath ids), ports are numbers of their switch, hosts are MAC
addresses as numbers. A link is two directed ones, one for each end. Results are cached until
something changes.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

_AVOID = 1 << 16  # hops that a path through a disconnected switch counts


class Graph:
    def __init__(self) -> None:
        self.ports: dict[int, set[int]] = {}  # of each switch, those that are up
        self.links: dict[tuple[int, int], tuple[int, int]] = {}  # (switch, port): its other end
        self.hosts: dict[int, tuple[int, int]] = {}  # address: (switch, port)
        self.disconnected: set[int] = set()  # switches that go on forwarding without a connection
        self._distances: dict[int, dict[int, int]] = {}
        self._towards: dict[tuple[int, int], tuple[int, ...]] = {}
        self._neighbors: dict[int, dict[int, int]] = {}  # of a switch: port to switch

    def _changed(self) -> None:
        self._distances.clear()
        self._towards.clear()
        self._neighbors.clear()

    # ---- what is there ------------------------------------------------------------------------

    def add_switch(self, switch: int, ports: Iterable[int]) -> None:
        self.ports[switch] = set(ports)
        self._changed()

    def set_disconnected(self, switch: int, disconnected: bool) -> None:
        """A disconnected switch keeps its ports, links and hosts. Paths lead through it only where
        there is no other."""
        (self.disconnected.add if disconnected else self.disconnected.discard)(switch)
        self._changed()

    def remove_switch(self, switch: int) -> None:
        """With its links. Its hosts are kept, for when it comes back."""
        for end in [end for end in self.links if end[0] == switch]:
            self.remove_link(end)
        self.ports.pop(switch, None)
        self.disconnected.discard(switch)
        self._changed()

    def port_up(self, switch: int, port: int) -> None:
        self.ports[switch].add(port)

    def port_down(self, switch: int, port: int) -> None:
        """Its link is gone; hosts behind it are kept, since they come back there."""
        self.ports[switch].discard(port)
        self.remove_link((switch, port))

    def add_link(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """Both directions; what the ends were joined to before is forgotten. A port that carries a
        link has no hosts: what was taken for one there was a frame passing through."""
        for end in (a, b):
            self.remove_link(end)
        self.links[a], self.links[b] = b, a
        self.hosts = {mac: at for mac, at in self.hosts.items() if at not in (a, b)}
        self._changed()

    def remove_link(self, end: tuple[int, int]) -> None:
        other = self.links.pop(end, None)
        if other is not None:
            self.links.pop(other, None)
            self._changed()

    def host_ports(self, switch: int) -> list[int]:
        return sorted(p for p in self.ports[switch] if (switch, p) not in self.links)

    def hosts_at(self, switch: int) -> dict[int, int]:
        """Address: port."""
        return {mac: port for mac, (at, port) in self.hosts.items() if at == switch}

    # ---- distances ----------------------------------------------------------------------------

    def neighbors(self, switch: int) -> dict[int, int]:
        """Port: the switch that it leads to."""
        if not self._neighbors:
            self._neighbors = {each: {} for each in self.ports}
            for (a, port), (b, _) in sorted(self.links.items()):
                self._neighbors[a][port] = b
        return self._neighbors[switch]

    def distances(self, target: int) -> dict[int, int]:
        """The hops from each switch that reaches @target. A disconnected switch on the path counts
        as very many hops."""
        if target not in self._distances:
            found = {target: 0}
            heap = [(0, target)]
            while heap:
                far, at = heappop(heap)
                if far > found[at]:
                    continue
                step = far + self._hop(at, target)
                for other in self.neighbors(at).values():
                    if step < found.get(other, step + 1):
                        found[other] = step
                        heappush(heap, (step, other))
            self._distances[target] = found
        return self._distances[target]

    def reaches(self, switch: int, target: int) -> bool:
        """Neither of them need be there still."""
        return target in self.ports and switch in self.distances(target)

    def _hop(self, to: int, target: int) -> int:
        return 1 + _AVOID if to in self.disconnected and to != target else 1

    def next_ports(self, switch: int, target: int) -> tuple[int, ...]:
        """The ports of @switch on shortest paths to @target. Each next switch is closer, so a frame
        that follows any of these ports arrives without a loop."""
        key = (switch, target)
        if key not in self._towards:
            distance = self.distances(target)
            here = distance.get(switch)
            self._towards[key] = (
                ()
                if not here
                else tuple(
                    port
                    for port, other in sorted(self.neighbors(switch).items())
                    if distance[other] == here - self._hop(other, target)
                )
            )
        return self._towards[key]
