# SPDX-License-Identifier: BSD-3-Clause
"""Random and mutated input for the parsers of OpenFlow, LLDP and the registrar.

The fuzzer of HTTP is in test_rest.py. A run has a seed, so that a failure repeats.
"""

import asyncio
import random
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from networks import lldp
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from test_disconnected import Net
from test_registrar import MAC
from test_registrar import Controller as Recorder

from hikyaku.sdn import codec
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.registrar import TO_US, Registrar, sign
from hikyaku.sdn.store import Store
from hikyaku.sdn.tag import RANKS

RUNS = 400
VALUES = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """@data after up to three changes: a byte, a cut, a piece twice, or noise."""
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            byte = rng.choice((*VALUES, rng.randrange(256)))
            data = data[:at] + bytes([byte]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + data[at // 2 :]
        else:
            data = data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    return data


# ---- OpenFlow ------------------------------------------------------------------------------------


class Writer:
    """In place of a StreamWriter to a switch."""

    def __init__(self) -> None:
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: 0, abort=lambda: None)

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("10.0.0.9", 1) if name == "peername" else None

    def write(self, _: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def message(kind: int, xid: int, body: bytes, rng: random.Random) -> bytes:
    """Mostly with the right length, so that what follows is reached."""
    body = mutated(rng, body)
    length = 8 + len(body) if rng.random() < 0.95 else rng.randrange(1 << 16)
    return struct.pack("!BBHI", 4, kind, min(length, 0xFFFF), xid) + body


def session(rng: random.Random) -> bytes:
    """The messages of a switch: a greeting, answers to the first requests, and its own messages."""
    port = struct.pack("!I4x6s2x16s8I", 3, bytes(6), b"p3\x1b[2J", *[0] * 8)
    match = struct.pack("!HHHHI4x", 1, 12, 0x8000, 4, 3)
    frame = bytes(6) + bytes.fromhex("020000000001") + b"\x08\x00" + bytes(46)
    packet = struct.pack("!IHBBQ", of.OFP_NO_BUFFER, len(frame), 0, 0, 0) + match + bytes(2)
    features = struct.pack("!QIBB2xII", 7, 0, 2, 0, 0, 0)
    groups = struct.pack("!HHI", of.OFPMP_GROUP_FEATURES, 0, 0) + bytes(40)
    bodies = [
        (of.OFPT_PACKET_IN, packet + frame),
        (of.OFPT_PORT_STATUS, bytes(8) + port),
        (of.OFPT_ERROR, struct.pack("!HH", rng.randrange(14), rng.randrange(16)) + bytes(64)),
        (of.OFPT_ECHO_REQUEST, b"abc"),
        (of.OFPT_MULTIPART_REPLY, groups),
        (of.OFPT_MULTIPART_REPLY, struct.pack("!HHI", of.OFPMP_PORT_DESC, 0, 0) + port),
        (of.OFPT_FEATURES_REPLY, features),
        (rng.randrange(256), rng.randbytes(rng.randrange(64))),
    ]
    data = [struct.pack("!BBHI", 4, of.OFPT_HELLO, 8, 1)]
    data.append(message(of.OFPT_FEATURES_REPLY, 2, features, rng))
    for _ in range(rng.randrange(12)):
        kind, body = rng.choice(bodies)
        data.append(message(kind, rng.randrange(6), body, rng))
    return b"".join(data)


@pytest.mark.parametrize("seed", range(4))
def test_openflow(tmp_path: Path, seed: int) -> None:
    """A connection ends by any broken message, and the log can be read."""
    rng, said = random.Random(seed), []
    controller = Controller(Store(tmp_path / "sdn"), said.append)

    async def connected(data: bytes) -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        await controller._connected(reader, Writer())

    async def all_of_them() -> None:
        for _ in range(RUNS // 4):
            await asyncio.wait_for(connected(session(rng)), 30)

    asyncio.run(all_of_them())
    assert said
    assert all(line.isprintable() for line in said)
    assert controller.switches == {}


def test_lldp(tmp_path: Path) -> None:
    """Frames of hosts make no link, and names that can be read."""
    net, rng = Net(tmp_path / "sdn"), random.Random(5)
    port = min(net.wired.hosts.values())
    links = dict(net.c.network.graph.links)
    probe = net.c.discovery.probe(port, net.now)
    for _ in range(RUNS):
        frame = mutated(rng, rng.choice((lldp(b"name\x1b", b"eth\x07"), probe)))
        net.c.noise.forget([port])
        sent = parser.OFPPacketIn(codec.DESC, match=parser.OFPMatch(in_port=port[1]))
        sent.data = frame
        net.c._told(net.c.switches[port[0]].channel, sent)
    assert net.c.network.graph.links == links
    assert net.c.discovery.counts["forged"] > 0
    known = net.c.names._learned.values()
    assert known
    assert all(text.isprintable() for name in known for text in name)


# ---- the registrar -------------------------------------------------------------------------------


def test_registrar(tmp_path: Path) -> None:
    rng, controller = random.Random(6), Recorder()
    words = [b"3", b"3,4", b"located", b"group", b"drop", b"1", MAC.encode(), b"2047", b"2048"]
    with Registrar(controller, "x", tmp_path / "r") as registrar:
        for _ in range(5 * RUNS):
            text = b" ".join(rng.choices(words, k=2))
            line = mutated(rng, text).partition(b"\n")[0].decode(errors="surrogateescape")
            right = sign(registrar.secret, TO_US, "nonce", line)
            answer = registrar.answer("nonce", f"{right} {line}")
            assert len(answer.encode()) < 512
            assert answer.isprintable()
            forged = mutated(rng, f"{right} {line}".encode(errors="surrogateescape"))
            forged = forged.decode(errors="surrogateescape")
            if forged != f"{right} {line}":
                assert "is another job's" in registrar.answer("nonce", forged)
    ranks = [data for _, path, *rest in controller.calls if "ranks" in path for data in rest]
    assert ranks
    assert all(int(rank) < RANKS for data in ranks for rank in data)
