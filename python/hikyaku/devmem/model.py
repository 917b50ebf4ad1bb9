# SPDX-License-Identifier: BSD-3-Clause
"""A router in Python that predicts every frame that hk_router must send.

It is written from the RFCs, independently of the C code.
"""

import ipaddress
import struct
from dataclasses import dataclass, field

from .packets import ARP, IP4, IP6, checksum, ethernet, ipv4, ipv6, mac

DOCUMENTATION = [
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8::/32",
    "::ffff:0:0/96",
]
# Routes of special destinations in a router without a tap, for Router.routes.
SPECIAL = {
    **dict.fromkeys([*DOCUMENTATION, "0.0.0.0/8", "127.0.0.0/8"], "martian_destination"),
    **dict.fromkeys(["240.0.0.0/4", "::/128", "::1/128"], "martian_destination"),
    **dict.fromkeys(["224.0.0.0/4", "ff00::/8"], "multicast"),
    **dict.fromkeys(["169.254.0.0/16", "fe80::/10"], "no_kernel"),
}
# By reason of the drop and IP version: type and code of the ICMP message.
ICMP = {
    "ttl": {4: (11, 0), 6: (3, 0)},
    "no_route": {4: (3, 0), 6: (1, 0)},
    "unreachable": {4: (3, 13), 6: (1, 1)},
    "too_big": {4: (3, 4), 6: (2, 0)},
}


@dataclass
class Out:
    """The port and the frames that a packet leaves as, in order; or the reason of its drop."""

    port: int | None
    frames: list[bytes] = field(default_factory=list)
    why: str = "forwarded"


@dataclass
class Router:
    """The expected router. @routes: by prefix, (port, MAC), or the reason of a drop."""

    macs: list[str]
    addresses: list[list[str]]
    routes: dict[str, tuple[int, str] | str]
    mtu: list[int]
    counts: dict[str, int] = field(default_factory=dict)

    def lookup(self, address: bytes) -> tuple[int, str] | str:
        best, depth = "no_route", -1
        wanted = ipaddress.ip_address(address)
        for prefix, hop in self.routes.items():
            net = ipaddress.ip_network(prefix)
            if net.version == wanted.version and net.prefixlen > depth and wanted in net:
                best, depth = hop, net.prefixlen
        return best

    def put(self, port: int, frame: bytes) -> Out:
        out = self._put(port, frame)
        self.counts[out.why] = self.counts.get(out.why, 0) + 1
        if out.why in ICMP:
            message = self._icmp(port, frame, out.why)
            return Out(message[0], [message[1]], why=out.why) if message else out
        return out

    def _icmp(self, port: int, frame: bytes, why: str) -> tuple[int, bytes] | None:
        """The ICMP message for a dropped packet, and its port: RFC 792, 1191, 1812, 4443."""
        packet = frame[14:]
        version = packet[0] >> 4
        own = [a for a in self.addresses[port] if ipaddress.ip_address(a).version == version]
        source = packet[12:16] if version == 4 else packet[8:24]
        back = self.lookup(source)
        if not own or isinstance(back, str) or self._hidden(packet, version):
            return None
        to, station = back
        mtu = 0
        if why == "too_big":
            if version == 4 and not packet[6] & 0x40:
                return None
            mtu = self.mtu[self.lookup(packet[16:20] if version == 4 else packet[24:40])[0]]
        length = struct.unpack_from(">H", packet, 2 if version == 4 else 4)[0]
        quoted = packet[: min(50, length if version == 4 else length + 40)]
        kind, code = ICMP[why][version]
        body = struct.pack(">BBHI", kind, code, 0, mtu) + quoted
        sender = str(ipaddress.ip_address(source))
        if version == 4:
            body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
            message = ipv4(own[0], sender, body, protocol=1, tos=0xC0)
        else:
            pseudo = (
                ipaddress.ip_address(own[0]).packed + source + struct.pack(">II", len(body), 58)
            )
            body = body[:2] + struct.pack(">H", checksum(pseudo + body)) + body[4:]
            message = ipv6(own[0], sender, body, following=58)
        return to, ethernet(station, self.macs[to], IP4 if version == 4 else IP6, message)

    @staticmethod
    def _hidden(packet: bytes, version: int) -> bool:
        """Is it, or may it be by its first 50 bytes, an ICMP error or a later fragment?"""
        read = packet[:50]
        if version == 4:
            if struct.unpack_from(">H", read, 6)[0] & 0x1FFF:
                return True
            at = (read[0] & 15) * 4
            return read[9] == 1 and (at >= len(read) or read[at] in (3, 4, 5, 11, 12))
        at, following = 40, read[6]
        while following in (0, 43, 44, 60):
            if at + 8 > len(read):
                return True
            if following == 44 and struct.unpack_from(">H", read, at + 2)[0] >> 3:
                return True
            size = 8 if following == 44 else 8 * (read[at + 1] + 1)
            following, at = read[at], at + size
        return following == 58 and (at >= len(read) or read[at] < 128)

    def _put(self, port: int, frame: bytes) -> Out:  # noqa: PLR0911, PLR0912 - a list of rules
        if len(frame) < 14:
            return Out(None, why="short")
        kind = struct.unpack_from(">H", frame, 12)[0]
        if frame[:6] != mac(self.macs[port]):
            if not frame[0] & 1:
                return Out(None, why="not_ours")
            return Out(None, why="no_kernel" if kind in (IP4, IP6, ARP) else "ethertype")
        if kind == ARP:
            return Out(None, why="no_kernel")
        if kind not in (IP4, IP6):
            return Out(None, why="ethertype")
        packet = frame[14:]
        if kind == IP4:
            why, length = self._check4(packet)
            src, dst, ttl = packet[12:16], packet[16:20], packet[8:9]
        else:
            why, length = self._check6(packet)
            src, dst, ttl = packet[8:24], packet[24:40], packet[7:8]
        if why:
            return Out(None, why=why)
        hop = self.lookup(dst)
        if isinstance(hop, str) and hop in ("no_kernel", "martian_destination"):
            return Out(None, why=hop)
        source = ipaddress.ip_address(src)
        if self._martian(source):
            return Out(None, why="martian_source")
        if isinstance(hop, str):
            return Out(None, why=hop)
        if ttl[0] <= 1:
            return Out(None, why="ttl")
        to, station = hop
        if length > self.mtu[to]:
            if kind == IP6 or packet[6] & 0x40:
                return Out(None, why="too_big")
            return self._fragments(to, station, packet[:length])
        if kind == IP4:
            header = (packet[0] & 15) * 4
            head = bytearray(packet[:header])
            head[8] -= 1
            head[10:12] = b"\0\0"
            head[10:12] = struct.pack(">H", checksum(bytes(head)))
        else:
            header = 40
            head = bytearray(packet[:header])
            head[7] -= 1
        new = mac(station) + mac(self.macs[to]) + frame[12:14] + bytes(head) + packet[header:length]
        return Out(to, [new + frame[len(new) : min(60, len(frame))]])

    def _fragments(self, to: int, station: str, packet: bytes) -> Out:
        """RFC 791 3.2, the example fragmentation procedure."""
        header = (packet[0] & 15) * 4
        flags = struct.unpack_from(">H", packet, 6)[0]
        data, offset = packet[header:], flags & 0x1FFF
        if offset + len(data) // 8 > 0x1FFF:
            return Out(None, why="length")
        options, out = packet[20:header], []
        while data:
            room = self.mtu[to] - 20 - len(options)
            last = len(data) <= room
            size = len(data) if last else room // 8 * 8
            more = flags & 0x2000 if last else 0x2000
            head = bytearray(packet[:20] + options)
            head[0] = 0x40 | len(head) // 4
            head[2:4] = struct.pack(">H", len(head) + size)
            head[6:8] = struct.pack(">H", more | offset)
            head[8] -= 1
            head[10:12] = b"\0\0"
            head[10:12] = struct.pack(">H", checksum(bytes(head)))
            out.append(ethernet(station, self.macs[to], IP4, bytes(head) + data[:size]))
            data, offset = data[size:], offset + size // 8
            options = self._copied(packet[20:header])
        self.counts["fragmented"] = self.counts.get("fragmented", 0) + 1
        self.counts["fragments"] = self.counts.get("fragments", 0) + len(out)
        return Out(to, out)

    @staticmethod
    def _copied(options: bytes) -> bytes:
        """The options that every fragment carries: RFC 791 3.1."""
        kept, at = b"", 0
        while at < len(options) and options[at]:
            size = 1 if options[at] == 1 else options[at + 1]
            if options[at] & 0x80:
                kept += options[at : at + size]
            at += size
        return kept + bytes(-len(kept) % 4)

    @staticmethod
    def _martian(source: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """May @source not be forwarded? By the columns Source and Forwardable of RFC 6890.

        Python's is_global is false for 100.64/10, 198.18/15 and private addresses, but these are
        forwardable.
        """
        return bool(
            source.is_multicast
            or source.is_loopback
            or source.is_link_local
            or source.is_unspecified
            or (source.version == 4 and (source.is_reserved or source.packed[0] == 0))
            or any(
                source in ipaddress.ip_network(text)
                for text in DOCUMENTATION
                if ipaddress.ip_network(text).version == source.version
            )
        )

    @staticmethod
    def _check4(packet: bytes) -> tuple[str | None, int]:  # noqa: PLR0911 - the same
        if len(packet) < 20:
            return "short", 0
        if packet[0] >> 4 != 4:
            return "ip_version", 0
        header = (packet[0] & 15) * 4
        if header < 20:
            return "header_length", 0
        length = struct.unpack_from(">H", packet, 2)[0]
        if length < header or length > len(packet):
            return "length", 0
        if header > 50:
            return "options_long", 0
        if checksum(packet[:header]):
            return "checksum", 0
        at = 20
        while at < header and packet[at]:
            if packet[at] == 1:
                at += 1
                continue
            if at + 1 == header or packet[at + 1] < 2 or at + packet[at + 1] > header:
                return "options_bad", 0
            if packet[at] in (131, 137):
                return "source_route", 0
            at += packet[at + 1]
        return None, length

    @staticmethod
    def _check6(packet: bytes) -> tuple[str | None, int]:
        if len(packet) < 40:
            return "short", 0
        if packet[0] >> 4 != 6:
            return "ip_version", 0
        length = 40 + struct.unpack_from(">H", packet, 4)[0]
        return (None, length) if length <= len(packet) else ("length", 0)
