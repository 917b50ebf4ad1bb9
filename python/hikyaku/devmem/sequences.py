# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of frames for a router: correct, special and damaged ones, from a seed."""

import random
import struct

from .model import Router
from .packets import ARP, IP4, IP6, ethernet, ipv4, ipv6, mac


def sequence(router: Router, port: int, count: int, seed: int) -> list[bytes]:
    """@count frames of all kinds for @port. The last one is forwarded, and so marks the end."""
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
        # a frame that is longer than its packet: the rest must not be forwarded
        lambda: _good4(router, port, draw, ttl, payload) + draw.randbytes(draw.randrange(1, 40)),
        lambda: mac(us) + draw.randbytes(draw.choice([8, 20, 30])),
        lambda: _good4(router, port, draw, 64, draw.randbytes(1501), flags=0x4000),
        lambda: _good4(router, port, draw, ttl, _large(draw), options=_options(draw)),
        lambda: _good4(router, port, draw, 64, _large(draw), flags=_fragment_flags(draw)),
    ]
    return special[kind - 15]()


def _large(draw: random.Random) -> bytes:
    """A payload too big for a link of 1500 bytes."""
    return draw.randbytes(draw.choice([1481, 1482, 1488, 1500, draw.randrange(1481, 1900)]))


def _fragment_flags(draw: random.Random) -> int:
    """The flags of a fragment that is fragmented again; some exceed the longest packet."""
    return draw.choice([0, 0x2000, 0x8000]) | draw.choice([0, 1, 185, 4000, 8000, 8191])


def _fragment(draw: random.Random) -> bytes:
    """A payload that starts like an ICMP message."""
    return bytes([draw.choice([0, 3, 4, 5, 8, 11, 12, 13])]) + draw.randbytes(27)


def _chain(draw: random.Random, dst: str, hops: int) -> bytes:
    """Extension headers, some with an ICMPv6 message behind them."""
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
            b"\7\x1b\4" + bytes(25),  # record route, to the last byte that the router reads
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
