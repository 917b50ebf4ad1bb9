# SPDX-License-Identifier: BSD-3-Clause
"""Accepts connections, of which strangers can open any number.

A connection is a *stranger* until known() is called for it: its switch was taken over, or its
request is complete. There are at most @strangers of these. One more takes the place of the oldest
one from the address that has most. So a machine that opens many connections displaces its own.
Neither switches nor requests wait for file descriptors. TLS handshakes count as well.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable

BACKLOG = 256
HANDSHAKE_S = 10.0  # the longest time of a TLS handshake
SWEEP_S = 1.0  # between two searches for connections that have ended, or are too old
_FULL_S = 0.1  # pause while there is no file descriptor


def permit_descriptors() -> None:
    """Raises the limit of open files to the most that this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Listener:
    """Accepts on @listening, which it closes at the end. Each connection gets a protocol of @make.

    @life: seconds after which any connection ends; None: no limit.
    """

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        *,
        strangers: int,
        tls: ssl.SSLContext | None = None,
        life: float | None = None,
    ):
        self._listening, self._make, self._tls, self._life = listening, make, tls, life
        self._limit = strangers
        # In the order in which they came, with their addresses. During its handshake, the task
        # stands for a connection.
        self._strangers: dict[asyncio.BaseTransport | asyncio.Task, str] = {}
        self._since: dict[asyncio.BaseTransport, float] = {}  # of all connections

    async def run(self) -> None:
        """Accepts until it is cancelled. The connections remain."""
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        sweeping = asyncio.create_task(self._sweeping())
        try:
            while True:
                try:
                    sock, address = await loop.sock_accept(self._listening)
                except OSError:  # no descriptor, or the peer has gone already
                    await asyncio.sleep(_FULL_S)
                    continue
                self._make_room()
                task = asyncio.create_task(self._open(sock, address[0]))
                self._strangers[task] = address[0]
        finally:
            sweeping.cancel()
            self._listening.close()

    def known(self, transport: asyncio.BaseTransport) -> None:
        """@transport belongs to a stranger no longer."""
        if self._strangers.pop(transport, None) is None and transport not in self._since:
            self._since[transport] = asyncio.get_running_loop().time()  # before _open() has gone on

    def _make_room(self) -> None:
        if len(self._strangers) >= self._limit:
            self._sweep()
        if len(self._strangers) >= self._limit:
            most = Counter(self._strangers.values()).most_common(1)[0][0]
            oldest = next(each for each, address in self._strangers.items() if address == most)
            del self._strangers[oldest]
            (oldest.cancel if isinstance(oldest, asyncio.Task) else oldest.abort)()

    async def _open(self, sock: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        limit = HANDSHAKE_S if self._tls else None
        try:
            transport, _ = await loop.connect_accepted_socket(
                self._make, sock, ssl=self._tls, ssl_handshake_timeout=limit
            )
        except (OSError, ssl.SSLError):  # no handshake: not one of ours
            sock.close()
            return
        finally:
            self._strangers.pop(asyncio.current_task(), None)
        if transport not in self._since:
            self._strangers[transport] = address
            self._since[transport] = loop.time()

    async def _sweeping(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._sweep()

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for transport, since in list(self._since.items()):
            if self._life is not None and now - since >= self._life:
                transport.abort()
            if transport.is_closing():
                del self._since[transport]
                self._strangers.pop(transport, None)
