# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sdn run`: opens the sockets, handles signals, and runs the controller."""

import asyncio
import errno
import signal
import socket
import ssl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import HikyakuError
from ..netns import inside
from .certificates import Datapaths
from .controller import Controller
from .hosts import EXPIRY, read_bindings
from .listener import permit_descriptors
from .names import Names
from .rest.app import make_app, serving
from .store import Store

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
    exact: bool = False  # rules by whole addresses
    rest_in_clear: bool = False  # REST may be reached over the network, without TLS
    rest_tls: bool = False  # REST over TLS, with the certificate
    names: Names = field(default_factory=Names)  # those that are certain
    datapaths: Path | None = None  # with TLS: the certificates of the switches
    hosts: Path | None = None  # addresses that are bound to ports
    rest_names: tuple[str, ...] = ()  # of this machine, for clients of REST
    repair: str = ""  # the command that repairs the links whose names follow it


def _listen(address: tuple[str, int], option: str, netns: Path | None = None) -> socket.socket:
    """A socket that listens at @address, which @option gives, in @netns."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(256)
    except OSError as bad:
        made.close()
        fix = f"give another address by {option}"
        if bad.errno == errno.EADDRINUSE:
            there = f"ip netns exec {netns.name} " if netns else ""
            fix += f", or see who listens there: {there}ss -ltnp 'sport = :{address[1]}'"
        raise HikyakuError(
            f"cannot listen on {address[0]}:{address[1]}: {bad.strerror}", fix
        ) from None
    return made


def tls_context(options: Options) -> ssl.SSLContext | None:
    """The TLS settings; both ends must have a certificate of @ca. None: without TLS."""
    files = (options.certificate, options.key, options.ca)
    if not any(files):
        if options.datapaths:
            raise HikyakuError("--datapaths is for TLS", "add --certificate, --key and --ca")
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


def rest_tls_context(options: Options) -> ssl.SSLContext | None:
    """The TLS settings of REST: clients need no certificate, since they show the token."""
    if not options.rest_tls:
        return None
    if not options.certificate:
        raise HikyakuError("--rest-tls needs a certificate", "add --certificate, --key and --ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(options.certificate, options.key)
    return context


def say(text: str) -> None:
    stamp = time.strftime("%H:%M:%S")
    print(f"{stamp} {text}", file=sys.stderr, flush=True)


def check_rest(options: Options) -> None:
    host, port = options.rest
    if host not in LOOPBACK and not options.rest_in_clear and not options.rest_tls:
        raise HikyakuError(
            f"--rest {host}:{port} can be reached from other machines, and an eavesdropper could "
            "read the token, which permits changes of jobs",
            "--rest-tls; or --rest 127.0.0.1:PORT, and a tunnel (ssh -L); or --rest-in-clear on a "
            "separate network",
        )


def server_names(options: Options) -> frozenset[str]:
    """The names by which clients of REST may address us. IP addresses need not be here."""
    names = {"localhost", *options.rest_names}
    if options.rest[0] not in LOOPBACK:
        names |= {options.rest[0], socket.gethostname()}
    return frozenset(name.lower().rstrip(".") for name in names)


async def _main(options: Options, store: Store) -> None:
    with inside(options.netns):
        openflow = _listen(options.openflow, "--openflow", options.netns)
    rest_socket = _listen(options.rest, "--rest")
    controller = Controller(
        store,
        say,
        host_expiry=options.host_expiry,
        names=options.names,
        whole=options.exact,
        repair=options.repair,
    )
    if options.hosts:
        controller.discovery.hosts.bind(read_bindings(options.hosts))
    if tls := tls_context(options):
        controller.datapaths = Datapaths(options.datapaths, store.directory / "datapaths")
    app = make_app(controller, store.token(), say, server_names(options))
    host, port = rest_socket.getsockname()[:2]
    rest_tls = rest_tls_context(options)
    scheme = "https" if rest_tls else "http"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    store.set_certificate(options.certificate.read_text() if rest_tls else None)

    def ready() -> None:
        store.set_address(url)
        of_host, of_port = openflow.getsockname()[:2]
        say(f"switches: {of_host}:{of_port}; page, REST and metrics: {url}")

    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, task.cancel)
    async with serving(app, rest_socket, rest_tls):
        await controller.run([openflow], tls, ready)


def run(options: Options) -> None:
    """Runs the controller until a signal ends it. The switches keep their rules."""
    tls_context(options)
    rest_tls_context(options)
    check_rest(options)
    permit_descriptors()
    store = Store(options.state)
    with store.owned():
        try:
            asyncio.run(_main(options, store))
        except asyncio.CancelledError:
            say("the controller has ended; the switches keep their rules")
