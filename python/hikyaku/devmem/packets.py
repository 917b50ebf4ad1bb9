# SPDX-License-Identifier: BSD-3-Clause
"""Builds Ethernet frames and IP packets, correct and damaged ones, and reads and writes pcap."""

import ipaddress
import struct
from pathlib import Path

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
    """@seconds: the time of each frame."""
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
