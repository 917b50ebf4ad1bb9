# SPDX-License-Identifier: BSD-3-Clause
"""Packets for the routers: built from nothing, and a router in Python that says what must come out.
Written from the RFCs, beside the C code and not from it."""

import ipaddress
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

DOCUMENTATION = [
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8::/32",
    "::ffff:0:0/96",
]
# what a router without a tap does with special destinations, for Router.routes
SPECIAL = {
    **dict.fromkeys([*DOCUMENTATION, "0.0.0.0/8", "127.0.0.0/8"], "martian_destination"),
    **dict.fromkeys(["240.0.0.0/4", "::/128", "::1/128"], "martian_destination"),
    **dict.fromkeys(["224.0.0.0/4", "ff00::/8"], "multicast"),
    **dict.fromkeys(["169.254.0.0/16", "fe80::/10"], "no_kernel"),
}
# type and code by reason and version
ICMP = {
    "ttl": {4: (11, 0), 6: (3, 0)},
    "no_route": {4: (3, 0), 6: (1, 0)},
    "unreachable": {4: (3, 13), 6: (1, 1)},
    "too_big": {4: (3, 4), 6: (2, 0)},
}
IP4, IP6, ARP = 0x0800, 0x86DD, 0x0806


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(dst: str, src: str, kind: int, payload: bytes, pad: int = 60) -> bytes:
    return (mac(dst) + mac(src) + struct.pack(">H", kind) + payload).ljust(pad, b"\0")


def ipv4(
    src: str,
    dst: str,
    payload: bytes,
    *,
    ttl: int = 64,
    protocol: int = 17,
    options: bytes = b"",
    flags: int = 0,
    ident: int = 0,
    version: int = 4,
    ihl: int | None = None,
    length: int | None = None,
    tos: int = 0,
    bad_sum: bool = False,
) -> bytes:
    words = 5 + len(options) // 4 if ihl is None else ihl
    total = 20 + len(options) + len(payload) if length is None else length
    head = struct.pack(
        ">BBHHHBBH", version << 4 | words, tos, total, ident, flags, ttl, protocol, 0
    )
    head += ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed + options
    value = checksum(head)
    value = value ^ 0x1111 if bad_sum else value
    return head[:10] + struct.pack(">H", value) + head[12:] + payload


def ipv6(
    src: str,
    dst: str,
    payload: bytes,
    *,
    hops: int = 64,
    following: int = 17,
    length: int | None = None,
    version: int = 6,
    flow: int = 0,
) -> bytes:
    size = len(payload) if length is None else length
    head = struct.pack(">IHBB", version << 28 | flow, size, following, hops)
    return head + ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dst).packed + payload


def write_pcap(path: Path, frames: list[bytes], seconds: list[int] | None = None) -> None:
    """@seconds: each frame's time."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, frame in enumerate(frames):
            time = seconds[i] if seconds else 0
            out.write(struct.pack("<IIII", time, 0, len(frame), len(frame)) + frame)


def read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes()
    frames, at = [], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return frames


@dataclass
class Out:
    """Where a packet goes, and what it is then, in order; or why it is dropped."""

    port: int | None
    frames: list[bytes] = field(default_factory=list)
    why: str = "forwarded"


@dataclass
class Router:
    """What must come out. @routes: prefix to (port, MAC), or to the name of a verdict."""

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
        """What the router says about a packet that it drops: RFC 792, 1191, 1812, 4443."""
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
            said = ipv4(own[0], sender, body, protocol=1, tos=0xC0)
        else:
            pseudo = (
                ipaddress.ip_address(own[0]).packed + source + struct.pack(">II", len(body), 58)
            )
            body = body[:2] + struct.pack(">H", checksum(pseudo + body)) + body[4:]
            said = ipv6(own[0], sender, body, following=58)
        return to, ethernet(station, self.macs[to], IP4 if version == 4 else IP6, said)

    @staticmethod
    def _hidden(packet: bytes, version: int) -> bool:
        """Is it an ICMP error, a later fragment, or may it be, as far as 50 bytes tell?"""
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
        """Those that go with every fragment: RFC 791 3.1."""
        kept, at = b"", 0
        while at < len(options) and options[at]:
            size = 1 if options[at] == 1 else options[at + 1]
            if options[at] & 0x80:
                kept += options[at : at + size]
            at += size
        return kept + bytes(-len(kept) % 4)

    @staticmethod
    def _martian(source: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """As a source: RFC 6890's columns Source and Forwardable, in Python's words; it counts
        100.64/10, 198.18/15 and private addresses as not global, but they are forwardable."""
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


def sequence(router: Router, port: int, count: int, seed: int) -> list[bytes]:
    """@count frames of all kinds for @port; the last goes through, so that who sees it knows
    that the others have been handled."""
    draw = random.Random(seed)
    frames = [_frame(router, port, draw, n) for n in range(count - 1)]
    return [*frames, _good4(router, port, draw, 64, b"the last")]


def _good4(
    router: Router, port: int, draw: random.Random, ttl: int, payload: bytes, **more
) -> bytes:
    dst = f"10.{draw.randrange(4)}.{draw.randrange(256)}.{draw.randrange(256)}"
    packet = ipv4("198.18.9.9", dst, payload, ttl=ttl, ident=draw.randrange(65536), **more)
    return ethernet(router.macs[port], "02:00:00:00:99:01", IP4, packet)


def _frame(router: Router, port: int, draw: random.Random, n: int) -> bytes:
    us, them = router.macs[port], "02:00:00:00:99:01"
    payload = n.to_bytes(4, "big") + draw.randbytes(draw.choice([8, 18, 46, 100, 600, 1400]))
    ttl = draw.choice([1, 0, 2, 64, 255]) if draw.random() < 0.3 else 64
    kind = draw.randrange(36)
    dst6 = f"fd00:{draw.randrange(4):x}::{draw.randrange(65536):x}"
    if kind < 9:
        return _good4(router, port, draw, ttl, payload)
    if kind < 15:
        return ethernet(us, them, IP6, ipv6("fd00:99::1", dst6, payload, hops=ttl))
    special = [
        lambda: _good4(router, port, draw, ttl, payload, bad_sum=True),
        lambda: _good4(router, port, draw, ttl, payload, version=draw.choice([0, 5, 6])),
        lambda: _good4(router, port, draw, ttl, payload, ihl=draw.randrange(5)),
        lambda: _good4(router, port, draw, ttl, payload, length=draw.choice([0, 19, 1700, 65535])),
        lambda: _good4(router, port, draw, ttl, payload, options=_options(draw)),
        lambda: ethernet(us, them, IP4, ipv4(_address(draw), _address(draw), payload, ttl=ttl)),
        lambda: ethernet(us, them, IP6, ipv6(_address6(draw), _address6(draw), payload, hops=ttl)),
        lambda: _good4(router, port, draw, ttl, _fragment(draw), flags=draw.choice([0, 1, 0x2001])),
        lambda: _good4(router, port, draw, ttl, _fragment(draw), protocol=1),
        lambda: ethernet(us, them, IP6, _chain(draw, dst6, ttl)),
        lambda: ethernet(us, them, IP6, ipv6("fd00:99::1", dst6, draw.randbytes(1501))),
        lambda: ethernet(us, them, IP6, ipv6("fd00:99::1", dst6, payload, version=4)),
        lambda: ethernet(us, them, IP6, ipv6("fd00:99::1", dst6, payload, length=9000)),
        lambda: ethernet("02:00:00:00:77:77", them, IP4, payload),
        lambda: ethernet("ff:ff:ff:ff:ff:ff", them, draw.choice([ARP, IP4, 0x88CC]), payload),
        lambda: ethernet(us, them, draw.choice([ARP, 0x8100, 0x1234]), payload),
        # a frame with more than its packet: what is beyond must not travel
        lambda: _good4(router, port, draw, ttl, payload) + draw.randbytes(draw.randrange(1, 40)),
        lambda: mac(us) + draw.randbytes(draw.choice([8, 20, 30])),
        lambda: _good4(router, port, draw, 64, draw.randbytes(1501), flags=0x4000),
        lambda: _good4(router, port, draw, ttl, _large(draw), options=_options(draw)),
        lambda: _good4(router, port, draw, 64, _large(draw), flags=_fragment_flags(draw)),
    ]
    return special[kind - 15]()


def _large(draw: random.Random) -> bytes:
    """Too big for a link of 1500 bytes."""
    return draw.randbytes(draw.choice([1481, 1482, 1488, 1500, draw.randrange(1481, 1900)]))


def _fragment_flags(draw: random.Random) -> int:
    """Of a fragment that is cut again; some reach past the longest packet."""
    return draw.choice([0, 0x2000, 0x8000]) | draw.choice([0, 1, 185, 4000, 8000, 8191])


def _fragment(draw: random.Random) -> bytes:
    """What may follow: the type of an ICMP message first."""
    return bytes([draw.choice([0, 3, 4, 5, 8, 11, 12, 13])]) + draw.randbytes(27)


def _chain(draw: random.Random, dst: str, hops: int) -> bytes:
    """Extension headers, in which an ICMPv6 message may be found, or not."""
    kinds = [draw.choice([0, 43, 44, 60]) for _ in range(draw.randrange(3))]
    last = draw.choice([17, 58, 58, 59])
    body = b""
    for following, kind in zip([*kinds, last][1:], kinds, strict=True):
        offset = draw.choice([0, 0, 8]) if kind == 44 else 0
        size = draw.choice([0, 0, 1]) if kind != 44 else 0
        body += struct.pack(">BBHI", following, size, offset, 0) + bytes(8 * size)
    body += bytes([draw.choice([1, 2, 3, 4, 128, 129, 135])]) + draw.randbytes(draw.randrange(60))
    return ipv6("fd00:99::1", dst, body, hops=hops, following=[*kinds, last][0])


def _options(draw: random.Random) -> bytes:
    return draw.choice(
        [
            b"\1" * 4,
            b"\x94\4\0\0",  # router alert
            b"\x83\7\4" + bytes(4) + b"\0",  # LSRR
            b"\1\x89\7\4" + bytes(4),  # SSRR
            b"\x44\1\0\0",  # too short
            b"\x44\x09\0\0",  # too long
            b"\7\x1b\4" + bytes(25),  # record route, to the last byte that is read
            b"\7\x1f\4" + bytes(29),  # beyond
            b"\0\xff\xff\xff",
        ]
    )


def _address(draw: random.Random) -> str:
    return draw.choice(
        [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "192.0.2.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.5",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "198.18.9.9",
            "198.18.0.1",
            "198.18.1.0",
            "198.18.1.255",
            "198.18.1.77",
            "10.2.0.1",
            "10.9.0.1",
            "10.8.0.1",
            "192.0.1.1",
            "8.8.8.8",
        ]
    )


def _address6(draw: random.Random) -> str:
    return draw.choice(
        [
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "ff02::1",
            "ff0e::1",
            "2001:db8::1",
            "fd00:1::1",
            "fd00:9::1",
            "fd00:ff::1",
            "fd00:ff::77",
            "2600::1",
            "2001:2::1",
        ]
    )
