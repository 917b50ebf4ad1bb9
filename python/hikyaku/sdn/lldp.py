# SPDX-License-Identifier: BSD-3-Clause
"""LLDP frames (IEEE 802.1AB), and the probes among them that prove links.

Pure: time is an argument. A probe carries the port that sent it and a number that is used once. A
keyed hash (HMAC-SHA256) over both proves that it is ours. A probe counts once, and only within
ROUND_TRIP seconds. One that arrives later is *late*, since a busy machine delays probes. One that
arrives twice, or belongs to another run, is *stale*: a replay.
"""

import hashlib
import hmac
import secrets
import struct
from collections.abc import Iterator

from .rules import LLDP_ADDRESS, LLDP_TYPE

ROUND_TRIP = 3.0  # seconds within which a probe counts
LATE_MAX = 60.0  # seconds within which a probe that has not come yet is only late
LATE_PROBES = 1 << 17  # that are remembered at most

SOURCE = 0x0268_6B79_0001  # source address of probes, locally administered
END, PORT_DESCRIPTION, SYSTEM_NAME, OWN = 0, 4, 5, 127  # types of TLVs
_CHASSIS, _PORT, _TTL = 1, 2, 3
_OUI = b"\x02hk\x01"  # locally administered identifier of our own TLV, and its subtype
_BODY = struct.Struct("!QI8sQ")  # switch, port, the controller's run, the probe's number
_HASH = 16  # bytes of the hash

Port = tuple[int, int]  # switch, port


def tlvs(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """The type and value of each TLV of an LLDP frame, until its end or its first broken one."""
    at = 14
    while at + 2 <= len(frame):
        (head,) = struct.unpack_from("!H", frame, at)
        kind, length = head >> 9, head & 0x1FF
        value = frame[at + 2 : at + 2 + length]
        if len(value) != length or kind == END:
            return
        yield kind, value
        at += 2 + length


def own_tlv(frame: bytes) -> bytes | None:
    """The value of our own TLV; None if the frame is a host's own LLDP, or broken."""
    for kind, value in tlvs(frame):
        if kind == OWN and value.startswith(_OUI):
            return value.removeprefix(_OUI)
    return None


class Rejected(Exception):
    """A probe that does not count, and why: forged, stale or late."""


class Probes:
    """The probes of one run of the controller. @key: the secret of the hash."""

    def __init__(self, key: bytes):
        self._key = key
        self._run = secrets.token_bytes(8)
        self._sent = 0
        self._under_way: dict[int, tuple[Port, float]] = {}  # by number: sender, time of sending
        self._late: dict[int, float] = {}  # the time of sending of those that took too long

    def make(self, port: Port, now: float) -> bytes:
        """A probe that leaves by @port at @now."""
        self._sent += 1
        self._under_way[self._sent] = (port, now)
        body = _BODY.pack(*port, self._run, self._sent)
        name = struct.pack("!QI", *port)
        fields = [(_CHASSIS, b"\x07" + name[:8]), (_PORT, b"\x07" + name[8:])]
        fields += [(_TTL, struct.pack("!H", 4)), (OWN, _OUI + body + self._hash(body)), (END, b"")]
        packed = b"".join(struct.pack("!H", kind << 9 | len(v)) + v for kind, v in fields)
        head = LLDP_ADDRESS.to_bytes(6, "big") + SOURCE.to_bytes(6, "big")
        return head + struct.pack("!H", LLDP_TYPE) + packed

    def _hash(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_HASH]

    def sender(self, own: bytes, now: float) -> Port:
        """The port that sent the probe whose TLV is @own. Raises Rejected if it does not count."""
        body, given = own[: _BODY.size], own[_BODY.size :]
        if len(own) != _BODY.size + _HASH or not hmac.compare_digest(given, self._hash(body)):
            raise Rejected("forged")
        switch, port, run, number = _BODY.unpack(body)
        self.expire(now)
        if run == self._run and self._late.pop(number, None) is not None:
            raise Rejected("late")
        if run != self._run or self._under_way.pop(number, None) is None:
            raise Rejected("stale")
        return switch, port

    def expire(self, now: float) -> None:
        """Probes that have been under way for too long are late from now on."""
        while self._under_way:
            number = next(iter(self._under_way))
            at = self._under_way[number][1]
            if now - at <= ROUND_TRIP:
                break
            del self._under_way[number]
            self._late[number] = at
        while self._late:
            number = next(iter(self._late))
            if now - self._late[number] <= LATE_MAX and len(self._late) <= LATE_PROBES:
                break
            del self._late[number]

    def delay(self, seconds: float) -> None:
        """The controller did not run for @seconds: this time does not count."""
        self._under_way = {n: (port, at + seconds) for n, (port, at) in self._under_way.items()}
