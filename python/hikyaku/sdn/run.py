# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sdn run`: the sockets, the signals, and the controller between them."""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import HikyakuError
from . import http
from .controller import Controller
from .discovery import EXPIRY
from .rest import Rest
from .store import Store

CLONE_NEWNET = 0x4000_0000
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Options:
    state: Path
    openflow: tuple[str, int]
    rest: tuple[str, int]
    netns: Path | None = None  # where switches connect from, if not from here
    certificate: Path | None = None  # all three or none: OpenFlow over TLS
    key: Path | None = None
    ca: Path | None = None
    host_expiry: float = EXPIRY
    rest_in_clear: bool = False  # REST may be reached by others, and its token be read on the way


@contextlib.contextmanager
def _inside(netns: Path | None) -> Iterator[None]:
    """In network namespace @netns, for this thread: a socket stays in the one that it was made
    in."""
    if netns is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd: int) -> None:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            error = os.strerror(ctypes.get_errno())
            raise HikyakuError(f"cannot enter network namespace {netns}: {error}", "run as root")

    with Path("/proc/thread-self/ns/net").open() as own, netns.open() as theirs:
        enter(theirs.fileno())
        try:
            yield
        finally:
            enter(own.fileno())


def _listen(address: tuple[str, int], what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(256)
    except OSError as bad:
        made.close()
        raise HikyakuError(
            f"cannot listen on {address[0]}:{address[1]} for {what}: {bad.strerror}",
            "is another controller running there? choose another address",
        ) from None
    return made


def tls_context(options: Options) -> ssl.SSLContext | None:
    """Both ends show a certificate of @ca: a switch that has none is not talked to."""
    files = (options.certificate, options.key, options.ca)
    if not any(files):
        return None
    if not all(files):
        raise HikyakuError("TLS needs --certificate, --key and --ca", "see docs/sdn.md")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(options.certificate, options.key)
        context.load_verify_locations(options.ca)
    except (OSError, ssl.SSLError) as bad:
        raise HikyakuError(f"cannot read the certificates: {bad}", "see docs/sdn.md") from None
    return context


def say(text: str) -> None:
    stamp = time.strftime("%H:%M:%S")
    print(f"{stamp} {text}", file=sys.stderr, flush=True)


def check_rest(options: Options) -> None:
    host, port = options.rest
    if host not in LOOPBACK and not options.rest_in_clear:
        raise HikyakuError(
            f"--rest {host}:{port} can be reached from other machines, and who listens on the way "
            "reads the token, with which anybody changes the jobs: REST has no TLS",
            "--rest 127.0.0.1:PORT, and a tunnel (ssh -L); or --rest-in-clear on a network of its "
            "own",
        )


async def _main(options: Options, store: Store) -> None:
    with _inside(options.netns):
        openflow = _listen(options.openflow, "OpenFlow")
    rest_socket = _listen(options.rest, "REST")
    controller = Controller(store, say, host_expiry=options.host_expiry)
    rest = Rest(controller, store.token())
    names = frozenset(LOOPBACK) if options.rest[0] in LOOPBACK else None
    server = await asyncio.start_server(
        http.serve(rest.answer, say, names), sock=rest_socket, limit=http.MAX_HEAD
    )
    host, port = rest_socket.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def ready() -> None:
        store.set_address(url)
        of_host, of_port = openflow.getsockname()[:2]
        say(f"switches: {of_host}:{of_port}; page, REST and metrics: {url}")

    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, task.cancel)
    try:
        await controller.run([openflow], tls_context(options), ready)
    finally:
        server.close()


def run(options: Options) -> None:
    """Until a signal ends it. The switches go on as they are."""
    tls_context(options)
    check_rest(options)
    store = Store(options.state)
    with store.owned(), contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_main(options, store))
