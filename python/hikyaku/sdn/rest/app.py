# SPDX-License-Identifier: BSD-3-Clause
"""The routes of the HTTP interface, the checks of every request, and the server (aiohttp)."""

import asyncio
import hmac
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import resources

from aiohttp import web

from ...stats.exposition import CONTENT_TYPE
from ..controller import Controller
from ..listener import Listener
from .changes import Changes
from .forms import Refused
from .metrics import metrics
from .views import Views

MAX_HEAD = 16 * 1024  # bytes of the request line, and of a header
MAX_BODY = 1 << 20
MAX_QUERY = 32  # parameters
CONNECTION_S = 60.0  # the longest life of a connection
WAITING = 256  # connections without a complete request

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Server": "hikyaku",
}

# The files of the page, in page/.
_PAGE = {
    "index.html": "text/html",
    "style.css": "text/css",
    **dict.fromkeys(
        ("main.js", "network.js", "layout.js", "labels.js", "map.js", "choice.js", "tables.js"),
        "text/javascript",
    ),
}

# Called when a request has been received completely.
COMPLETE = web.AppKey("complete", Callable[[web.BaseRequest], None])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _addresses_us(host: str, names: frozenset[str]) -> bool:
    """Whether the Host header @host names this server: by an IP address, or by one of @names. A
    page of another site, whose name resolves to us (DNS rebinding), would send its own name."""
    match = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::\d+)?|([^:]+)(?::\d+)?", host)
    if not match:
        return False
    name = match[1] or match[2]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().rstrip(".") in names
    return True


def _check_form(request: web.Request, names: frozenset[str]) -> None:
    """Refuses a request by its form, whatever it asks for."""
    if len(request.raw_path) > MAX_HEAD:
        raise Refused(431, "the request line is too long")
    if not request.raw_path.startswith("/"):
        raise Refused(400, "the request target must be a path")
    if "Transfer-Encoding" in request.headers:
        raise Refused(501, "send the body with a Content-Length")
    if (request.content_length or 0) > MAX_BODY:
        raise Refused(413, f"a body has at most {MAX_BODY} bytes")
    if not _addresses_us(request.headers.get("Host", ""), names):
        raise Refused(421, "this server has another name; fix: use its address, or --rest-name")
    if len(request.query) > MAX_QUERY:
        raise Refused(400, f"a query has at most {MAX_QUERY} parameters")


def _check_token(request: web.Request, token: str) -> None:
    """Requests that change something must show @token."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    own = hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())
    if request.method != "GET" and not (scheme == "Bearer" and own):
        raise Refused(
            401,
            "the token is missing or wrong; fix: send the header 'Authorization: Bearer TOKEN', "
            "with TOKEN from the file 'token' in the controller's directory (sdn run --state)",
        )


def _failed(error: str, status: int) -> web.Response:
    return web.json_response({"error": error}, status=status)


def make_app(
    controller: Controller,
    token: str,
    say: Callable[[str], None],
    names: frozenset[str] = frozenset({"localhost"}),
) -> web.Application:
    """@token: a request that changes something must show it. @say: reports internal errors.

    @names: those by which clients may address us, in lower case. IP addresses are always permitted.
    """
    views, changes = Views(controller), Changes(controller)

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check_form(request, names)
            if request.match_info.http_exception is None:
                _check_token(request, token)
            if request.method != "GET":
                await request.read()
            app[COMPLETE](request)
            return await handler(request)
        except Refused as refused:
            return _failed(str(refused), refused.status)
        except web.HTTPException as error:
            what = f"{error.reason}: {request.method} {request.path[:100]}"
            return _failed(f"{what}; fix: use a call of the table in docs/sdn.md", error.status)
        except Exception as bug:
            say(f"a request failed: {type(bug).__name__}: {bug}")
            return _failed("this is a bug; the controller's log has details", 500)

    async def page(request: web.Request) -> web.Response:
        name = request.match_info.get("file", "index.html")
        if name not in _PAGE:
            raise web.HTTPNotFound
        text = resources.files(__package__).joinpath("page", name).read_text()
        return web.Response(text=text, content_type=_PAGE[name])

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(text=metrics(controller), headers={"Content-Type": CONTENT_TYPE})

    async def finish(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.force_close()

    app = web.Application(middlewares=[checked], client_max_size=MAX_BODY)
    app.on_response_prepare.append(finish)
    app[COMPLETE] = lambda _: None
    job = r"/v1/jobs/{job:\d{1,5}}"
    for method, path, call in (
        ("GET", "/", page),
        ("GET", "/page/{file}", page),
        ("GET", "/metrics", exposition),
        ("GET", "/v1/status", views.status),
        ("GET", "/v1/topology", views.topology),
        ("GET", "/v1/functions", views.functions),
        ("GET", "/v1/path", views.untagged_path),
        ("GET", "/v1/jobs", views.jobs),
        ("GET", job, views.job),
        ("GET", job + "/path", views.path),
        ("GET", job + "/ranks", views.located),
        ("POST", "/v1/jobs", changes.add_job),
        ("DELETE", job, changes.remove_job),
        ("PUT", job + "/ranks", changes.set_ranks),
        ("PUT", job + "/lease", changes.set_lease),
        ("PUT", job + r"/groups/{group:\d{1,5}}", changes.set_group),
    ):
        app.router.add_route(method, path, call)
    return app


@asynccontextmanager
async def serving(
    app: web.Application, listening: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serves @app on @listening. A connection ends after CONNECTION_S, whatever its client does."""
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=1,
        lingering_time=0,
        auto_decompress=False,
        max_line_size=2 * MAX_HEAD,
        max_field_size=MAX_HEAD,
    )

    def connection() -> asyncio.BaseProtocol:
        return runner.server()

    listener = Listener(listening, connection, strangers=WAITING, life=CONNECTION_S, tls=tls)
    app[COMPLETE] = lambda request: listener.known(request.transport)
    await runner.setup()
    accepting = asyncio.create_task(listener.run())
    try:
        yield
    finally:
        accepting.cancel()
        await asyncio.wait([accepting])
        await runner.cleanup()
