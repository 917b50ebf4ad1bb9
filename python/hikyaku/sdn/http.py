# SPDX-License-Identifier: BSD-3-Clause
"""As much of HTTP/1.1 as the controller's REST needs: one request a connection, with limits on all
of it. RFC 9110 and 9112.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from .rest import Request, Response

MAX_HEAD = 16 * 1024
MAX_BODY = 1 << 20
LIMIT = 30.0  # seconds for a request to arrive

_HEADERS = (
    "Content-Security-Policy: default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n"
)


class _Malformed(Exception):
    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


async def _read(reader: asyncio.StreamReader, hosts: frozenset[str] | None) -> Request:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise _Malformed(431, "the head is too long") from None
    first, *lines = head.split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
        raise _Malformed(400, "the first line is no request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise _Malformed(400, "a header is malformed, or there twice")
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise _Malformed(501, "the body has to come with its Content-Length")
    # A page of another site, under a name that resolves to us, could make a browser ask us.
    host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
    if hosts is not None and host.strip("[]") not in hosts:
        raise _Malformed(421, "this is not the host that you ask for")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 9:
        raise _Malformed(400, "Content-Length is no number")
    if int(length) > MAX_BODY:
        raise _Malformed(413, f"a body has at most {MAX_BODY} bytes")
    body = await reader.readexactly(int(length))
    try:
        url = urlsplit(words[1])
        query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=32))
    except ValueError:
        raise _Malformed(400, "the address is malformed") from None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return Request(words[0], url.path, query, token if scheme == "Bearer" else None, body)


def serve(
    answer: Callable[[Request], Awaitable[Response]],
    say: Callable[[str], None],
    hosts: frozenset[str] | None,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """What asyncio.start_server() wants. @hosts: the names under which we may be asked, or None:
    all. The server needs limit=MAX_HEAD."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                request = await asyncio.wait_for(_read(reader, hosts), LIMIT)
                response = await answer(request)
            except _Malformed as bad:
                response = Response(bad.status, f"{bad}\n", "text/plain")
            except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
                return
            except Exception as bug:
                say(f"a request failed: {type(bug).__name__}: {bug}")
                response = Response(500, "this is a bug; the controller's log says more\n")
            body = response.content.encode()
            status = HTTPStatus(response.status)
            writer.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\n{_HEADERS}"
                f"Content-Type: {response.kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await asyncio.wait_for(writer.drain(), LIMIT)
        except (ConnectionError, TimeoutError):
            pass  # whoever asked has gone
        finally:
            writer.close()

    return handle
