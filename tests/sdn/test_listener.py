# SPDX-License-Identifier: BSD-3-Clause
"""Idle connections of strangers: they displace each other, but no switch and no request."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

import pytest
from os_ken.ofproto import ofproto_v1_3_parser as parser

from hikyaku.sdn import controller as controller_module
from hikyaku.sdn.codec import DESC
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.listener import Listener
from hikyaku.sdn.rest import app
from hikyaku.sdn.store import Store

LIMIT_S = 20
FEW = 8
GOOD = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


async def connect(to: tuple[str, int], source: str = "127.0.0.1") -> tuple:
    return await asyncio.open_connection(*to, local_addr=(source, 0))


async def closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), LIMIT_S)
    return True


def greeting() -> bytes:
    hello = parser.OFPHello(DESC)
    hello.set_xid(1)
    hello.serialize()
    return bytes(hello.buf)


async def attacked(serve: Callable, speak: bytes, most: int) -> bytes:
    """A server gets @most idle connections and as many again; then one speaks. Returns the
    answer."""
    server = listening()
    at = server.getsockname()
    async with serve(server):
        idle = [await connect(at) for _ in range(2 * most)]
        assert all([await closed(reader) for reader, _ in idle[:most]]), "the oldest have gone"
        reader, writer = await connect(at)
        writer.write(speak)
        answer = await asyncio.wait_for(reader.readexactly(16), LIMIT_S)
        for _, each in [*idle, (None, writer)]:
            each.close()
        return answer


class Runs:
    """async with Runs(controller)(socket): it listens there for switches."""

    def __init__(self, controller: Controller):
        self._c = controller

    def __call__(self, server: socket.socket) -> "Runs":
        self._server = server
        return self

    async def __aenter__(self) -> None:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._c.run([self._server], None, ready.set))
        await ready.wait()

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def test_a_switch_is_served_beside_idle_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(controller_module, "CONNECTING", FEW)
    controller = Controller(Store(tmp_path / "sdn"), lambda _: None)
    answer = asyncio.run(attacked(Runs(controller), greeting(), FEW))
    assert answer[8:10] == bytes([4, 5]), "a request for its features, after our greeting"


def test_a_request_is_answered_beside_idle_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "WAITING", FEW)
    controller = Controller(Store(tmp_path / "sdn"), lambda _: None)
    made = app.make_app(controller, "token", pytest.fail)
    answer = asyncio.run(attacked(lambda server: app.serving(made, server), GOOD, FEW))
    assert answer.startswith(b"HTTP/1.1 200")


async def _kept(tls: ssl.SSLContext | None) -> list[bool]:
    """Whether the connections of a quiet machine are closed, when another one opens many."""
    server = listening()
    at = server.getsockname()
    listener = Listener(server, asyncio.Protocol, strangers=FEW, tls=tls)
    running = asyncio.create_task(listener.run())
    quiet = [await connect(at, "127.0.0.2") for _ in range(2)]
    many = [await connect(at) for _ in range(3 * FEW)]
    assert all([await closed(reader) for reader, _ in many[: 2 * FEW]])
    ended = [reader.at_eof() for reader, _ in quiet]
    for _, writer in [*quiet, *many]:
        writer.close()
    running.cancel()
    await asyncio.wait([running])
    return ended


@pytest.mark.parametrize("tls", [None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)])
def test_a_machine_with_many_connections_displaces_its_own(tls):
    """Also those that do not begin the handshake of TLS."""
    assert asyncio.run(_kept(tls)) == [False, False]


def test_a_known_connection_is_not_displaced():
    async def known() -> bool:
        server = listening()
        at = server.getsockname()
        made: list[asyncio.StreamReaderProtocol] = []

        async def knows(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            listener.known(writer.transport)

        def make() -> asyncio.StreamReaderProtocol:
            made.append(asyncio.StreamReaderProtocol(asyncio.StreamReader(), knows))
            return made[-1] if len(made) == 1 else asyncio.Protocol()

        listener = Listener(server, make, strangers=1)
        running = asyncio.create_task(listener.run())
        first, writer = await connect(at)
        while not made or listener._strangers or not listener._since:
            await asyncio.sleep(0)
        second, third = await connect(at), await connect(at)
        assert await closed(second[0])
        ended = first.at_eof()
        for each in (writer, second[1], third[1]):
            each.close()
        running.cancel()
        await asyncio.wait([running])
        return ended

    assert not asyncio.run(known())
