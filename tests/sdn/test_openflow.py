# SPDX-License-Identifier: BSD-3-Clause
"""The OpenFlow channel: greetings, silent or slow switches, wrong answers, missing features.

If there is no common version, the error names the fix, however the switch closes the connection.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable

import pytest
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from hikyaku.sdn import openflow
from hikyaku.sdn.codec import DESC
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.openflow import Channel, Gone, versions
from hikyaku.sdn.store import Store

HELLO, ERROR, FEATURES = 0, 1, 5
FIX = "protocols=OpenFlow13"
INCOMPATIBLE = struct.pack("!HH", of.OFPET_HELLO_FAILED, of.OFPHFC_INCOMPATIBLE)


def message(version: int, kind: int, body: bytes = b"") -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), 1) + body


def bitmap(*numbers: int) -> bytes:
    return struct.pack("!HHI", 1, 8, sum(1 << n for n in numbers))


def greeted(sent: bytes, *, reset: bool = False) -> tuple[str, bool, bytes]:
    """The end of a connection to a switch that sends @sent and closes.

    Returns the controller's error, whether it sent requests, and the bytes that the switch got.
    @reset: the switch resets the connection, as if it had not read all bytes.
    """
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
            for _ in range(3):  # the connection is closed: the second write fails
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
        assert INCOMPATIBLE in got, "the switch gets an error as well"


@pytest.mark.parametrize(
    "sent",
    [
        message(4, HELLO),
        message(4, HELLO, bitmap(4)),
        message(6, HELLO),  # without a bitmap: all up to 1.5
        message(6, HELLO, bitmap(1, 4, 6)),
        message(4, HELLO, b"\0\1\0\xff"),  # a truncated element
        message(4, HELLO, b"\0\1\0\0"),
    ],
    ids=bytes.hex,
)
def test_a_version_in_common(sent):
    text, began, _ = greeted(sent)
    assert began
    assert "has closed the connection" in text


def test_a_switch_that_refuses_our_greeting():
    text, began, _ = greeted(message(4, ERROR, INCOMPATIBLE))
    assert "does not take our greeting: OFPHFC_INCOMPATIBLE" in text
    assert FIX in text
    assert not began


def test_an_error_in_another_version_after_the_greeting():
    text, began, _ = greeted(message(6, HELLO) + message(1, ERROR, INCOMPATIBLE))
    assert "speaks OpenFlow 1.0, not 1.3" in text
    assert FIX in text
    assert began


def test_no_greeting():
    text, began, _ = greeted(message(4, FEATURES))
    assert "did not greet" in text
    assert not began


def test_versions_in_a_bitmap_of_several_words():
    assert versions(4, struct.pack("!HHII", 1, 12, 1 << 4, 1 << 3)) == {4, 35}


# ---- a switch that does not read -----------------------------------------------------------------


async def _unread(size: int) -> str | None:
    """The reason for which a switch that reads none of @size bytes is disconnected."""
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


def test_a_switch_that_reads_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(openflow, "MAX_WAITING", 1 << 20)
    assert "does not read" in asyncio.run(_unread(32 << 20))


def test_a_silent_switch_is_disconnected_while_messages_wait(monkeypatch):
    monkeypatch.setattr(openflow, "ECHO_EVERY", 0.01)
    monkeypatch.setattr(openflow, "SILENT_LIMIT", 0.02)
    assert "was silent" in asyncio.run(_unread(16 << 20))


# ---- wrong answers -------------------------------------------------------------------------------

BARRIER_REPLY, MULTIPART, MULTIPART_REPLY, PORT_STATS, MORE = 21, 18, 19, 4, 1
GROUP_FEATURES = 8


async def _peer(script: Callable[[int, bytes], list[bytes] | None], run: Callable) -> None:
    """A switch that greets, and answers each message of the controller by those of @script.

    @script gets the type and body of a message; if it returns None, the switch closes.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        switch = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    streams = await asyncio.open_connection(sock=switch)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(message(4, HELLO))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(8)
                _, kind, length, xid = struct.unpack("!BBHI", head)
                body = await reader.readexactly(length - 8)
                answers = script(kind, body)
                if answers is None:
                    break
                for answer in answers:
                    writer.write(answer[:4] + struct.pack("!I", xid) + answer[8:])
        writer.close()

    speaking = asyncio.create_task(speak(*streams))
    await asyncio.wait_for(run(*await asyncio.open_connection(sock=ours)), 30)
    await asyncio.wait_for(speaking, 30)


def answered(script: Callable[[int, bytes], list[bytes] | None]) -> tuple[str, str]:
    """Requests port counters from such a switch; the errors of the channel and the request."""
    ends = []

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel, asked = Channel(reader, writer, lambda *_: None), []
        request = parser.OFPPortStatsRequest(DESC, 0, of.OFPP_ANY)

        def opened() -> None:
            asked.append(asyncio.create_task(channel.request(request)))

        with pytest.raises(Gone) as gone:
            await channel.run(opened)
        ends.append(str(gone.value))
        with pytest.raises(Gone) as gone:
            await asked[0]
        ends.append(str(gone.value))
        with pytest.raises(Gone):
            await asyncio.wait_for(channel.barrier(), openflow.ANSWER_LIMIT / 2)

    asyncio.run(_peer(script, run))
    return ends[0], ends[1]


def test_an_answer_of_another_type_ends_the_connection():
    ends = answered(lambda kind, _: [message(4, BARRIER_REPLY)] if kind == MULTIPART else [])
    assert "answered OFPPortStatsRequest by OFPBarrierReply" in ends[0]
    assert "has gone" in ends[1]


def test_an_endless_answer_ends_the_connection(monkeypatch):
    monkeypatch.setattr(openflow, "MAX_PARTS", 4)
    part = message(4, MULTIPART_REPLY, struct.pack("!HHI", PORT_STATS, MORE, 0))
    ends = answered(lambda kind, _: [part] * 4 if kind == MULTIPART else [])
    assert "by more than 4 messages" in ends[0]


def test_an_answer_that_cannot_be_handled_ends_the_connection():
    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, lambda *_: {}["what"])
        with pytest.raises(Gone, match=r"OFPBarrierReply cannot be handled: KeyError"):
            await channel.run(lambda: channel.send(parser.OFPBarrierRequest(DESC)))

    asyncio.run(_peer(lambda *_: [message(4, BARRIER_REPLY)], run))


async def _cancelled_with_its_answer() -> bool:
    """Two answers come at once, and who gets the first cancels the other request. Returns whether
    that was cancelled."""
    ours, switch = socket.socketpair()
    with switch:
        _, writer = await asyncio.open_connection(sock=ours)
        reader = asyncio.StreamReader()
        reader.feed_data(message(4, HELLO))
        channel, asked = Channel(reader, writer, lambda *_: None), []

        async def first() -> None:
            await channel.barrier()
            asked[1].cancel()

        async def second() -> None:
            await channel.barrier()
            await asyncio.sleep(0)

        def opened() -> None:
            asked.extend(asyncio.create_task(each()) for each in (first, second))

        running = asyncio.create_task(channel.run(opened))
        while len(channel._waiting) < 2:
            await asyncio.sleep(0)
        answers = [struct.pack("!BBHI", 4, BARRIER_REPLY, 8, xid) for xid in channel._waiting]
        reader.feed_data(b"".join(answers))
        await asked[0]
        await asyncio.wait(asked[1:])
        reader.feed_eof()
        with pytest.raises(Gone):
            await running
        return asked[1].cancelled()


def test_a_request_is_cancelled_though_its_answer_has_come():
    """A controller that ends cancels its regular requests, and waits for their ends: one that went
    on would keep it for ever."""
    assert asyncio.run(asyncio.wait_for(_cancelled_with_its_answer(), 30))


def test_a_switch_with_invalid_answers_is_not_used(tmp_path):
    """It sends its group features in two parts."""
    messages: list[str] = []
    controller = Controller(Store(tmp_path / "sdn"), messages.append)
    features = message(4, FEATURES + 1, struct.pack("!QIBB2xII", 7, 0, 2, 0, 0, 0))
    part = [struct.pack("!HHI", GROUP_FEATURES, more, 0) + bytes(40) for more in (MORE, 0)]

    def script(kind: int, _: bytes) -> list[bytes]:
        if kind == FEATURES:
            return [features]
        return [message(4, MULTIPART_REPLY, p) for p in part] if kind == MULTIPART else []

    asyncio.run(_peer(script, controller._connected))
    assert any("switch 7 is not used: its answers are invalid" in line for line in messages)
    assert controller.switches == {}


# ---- required features of a switch ---------------------------------------------------------------


def checked(tmp_path, refuse: Callable[[parser.OFPFlowMod], tuple[int, int] | None]) -> list[str]:
    """The controller's messages about a switch that refuses rules by the errors of @refuse.

    The switch closes the connection when the controller asks to be its master.
    """
    messages: list[str] = []
    controller = Controller(Store(tmp_path / "sdn"), messages.append)
    features = message(4, FEATURES + 1, struct.pack("!QIBB2xII", 7, 0, 2, 0, 0, 0))
    groups = struct.pack("!HHI", GROUP_FEATURES, 0, 0) + struct.pack("!I", 0xF) + bytes(36)

    def script(kind: int, body: bytes) -> list[bytes] | None:
        if kind == FEATURES:
            return [features]
        if kind == MULTIPART:
            return [message(4, MULTIPART_REPLY, groups)]
        if kind == of.OFPT_FLOW_MOD:
            whole = message(4, kind, body)
            mod = parser.OFPFlowMod.parser(None, 4, kind, len(whole), 1, whole)
            error = refuse(mod) if mod.command == of.OFPFC_ADD else None
            return [message(4, ERROR, struct.pack("!HH", *error))] if error else []
        if kind == BARRIER_REPLY - 1:
            return [message(4, BARRIER_REPLY)]
        return None if kind == of.OFPT_ROLE_REQUEST else []

    asyncio.run(_peer(script, controller._connected))
    return messages


NO_MASK = of.OFPET_BAD_MATCH, of.OFPBMC_BAD_DL_ADDR_MASK
NO_SET = of.OFPET_BAD_ACTION, of.OFPBAC_BAD_SET_TYPE
TABLE_FULL = of.OFPET_FLOW_MOD_FAILED, of.OFPFMFC_TABLE_FULL


def test_errors_of_experimenters_are_described():
    error = parser.OFPErrorMsg(
        DESC, of.OFPET_EXPERIMENTER, data=b"", exp_type=5, experimenter=0x2320
    )
    assert openflow.describe(error) == "error 5 of experimenter 0x2320"


@pytest.mark.parametrize("table", [0, 1])
def test_a_switch_without_masked_addresses_is_refused(tmp_path, table):
    (message,) = checked(tmp_path, lambda mod: NO_MASK if mod.table_id == table else None)
    assert f"switch 7 is not used: its flow table {table} does not take rules that match" in message
    assert "OFPBMC_BAD_DL_ADDR_MASK" in message
    assert "use another switch" in message


def test_a_switch_that_cannot_set_addresses_is_refused(tmp_path):
    def refuse(mod: parser.OFPFlowMod) -> tuple[int, int] | None:
        actions = [a for i in mod.instructions for a in getattr(i, "actions", ())]
        sets = any(isinstance(a, parser.OFPActionSetField) for a in actions)
        return NO_SET if sets else None

    (message,) = checked(tmp_path, refuse)
    assert "match masked Ethernet addresses and set them: OFPBAC_BAD_SET_TYPE" in message


@pytest.mark.parametrize("error", [None, TABLE_FULL])
def test_a_switch_with_all_features_is_accepted(tmp_path, error):
    (message,) = checked(tmp_path, lambda _: error)
    assert "is not used" not in message
    assert "has closed the connection" in message
