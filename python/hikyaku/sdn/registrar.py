# SPDX-License-Identifier: BSD-3-Clause
"""The registrar of one job: asks the controller for a number, hears from each node which ranks it
has, and tells the controller, before these ranks send their first packet.

It runs beside mpirun, for as long as the job; the nodes' hk-tagger, or with native tags the ranks,
reach it (host/registrar.h), and only it has the controller's token.

What it is told, after the secret, and what it answers:

    RANK,RANK… MAC     ok               these ranks' address
    heard RANK         ok, or not yet   whether the network has heard of that address
    group RANK,RANK…   ok GROUP         a group of these ranks; the same one for the same ranks
    drop GROUP         ok               who asked for it needs it no more
"""

import contextlib
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

from ..errors import HikyakuError
from .client import Client, Refused
from .tag import RANKS, NoTag, from_mac

_LINE = 16384  # a group of all ranks
_ANSWER = 256
_WAIT_S = 5.0
_BACKLOG = 256  # all ranks of a job call at once when it starts
PATIENCE_S = 5.0  # of its client: a controller that begins anew; a node waits 8 s for an answer
_ANSWER_IN_S = 7.0  # less than these 8 s: a group whose number arrives nowhere is let go
_LEASE_S = 60  # the controller forgets a job whose registrar was killed
_BEAT_S = 15.0
_SILENT = 256  # connections that have said nothing yet
_THREADS = RANKS + _SILENT  # those of a whole job's ranks that wait for the controller
_FRESH_S = 0.05  # as often a rank asks (mpi/tag.c): all that ask meanwhile get one answer


def _rank(text: str) -> int:
    if not text.isdecimal() or int(text) >= RANKS:
        raise NoTag(f"there is no rank {text[:20]}")
    return int(text)


def _ranks(text: str) -> frozenset[int]:
    return frozenset(_rank(r) for r in text.split(","))


@dataclass
class _Group:
    """Nobody waits for the controller with a lock: who asks for one that is being made waits for
    @known."""

    number: int
    users: int = 0
    known: threading.Event = field(default_factory=threading.Event)
    failed: HikyakuError | None = None


def _read_line(sock: socket.socket) -> str:
    """The time is for all of it, however it comes."""
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
    return line.partition(b"\n")[0].decode(errors="replace")


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server: _Server = self.server
        try:
            line = _read_line(self.request)
            server.has_spoken(self.request)
            answer = server.registrar.hear(line)
            self.request.settimeout(_WAIT_S)
            self.request.sendall(answer.encode()[: _ANSWER - 1] + b"\n")
        except OSError:
            return  # a node that has gone: its ranks stay unknown, and say so


class _Server(socketserver.ThreadingMixIn):
    """Anybody on the network can connect. A rank says its line at once; of those that say none the
    one that has been silent longest makes room for the next."""

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
    """with Registrar(client, "my job", path) as r: `hk-tagger --job r.job --registrar r.address`.

    @where: the path of a socket, or a name of this machine by which the nodes reach it.
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
        self._located_until = 0.0  # … and until when that counts
        self._secret = secrets.token_hex(16)
        self._path = where if isinstance(where, Path) else None
        if isinstance(where, Path):
            self._server: socketserver.BaseServer = _Unix(str(where), _Handler)
            where.chmod(0o600)
            self.address = f"{self._secret}@{where}"
        else:
            self._server = _Tcp(("", 0), _Handler)
            self.address = f"{self._secret}@{where}:{self._server.server_address[1]}"
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

    def hear(self, line: str) -> str:
        """What a node says, and what it is answered."""
        words = line.split()
        if len(words) != 3 or not hmac.compare_digest(words[0].encode(), self._secret.encode()):
            return "the registrar did not understand, or is another job's"
        calls = {"heard": self._heard, "group": self._group, "drop": self._drop}
        try:
            if call := calls.get(words[1]):
                return call(words[2])
            self._tell(_ranks(words[1]), words[2])
        except NoTag as bad:
            return str(bad)
        except HikyakuError as refused:
            return " ".join(str(refused).split())
        return "ok"

    def _beat(self) -> None:
        """Renews the job's lease. What goes wrong is said once, until it has gone right again."""
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
        """We were stopped, as by Ctrl-Z, for longer than the lease, or its state was lost."""
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
        self._client.put(f"/v1/jobs/{self.job}/ranks", told)
        with self._located_lock:
            self._told |= told
            self._located -= ranks  # that was where their address before this one is

    def _heard(self, text: str) -> str:
        rank = _rank(text)
        with self._located_lock:
            if time.monotonic() >= self._located_until:
                found = self._client.get(f"/v1/jobs/{self.job}/ranks")
                if refused := found.get("refused"):  # before they were located there was no rule
                    return " ".join(refused.split())
                self._located = set(found["located"])
                self._located_until = time.monotonic() + _FRESH_S
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
            # free even if the controller does not take it: whoever gets it next sets it
            with self._groups_lock:
                self._taken.discard(group.number)

    def _close(self) -> None:
        self._server.server_close()
        if self._path:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> "Registrar":
        return self

    def __exit__(self, *_: object) -> None:
        """The job has ended, and its status is not ours: what fails here is said alone."""
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._close()
        try:
            self._client.delete(f"/v1/jobs/{self.job}")
        except HikyakuError as failed:
            # 404: taken away already; 503: the controller has, and its switches are slow to hear it
            if getattr(failed, "status", None) not in (404, 503):
                _say(
                    f"job {self.job} is still with the controller, which forgets it when it has "
                    f"not heard of it for {_LEASE_S} s: {failed}; or then: hikyaku sdn forget "
                    f"{self.job}"
                )


def _say(text: str) -> None:
    print(f"hikyaku: {text}", file=sys.stderr, flush=True)


def job_name(command: list[str]) -> str:
    """What the controller calls the job: its program, as far as it can be told."""
    words = [w for w in command if not w.startswith("-") and "/" in w]
    return Path(words[0]).name[:60] if words else f"process {os.getpid()}"
