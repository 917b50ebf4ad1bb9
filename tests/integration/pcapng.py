# SPDX-License-Identifier: BSD-3-Clause
"""Reads captures twice: to the letter of pcapng, and by tshark with our dissector."""

import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from execute import execute
from hikyaku.checkout import ROOT

LUA = ROOT / "tools/wireshark/hikyaku.lua"
IN, OUT = 1, 2  # a packet's direction


@dataclass
class Interface:
    name: str
    options: dict[int, bytes]
    snaplen: int
    packets: int = 0
    longest: int = 0
    statistics: list[dict[int, bytes]] = field(default_factory=list)

    def count(self, code: int) -> int:
        (statistics,) = self.statistics
        return struct.unpack("=Q", statistics[code])[0]

    @property
    def seen(self) -> int:
        return self.count(4)

    @property
    def dropped(self) -> int:
        return self.count(5)


def options(raw: bytes) -> dict[int, bytes]:
    found = {}
    while raw:
        code, size = struct.unpack_from("=HH", raw)
        if code == 0:
            assert raw == b"\0\0\0\0"
            return found
        assert code not in found
        found[code] = raw[4 : 4 + size]
        raw = raw[4 + (size + 3) // 4 * 4 :]
    pytest.fail("options do not end")


def read(path: Path) -> list[Interface]:
    """The interfaces of a capture. Every block must be whole, and make sense."""
    raw = path.read_bytes()
    found: list[Interface] = []
    at = 0
    while at < len(raw):
        kind, size = struct.unpack_from("=II", raw, at)
        block = raw[at : at + size]
        assert size % 4 == 0
        assert len(block) == size
        assert struct.unpack("=I", block[-4:])[0] == size
        body = block[8:-4]
        if at == 0:
            assert kind == 0x0A0D0D0A
            assert struct.unpack_from("=IHH", body) == (0x1A2B3C4D, 1, 0)
            assert options(body[16:])[4].startswith(b"hikyaku capture ")
        elif kind == 1:
            link, _, snaplen = struct.unpack_from("=HHI", body)
            of = options(body[8:])
            assert link == 1
            assert of[9] == b"\x09"  # nanoseconds
            found.append(Interface(of[2].decode(), of, snaplen))
        elif kind == 6:
            number, _, _, captured, length = struct.unpack_from("=IIIII", body)
            assert captured <= min(length, found[number].snaplen)
            of = options(body[20 + (captured + 3) // 4 * 4 :])
            assert struct.unpack("=I", of[2])[0] in (IN, OUT)
            assert not found[number].statistics
            found[number].packets += 1
            found[number].longest = max(found[number].longest, captured)
        else:
            assert kind == 5
            found[struct.unpack_from("=I", body)[0]].statistics.append(options(body[12:]))
        at += size
    return found


FIELDS = {
    "interface": "frame.interface_name",
    "queue": "frame.interface_queue",
    "direction": "frame.packet_flags_direction",
    "type": "hikyaku.type",
    "src": "hikyaku.src",
    "dst": "hikyaku.dst",
    "psn": "hikyaku.psn",
    "tsval": "hikyaku.tsval",
    "resent": "hikyaku.flags.resent",
    "key": "hikyaku.job",
    "malformed": "_ws.malformed",
    "protocols": "frame.protocols",
    "bad_crc": "hikyaku.crc.bad",
}


def number(text: str) -> int:
    return {"True": 1, "False": 0}.get(text) if text in ("True", "False") else int(text, 0)


def dissect(capture: Path) -> list[dict]:
    """Each frame's fields. No frame may be malformed, or of another protocol."""
    argv = ["tshark", "-X", f"lua_script:{LUA}", "-r", str(capture), "-T", "fields"]
    argv += [word for name in FIELDS.values() for word in ("-e", name)]
    done = execute(argv, timeout=120)
    frames = []
    for line in done.stdout.splitlines():
        frame = dict(zip(FIELDS, line.split("\t"), strict=True))
        assert "hikyaku" in frame.pop("protocols").split(":")
        assert not frame.pop("malformed")
        assert not frame.pop("bad_crc")
        interface = frame.pop("interface")
        frames.append({"interface": interface, **{k: number(v) for k, v in frame.items()}})
    return frames
