# SPDX-License-Identifier: BSD-3-Clause
"""The names of hosts, for people: from the lab, or from the hosts' own LLDP.

Pure. A name is only a label: no rule depends on it, since a host can send any name.
"""

from collections.abc import Mapping

from . import lldp

MAX_NAME = 64
MAX_NAMES = 4096  # that LLDP frames may add

Name = tuple[str, str]  # of a host, and of its interface


def _text(value: bytes) -> str:
    text = value.decode(errors="replace").strip("\0 ")[:MAX_NAME]
    return "".join(each for each in text if each.isprintable())


class Names:
    """@known: the names that are certain, by address; LLDP does not replace these."""

    def __init__(self, known: Mapping[int, Name] | None = None):
        self._known = dict(known or {})
        self._learned: dict[int, Name] = {}

    def name(self, mac: int) -> str | None:
        """The name of the host with address @mac; all addresses of a host have the same name."""
        return self._of(mac)[0] or None

    def interface(self, mac: int) -> str | None:
        return self._of(mac)[1] or None

    def _of(self, mac: int) -> Name:
        return self._known.get(mac) or self._learned.get(mac) or ("", "")

    def learn(self, frame: bytes) -> None:
        """Learns a name from an LLDP frame of a host."""
        found = dict(lldp.tlvs(frame))
        mac = int.from_bytes(frame[6:12], "big")
        name = _text(found.get(lldp.SYSTEM_NAME, b""))
        if name and (mac in self._learned or len(self._learned) < MAX_NAMES):
            self._learned[mac] = name, _text(found.get(lldp.PORT_DESCRIPTION, b""))
