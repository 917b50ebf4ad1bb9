# SPDX-License-Identifier: BSD-3-Clause
"""The registrar of one job: gets its number from the controller, and reports its ranks.

Each node reports its ranks to the registrar, which tells the controller before these ranks send. It
runs beside mpirun, as long as the job. The nodes' hk-tagger, or with native tags the ranks, connect
to it (sdn/registrar/registrar.h). Only the registrar has the controller's token.

The registrar sends a line with a nonce. A request and its answer are one line each, which begins
with an HMAC-SHA256 over the nonce and the rest. Its key is the job's secret, which the ranks have
in their environment. So nobody reads the secret on the way, and no recorded line counts again.

A request, and its answer:

    RANK,RANK… MAC     ok               these ranks' address; the first one counts
    located RANK       ok, or not yet   whether the network has located that address
    group RANK,RANK…   ok GROUP         a group of these ranks; the same one for the same ranks
    drop GROUP         ok               the requester needs the group no longer
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import socketserver
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..called import as_typed
from ..errors import HikyakuError
from .client import Client, Refused
from .tag import RANKS, NoTag, from_mac

SECRET_ENV = "OMPI_HIKYAKU_SECRET"  # Open MPI passes it on: sdn/registrar/registrar.h
TO_US, FROM_US = ">", "<"  # the directions of a line
_LINE = 16384  # a group of all ranks
_ANSWER = 256
_WAIT_S = 5.0
_BACKLOG = 256  # all ranks of a job call at once when it starts
RETRY_S = 5.0  # for a restarting controller; a node waits 8 s for an answer
_ANSWER_IN_S = 7.0  # less than these 8 s: a group that nobody waits for is dropped
_LEASE_S = 60  # after which the controller removes a job whose registrar was killed
_BEAT_S = 15.0
_SILENT = 256  # connections without a request yet
_THREADS = RANKS + _SILENT  # those of a whole job's ranks that wait for the controller
_FRESH_S = 0.05  # as often a rank asks (openmpi/btl/tag.c): all that ask meanwhile get one answer


def _rank(text: str) -> int:
    if not text.isdecimal() or int(text) >= RANKS:
        raise NoTag(f"there is no rank {text[:20]}")
    return int(text)


def _ranks(text: str) -> frozenset[int]:
    return frozenset(_rank(r) for r in text.split(","))


def sign(secret: str, direction: str, nonce: str, line: str) -> str:
    """The HMAC with which @line begins."""
    whole = f"{direction} {nonce} {line}".encode(errors="surrogateescape")
    return hmac.new(secret.encode(), whole, hashlib.sha256).hexdigest()


@dataclass
class _Group:
    """Nobody holds a lock while it waits for the controller. A request for a group that is being
    made waits for @known."""

    number: int
    users: int = 0
    known: threading.Event = field(default_factory=threading.Event)
    failed: HikyakuError | None = None


def _read_line(sock: socket.socket) -> str:
    """Reads one line, within _WAIT_S for all of it."""
    until = time.monotonic() + _WAIT_S
    line = b""
    while b"\n" not in line and len(line) < _LINE:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        part = sock.recv(4096)
        if not part:
            break
        line += part
    return line.partition(b"\n")[0].decode(errors="surrogateescape")


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: _Server = self.server
        try:
            nonce = secrets.token_hex(16)
            self.request.settimeout(_WAIT_S)
            self.request.sendall(f"{nonce}\n".encode())
            line = _read_line(self.request)
            server.has_spoken(self.request)
            answer = server.registrar.answer(nonce, line)
            self.request.settimeout(_WAIT_S)
            self.request.sendall(f"{answer}\n".encode())
        except OSError:
            return  # a node that has gone: its ranks stay unknown, and say so


class _Server(socketserver.ThreadingMixIn):
    """Any machine on the network can connect. A rank sends its line at once. If too many
    connections are silent, the oldest of them is closed."""

    daemon_threads = True
    request_queue_size = _BACKLOG
    registrar: "Registrar"

    def __init__(self, *arguments: object):
        self._lock = threading.Lock()
        self._silent: dict[socket.socket, None] = {}  # in the order in which they came
        self._running = 0
        super().__init__(*arguments)

    def process_request(self, request: socket.socket, address: object) -> None:
        with self._lock:
            full = self._running >= _THREADS
            if not full:
                self._running += 1
                if len(self._silent) >= _SILENT:
                    oldest = next(iter(self._silent))
                    del self._silent[oldest]
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)
                self._silent[request] = None
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, address)

    def has_spoken(self, request: socket.socket) -> None:
        with self._lock:
            self._silent.pop(request, None)

    def process_request_thread(self, request: socket.socket, address: object) -> None:
        try:
            super().process_request_thread(request, address)
        finally:
            with self._lock:
                self._running -= 1

    def shutdown_request(self, request: socket.socket) -> None:
        self.has_spoken(request)
        super().shutdown_request(request)

    def handle_error(self, _request: socket.socket, _address: object) -> None:
        _say(f"the registrar failed: {sys.exc_info()[1]!r}; this is a bug")


class _Unix(_Server, socketserver.UnixStreamServer):
    pass


class _Tcp(_Server, socketserver.TCPServer):
    pass


class Registrar:
    """with Registrar(client, "my job", path) as r: `hk-tagger --job r.job --registrar r.address`
    with r.environment.

    @where: the path of a socket, or a name of this machine that the nodes can reach.
    """

    def __init__(self, client: Client, name: str, where: Path | str):
        self._client = client
        self._name = name
        self._groups_lock = threading.Lock()
        self._groups: dict[frozenset[int], _Group] = {}
        self._taken: set[int] = set()  # numbers, also of those that the controller still removes
        self._located_lock = threading.Lock()
        self._told: dict[str, str] = {}  # ranks, and their addresses
        self._located: set[int] = set()  # ranks, as the controller has said …
        self._disputed: dict[str, str] = {}  # ranks heard at two ports, and the reason
        self._located_until = 0.0  # … and until when that counts
        self.secret = secrets.token_hex(32)
        self.environment = {SECRET_ENV: self.secret}
        self._path = where if isinstance(where, Path) else None
        if isinstance(where, Path):
            self._server: socketserver.BaseServer = _Unix(str(where), _Handler)
            where.chmod(0o600)
            self.address = str(where)
        else:
            self._server = _Tcp(("", 0), _Handler)
            self.address = f"{where}:{self._server.server_address[1]}"
        self._server.registrar = self
        try:
            asked = {"name": name, "lease": _LEASE_S}
            self.job: int = self._client.post("/v1/jobs", asked)["job"]
        except BaseException:
            self._close()
            raise
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        threading.Thread(target=self._beat, daemon=True).start()

    def answer(self, nonce: str, line: str) -> str:
        """Handles the request @line, and returns its answer, both with their HMACs."""
        given, _, text = line.partition(" ")
        right = sign(self.secret, TO_US, nonce, text)
        if hmac.compare_digest(given.encode(errors="surrogateescape"), right.encode()):
            answer = self._answer(text.split())
        else:
            answer = "the registrar did not understand, or is another job's"
        answer = "".join(c if c.isprintable() else "?" for c in answer)  # it may quote the request
        answer = answer.encode()[: _ANSWER - 1].decode(errors="ignore")
        return f"{sign(self.secret, FROM_US, nonce, answer)} {answer}"

    def _answer(self, words: list[str]) -> str:
        if len(words) != 2:
            return "the registrar did not understand"
        calls = {"located": self._is_located, "group": self._group, "drop": self._drop}
        try:
            if call := calls.get(words[0]):
                return call(words[1])
            self._tell(_ranks(words[0]), words[1])
        except NoTag as bad:
            return str(bad)
        except HikyakuError as refused:
            return " ".join(str(refused).split())
        return "ok"

    def _beat(self) -> None:
        """Renews the job's lease. An error is reported once, until a renewal succeeds."""
        said = None
        while not self._ends.wait(_BEAT_S):
            try:
                try:
                    self._client.put(f"/v1/jobs/{self.job}/lease", _LEASE_S)
                except Refused as refused:
                    if refused.status != 404 or self._ends.is_set():
                        raise
                    self._register_again()
                said = None
            except HikyakuError as failed:
                if str(failed) != said and not self._ends.is_set():
                    said = str(failed)
                    _say(f"job {self.job} is not renewed: {said}")

    def _register_again(self) -> None:
        """Registers again: this process was stopped for longer than the lease, or the controller
        lost its state."""
        with self._located_lock:
            ranks = dict(self._told)
        with self._groups_lock:
            groups = {str(g.number): sorted(r) for r, g in self._groups.items() if g.known.is_set()}
        job = {"job": self.job, "name": self._name, "lease": _LEASE_S}
        self._client.post("/v1/jobs", job | {"ranks": ranks, "groups": groups})
        _say(f"the controller had forgotten job {self.job}, and was told of it again")

    def _tell(self, ranks: frozenset[int], mac: str) -> None:
        from_mac(mac)
        told = {str(r): mac for r in sorted(ranks)}
        with self._located_lock:
            if taken := [r for r in told if self._told.get(r, mac) != mac]:
                raise HikyakuError(
                    f"rank {taken[0]} is registered with another address",
                    "run one mpirun in each 'tag run'",
                )
            new = told.keys() - self._told.keys()
            self._told |= told
        try:
            self._client.put(f"/v1/jobs/{self.job}/ranks", told)
        except BaseException:
            with self._located_lock:
                for rank in new:
                    del self._told[rank]
            raise
        with self._located_lock:
            self._located -= ranks  # what was known was said before this address was

    def _is_located(self, text: str) -> str:
        rank = _rank(text)
        with self._located_lock:
            if time.monotonic() >= self._located_until:
                found = self._client.get(f"/v1/jobs/{self.job}/ranks")
                if refused := found.get("refused"):  # before they were located there was no rule
                    return " ".join(refused.split())
                self._located = set(found["located"])
                self._disputed = found.get("disputed", {})
                self._located_until = time.monotonic() + _FRESH_S
            if why := self._disputed.get(str(rank)):
                return " ".join(why.split())
            return "ok" if rank in self._located else "not yet"

    def _group(self, text: str) -> str:
        ranks = _ranks(text)
        until = time.monotonic() + _ANSWER_IN_S
        with self._groups_lock:
            group = self._groups.get(ranks)
            new = group is None
            if new:
                # 0 is all ranks, whether anybody asks or not
                number = next((g for g in range(1, RANKS) if g not in self._taken), None)
                if number is None:
                    return f"all {RANKS - 1} groups of the job are taken"
                self._taken.add(number)
                group = self._groups[ranks] = _Group(number)
            group.users += 1
        if new:
            self._make(ranks, group)
        group.known.wait(max(0.0, until - time.monotonic()))
        if group.failed:
            raise group.failed
        if time.monotonic() >= until:  # nobody waits for the answer any more
            self._leave(ranks, group)
            return "the switches took too long to learn the group"
        return f"ok {group.number}"

    def _make(self, ranks: frozenset[int], group: _Group) -> None:
        try:
            self._client.put(f"/v1/jobs/{self.job}/groups/{group.number}", sorted(ranks))
        except HikyakuError as failed:
            group.failed = failed
            with self._groups_lock:
                del self._groups[ranks]
                self._taken.discard(group.number)
        finally:
            group.known.set()

    def _drop(self, text: str) -> str:
        number = int(text) if text.isdecimal() else 0
        with self._groups_lock:
            found = [
                (r, g) for r, g in self._groups.items() if g.number == number and g.known.is_set()
            ]
        if not found:
            return f"there is no group {text}"
        self._leave(*found[0])
        return "ok"

    def _leave(self, ranks: frozenset[int], group: _Group) -> None:
        with self._groups_lock:
            group.users -= 1
            if group.users or self._groups.get(ranks) is not group:
                return
            del self._groups[ranks]
        try:
            self._client.put(f"/v1/jobs/{self.job}/groups/{group.number}", [])
        finally:
            # free even if the call fails: the next owner sets the group again
            with self._groups_lock:
                self._taken.discard(group.number)

    def _close(self) -> None:
        self._server.server_close()
        if self._path:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> "Registrar":
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the job. Errors are only reported, since the job's exit status counts."""
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._close()
        try:
            self._client.delete(f"/v1/jobs/{self.job}")
        except HikyakuError as failed:
            # 404: taken away already; 503: the controller has, and its switches are slow to hear it
            if getattr(failed, "status", None) not in (404, 503):
                forget = f"hikyaku sdn forget {self.job} --state {self._client.directory}"
                _say(
                    f"job {self.job} stays with the controller until it has received nothing from "
                    f"it for {_LEASE_S} s: {failed}; to remove it now: {forget}"
                )


def _say(text: str) -> None:
    print(f"hikyaku: {as_typed(text)}", file=sys.stderr, flush=True)


def job_name(command: list[str]) -> str:
    """The name of the job for the controller: its program, if it can be found."""
    words = [w for w in command if not w.startswith("-") and "/" in w]
    return Path(words[0]).name[:60] if words else f"process {os.getpid()}"
