# SPDX-License-Identifier: BSD-3-Clause
"""The names of hosts and links, for people: from the lab, or from the hosts' own LLDP and from the
switches.

Pure. A name is only a label: no rule depends on it, since a host can send any name. Each name is
cleaned once, where it enters.
"""

import re
from collections.abc import Mapping

from . import lldp
from .lldp import Port

MAX_NAME = 64
MAX_NAMES = 4096  # that LLDP frames may add

Name = tuple[str, str]  # of a host, and of its interface


def in_order(name: str) -> list[str | int]:
    """The key that sorts node2 before node10."""
    words: list[str | int] = [*re.split(r"(\d+)", name)]
    words[1::2] = map(int, words[1::2])
    return words


def clean(value: bytes) -> str:
    """A name from the network as text that is safe in a log and on a terminal."""
    text = value.decode(errors="replace").strip("\0 ")[:MAX_NAME]
    return "".join(each for each in text if each.isprintable())


class Names:
    """@known: the names of hosts that are certain, by address; LLDP does not replace these. @links:
    the names of links that are certain, by each of their ports; they replace those of the ports.
    """

    def __init__(
        self, known: Mapping[int, Name] | None = None, links: Mapping[Port, str] | None = None
    ):
        self._known = dict(known or {})
        self._links = dict(links or {})
        self._learned: dict[int, Name] = {}
        self._ports: dict[Port, str] = {}

    def name(self, mac: int) -> str | None:
        """The name of the host with address @mac; all addresses of a host have the same name."""
        return self._of(mac)[0] or None

    def interface(self, mac: int) -> str | None:
        return self._of(mac)[1] or None

    def full(self, mac: int) -> str:
        """The host's name with its interface, such as node0:hk0."""
        return ":".join(filter(None, self._of(mac)))

    def matches(self, mac: int, text: str) -> bool:
        """Whether @text is the name of the host with address @mac, alone or with its interface."""
        return text != "" and text in (self.name(mac), self.full(mac))

    def link(self, port: Port) -> str | None:
        """The name of the link at @port, also after it went down."""
        return self._links.get(port) or self._ports.get(port)

    def learn_ports(self, switch: int, ports: Mapping[int, str]) -> None:
        """The switch calls its ports so."""
        self._ports |= {(switch, number): name for number, name in ports.items()}

    def _of(self, mac: int) -> Name:
        return self._known.get(mac) or self._learned.get(mac) or ("", "")

    def learn(self, frame: bytes) -> None:
        """Learns a name from an LLDP frame of a host."""
        found = dict(lldp.tlvs(frame))
        mac = int.from_bytes(frame[6:12], "big")
        name = clean(found.get(lldp.SYSTEM_NAME, b""))
        if name and (mac in self._learned or len(self._learned) < MAX_NAMES):
            self._learned[mac] = name, clean(found.get(lldp.PORT_DESCRIPTION, b""))
