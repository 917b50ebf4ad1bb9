# SPDX-License-Identifier: BSD-3-Clause
"""The first words between a switch and the controller: every way to have no version in common ends
with the fix, however the switch closes."""

import asyncio
import socket
import struct

import pytest
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from hikyaku.sdn import openflow
from hikyaku.sdn.codec import DESC
from hikyaku.sdn.openflow import Channel, Gone, versions

HELLO, ERROR, FEATURES = 0, 1, 5
FIX = "protocols=OpenFlow13"
INCOMPATIBLE = struct.pack("!HH", of.OFPET_HELLO_FAILED, of.OFPHFC_INCOMPATIBLE)


def message(version: int, kind: int, body: bytes = b"") -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), 1) + body


def bitmap(*numbers: int) -> bytes:
    return struct.pack("!HHI", 1, 8, sum(1 << n for n in numbers))


def greeted(sent: bytes, *, reset: bool = False) -> tuple[str, bool, bytes]:
    """What the controller says of a switch that sends this and closes, whether it began to ask, and
    what the switch got. @reset: it closes as one does that has left something unread."""
    return asyncio.run(asyncio.wait_for(_greeted(sent, reset), 30))


async def _greeted(sent: bytes, reset: bool) -> tuple[str, bool, bytes]:
    loop = asyncio.get_running_loop()
    began: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        switch = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with switch:
        switch.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours)
        channel = Channel(reader, writer, lambda *_: None)

        def ask() -> None:
            began.append(True)
            for _ in range(3):  # into a closed connection: from the second on it breaks
                channel.send(parser.OFPFeaturesRequest(DESC))

        running = asyncio.create_task(channel.run(ask))
        got = await loop.sock_recv(switch, 4096)
        await loop.sock_sendall(switch, sent)
        if reset:
            switch.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            switch.close()
        else:
            switch.shutdown(socket.SHUT_WR)
            while part := await loop.sock_recv(switch, 4096):
                got += part
        with pytest.raises(Gone) as gone:
            await running
    return str(gone.value), bool(began), got


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("sent", "spoken"),
    [
        (message(1, HELLO), "1.0"),
        (message(1, HELLO) + message(1, ERROR, INCOMPATIBLE), "1.0"),
        (message(3, HELLO), "1.0, 1.1, 1.2"),
        (message(1, HELLO, bitmap(1)) + message(1, ERROR, INCOMPATIBLE), "1.0"),
        (message(6, HELLO, bitmap(1, 5, 6)), "1.0, 1.4, 1.5"),
        (message(6, HELLO, bitmap()), "of no version"),
        (message(6, HELLO, b"\0\x09\0\x05xyz\0" + bitmap(6)), "1.5"),
        (message(1, ERROR, INCOMPATIBLE), "1.0"),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else "",
)
def test_no_version_in_common(sent, spoken, reset):
    text, began, got = greeted(sent, reset=reset)
    assert f"speaks OpenFlow {spoken}, not 1.3" in text
    assert FIX in text
    assert not began
    if not reset and sent[1] == HELLO:
        assert INCOMPATIBLE in got, "the switch is told as well"


@pytest.mark.parametrize(
    "sent",
    [
        message(4, HELLO),
        message(4, HELLO, bitmap(4)),
        message(6, HELLO),  # without a bitmap: all up to 1.5
        message(6, HELLO, bitmap(1, 4, 6)),
        message(4, HELLO, b"\0\1\0\xff"),  # an element that is cut
        message(4, HELLO, b"\0\1\0\0"),
    ],
    ids=bytes.hex,
)
def test_a_version_in_common(sent):
    text, began, _ = greeted(sent)
    assert began
    assert "has closed the connection" in text


def test_a_switch_that_does_not_take_our_greeting():
    text, began, _ = greeted(message(4, ERROR, INCOMPATIBLE))
    assert "does not take our greeting: OFPHFC_INCOMPATIBLE" in text
    assert FIX in text
    assert not began


def test_what_is_said_after_a_greeting_in_another_version():
    text, began, _ = greeted(message(6, HELLO) + message(1, ERROR, INCOMPATIBLE))
    assert "speaks OpenFlow 1.0, not 1.3" in text
    assert FIX in text
    assert began


def test_no_greeting():
    text, began, _ = greeted(message(4, FEATURES))
    assert "did not greet" in text
    assert not began


def test_versions_beyond_the_first_word():
    assert versions(4, struct.pack("!HHII", 1, 12, 1 << 4, 1 << 3)) == {4, 35}


# ---- a switch that does not read -----------------------------------------------------------------


async def _deaf(size: int) -> str | None:
    """Why the controller has let go of a switch that reads nothing of @size bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        switch = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with switch:
        switch.sendall(message(4, HELLO))
        reader, writer = await asyncio.open_connection(sock=ours)
        channel = Channel(reader, writer, lambda *_: None)

        def speak() -> None:
            for _ in range(size >> 15):
                channel.send(parser.OFPEchoRequest(DESC, bytes(1 << 15)))

        with pytest.raises(Gone):
            await asyncio.wait_for(channel.run(speak), 30)
        return channel.failed


def test_a_switch_that_reads_nothing_is_let_go_though_much_is_not_written(monkeypatch):
    monkeypatch.setattr(openflow, "MAX_WAITING", 1 << 20)
    assert "does not read" in asyncio.run(_deaf(32 << 20))


def test_a_silent_switch_is_let_go_though_much_is_not_written(monkeypatch):
    monkeypatch.setattr(openflow, "ECHO_EVERY", 0.01)
    monkeypatch.setattr(openflow, "SILENT_LIMIT", 0.02)
    assert "was silent" in asyncio.run(_deaf(16 << 20))
