# SPDX-License-Identifier: BSD-3-Clause
"""A run-to-completion node in Python: hikyaku/rtc.h by ctypes, for experiments.

The C library receives, sends, and handles time and members. A Python handler is called for each
message, which costs a microsecond or more. Fast handlers are written in C (docs/rtc.md).

    from hikyaku import rtc

    with rtc.Node(backend="udp") as node:                # under mpirun or srun
        node.register(1, "double", on_message=lambda m: bytes(2 * b % 256 for b in m.data))
        node.register(2, "news", delivery="latest", on_message=lambda m: print(m.src, m.data))
        node.every(0.5, lambda: node.send(node.pick(), 2, b"hello") if node.neighbours() else None)
        node.run(seconds=10)

Without a launcher: Node(backend="udp", peers_file="peers", node=0). The file has a line such as "0
127.0.0.1:7000" for each node.

A node has one thread. An exception in a handler ends poll() or run(), and is raised there.
"""

import ctypes
import json
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_int,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .checkout import built
from .errors import HikyakuError
from .native import Error, load

DELIVERY = ("best effort", "latest", "retry")
PROTECTIONS = ("auto", "off", "auth", "seal")
TOPOLOGIES = ("all", "ring", "random", "exponential", "file")
_REPLY = 1  # enum hk_rtc_action


class _Msg(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("len", c_uint16),
        ("reply_max", c_uint16),
        ("src", c_uint16),
        ("type", c_uint8),
        ("action", c_uint8),
        ("number", c_uint32),
        ("buf", c_uint32),
    )


_FN = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(_Msg), c_uint)
_GIVEN_UP = CFUNCTYPE(None, c_void_p, c_void_p, c_uint16, c_uint32)
_MEMBER = CFUNCTYPE(None, c_void_p, c_void_p, c_uint16, c_bool)
_TIMER = CFUNCTYPE(None, c_void_p, c_void_p)


class _Type(Structure):
    _fields_ = (
        ("name", c_char_p),
        ("delivery", c_int),
        ("on_message", _FN),
        ("on_reply", _FN),
        ("on_given_up", _GIVEN_UP),
        ("arg", c_void_p),
        ("budget_ns", c_uint32),
        ("timeout_us", c_uint32),
        ("tries", c_uint),
    )


class _Config(Structure):
    _fields_ = (
        ("backend", c_char_p),
        ("address", c_char_p),
        ("peers_file", c_char_p),
        ("node", c_uint16),
        ("nodes", c_uint16),
        ("key", c_uint32),
        ("topology", c_int),
        ("topology_file", c_char_p),
        ("degree", c_uint),
        ("seed", c_uint64),
        ("buffers", c_uint),
        ("payload_max", c_uint),
        ("threads", c_uint),
        ("thread_cpu", c_void_p),
        ("alive_ms", c_uint),
        ("timeout_ms", c_uint),
        ("on_member", _MEMBER),
        ("arg", c_void_p),
        ("protection", c_int),
        ("secret_file", c_char_p),
    )


@cache
def _library() -> ctypes.CDLL:
    calls = {
        "defaults": (None, [POINTER(_Config)]),
        "open": (c_int, [POINTER(_Config), POINTER(c_void_p), POINTER(Error)]),
        "close": (c_int, [c_void_p]),
        "address": (c_char_p, [c_void_p]),
        "register": (c_int, [c_void_p, c_uint8, POINTER(_Type), POINTER(Error)]),
        "poll": (c_uint, [c_void_p]),
        "send": (c_int, [c_void_p, c_uint16, c_uint8, c_char_p, c_size_t, POINTER(c_uint32)]),
        "flush": (None, [c_void_p]),
        "payload_max": (c_size_t, [c_void_p]),
        "now": (c_uint64, [c_void_p]),
        "timer": (c_int, [c_void_p, c_uint64, c_uint64, _TIMER, c_void_p]),
        "cancel": (None, [c_void_p, c_int]),
        "node": (c_uint16, [c_void_p]),
        "nodes": (c_uint16, [c_void_p]),
        "is_member": (c_bool, [c_void_p, c_uint16]),
        "members": (c_uint, [c_void_p]),
        "neighbours": (POINTER(c_uint16), [c_void_p, POINTER(c_uint)]),
        "pick": (c_int, [c_void_p]),
        "stats_json": (c_int, [c_void_p, c_char_p, c_size_t]),
    }
    return load(built("systems/rtc/libhk_rtc.so.0"), "hk_rtc_", calls)


@dataclass(frozen=True)
class Message:
    """A received message. @data: a copy. @number: of a reply, the number that send() returned for
    the request."""

    src: int
    type: int
    number: int
    data: bytes


Handler = Callable[[Message], bytes | None]


def _text(value: str | Path | None) -> bytes | None:
    return None if value is None else str(value).encode()


class Node:
    """An open node. The arguments are the fields of struct hk_rtc_config; missing ones have the
    library's defaults. @on_member: called with (node, joined)."""

    def __init__(
        self,
        backend: str | None = None,
        address: str | None = None,
        *,
        peers_file: str | Path | None = None,
        node: int = 0,
        nodes: int = 0,
        key: int = 0,
        topology: str = "all",
        topology_file: str | Path | None = None,
        degree: int = 0,
        seed: int = 0,
        alive_ms: int = 0,
        timeout_ms: int = 0,
        on_member: Callable[[int, bool], None] | None = None,
        protection: str = "auto",
        secret_file: str | Path | None = None,
    ):
        self._c = _library()
        self._rtc = c_void_p()
        self._raised: BaseException | None = None
        self._stopped = False
        self._kept: list[object] = []  # ctypes frees callbacks that nobody holds
        config = _Config()
        self._c.hk_rtc_defaults(config)
        config.backend, config.address = _text(backend), _text(address)
        config.peers_file, config.topology_file = _text(peers_file), _text(topology_file)
        config.node, config.nodes, config.key = node, nodes, key
        config.topology = TOPOLOGIES.index(topology)
        config.protection = PROTECTIONS.index(protection)
        config.secret_file = _text(secret_file)
        for name, value in (("degree", degree), ("seed", seed)):
            setattr(config, name, value or getattr(config, name))
        for name, value in (("alive_ms", alive_ms), ("timeout_ms", timeout_ms)):
            setattr(config, name, value or getattr(config, name))
        if on_member:
            config.on_member = self._keep(
                _MEMBER(lambda _rtc, _arg, who, joined: self._call(on_member, who, joined))
            )
        error = Error()
        if self._c.hk_rtc_open(config, self._rtc, error) != 0:
            raise HikyakuError(str(error))

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the job. Safe to repeat."""
        if self._rtc:
            # no handler thread can hang: a node in Python has none
            self._c.hk_rtc_close(self._rtc)
            self._rtc = c_void_p()

    def _open(self) -> c_void_p:
        if not self._rtc:
            raise HikyakuError("this node is closed")
        return self._rtc

    def _keep(self, callback: object) -> object:
        self._kept.append(callback)
        return callback

    def _call(self, function: Callable, *arguments: object) -> object:
        """Runs a handler. An exception must not cross the C code between here and poll()."""
        if self._raised is None:
            try:
                return function(*arguments)
            except BaseException as error:
                self._raised = error
        return None

    def _raise(self) -> None:
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised

    def _handler(self, handler: Handler, *, replies: bool) -> object:
        def burst(_rtc: int, _arg: int, messages: object, count: int) -> None:
            for i in range(count):
                m = messages[i]
                data = ctypes.string_at(m.data, m.len)
                reply = self._call(handler, Message(m.src, m.type, m.number, data))
                if replies or reply is None:
                    continue
                if len(reply) > m.reply_max:
                    self._call(_too_long, len(reply), m.reply_max)
                    continue
                ctypes.memmove(m.data, bytes(reply), len(reply))
                m.len, m.action = len(reply), _REPLY

        return self._keep(_FN(burst))

    def register(
        self,
        kind: int,
        name: str,
        *,
        delivery: str = "best effort",
        on_message: Handler | None = None,
        on_reply: Callable[[Message], None] | None = None,
        on_given_up: Callable[[int, int], None] | None = None,
        timeout_us: int = 0,
        tries: int = 0,
    ) -> None:
        """Registers a message type, before the first poll() or run().

        @on_message: returns the reply as bytes, or None. @delivery: "best effort"; "latest" drops
        overtaken messages; "retry" resends until a reply arrives, or calls @on_given_up with
        (destination, number).
        """
        made = _Type(
            name=name.encode(),
            delivery=DELIVERY.index(delivery),
            timeout_us=timeout_us,
            tries=tries,
        )
        if on_message:
            made.on_message = self._handler(on_message, replies=False)
        if on_reply:
            made.on_reply = self._handler(on_reply, replies=True)
        if on_given_up:
            made.on_given_up = self._keep(
                _GIVEN_UP(lambda _rtc, _arg, dst, number: self._call(on_given_up, dst, number))
            )
        self._kept.append(made)  # its name is the library's as long as the node lives
        error = Error()
        if self._c.hk_rtc_register(self._open(), kind, made, error) != 0:
            raise HikyakuError(str(error))

    def send(self, dst: int, kind: int, data: bytes = b"") -> int:
        """Sends a message; returns its number for on_reply and on_given_up. Raises OSError if the
        library refuses: EAGAIN, no buffer; ENOTCONN, not a member; EMSGSIZE, EINVAL."""
        number = c_uint32()
        code = self._c.hk_rtc_send(self._open(), dst, kind, data, len(data), number)
        if code != 0:
            raise OSError(-code, f"message of type {kind} to node {dst} was not sent")
        return number.value

    def flush(self) -> None:
        self._c.hk_rtc_flush(self._open())

    def poll(self) -> int:
        """One round: receives, handles, sends, runs timers. Returns the number of messages."""
        count = self._c.hk_rtc_poll(self._open())
        self._raise()
        return count

    def run(self, seconds: float | None = None) -> None:
        """Polls until stop(), Ctrl-C, or for @seconds. The loop is in Python, since hk_rtc_run()
        would block Python's signal handling."""
        self._stopped = False
        end = None if seconds is None else self.now + seconds
        while not self._stopped and (end is None or self.now < end):
            self.poll()

    def stop(self) -> None:
        """Ends run(); for handlers, timers and signal handlers."""
        self._stopped = True

    def _timer(self, first: float, period: float, function: Callable[[], object]) -> int:
        callback = self._keep(_TIMER(lambda _rtc, _arg: self._call(function) and None))
        ns = [round(each * 1e9) for each in (first, period)]
        timer = self._c.hk_rtc_timer(self._open(), *ns, callback, None)
        if timer < 0:
            raise OSError(-timer, "256 timers run already")
        return timer

    def after(self, seconds: float, function: Callable[[], object]) -> int:
        """Calls @function once; returns what cancel() takes."""
        return self._timer(seconds, 0, function)

    def every(self, seconds: float, function: Callable[[], object]) -> int:
        return self._timer(seconds, seconds, function)

    def cancel(self, timer: int) -> None:
        self._c.hk_rtc_cancel(self._open(), timer)

    @property
    def id(self) -> int:
        return self._c.hk_rtc_node(self._open())

    @property
    def nodes(self) -> int:
        """The number of nodes of the job, members or not."""
        return self._c.hk_rtc_nodes(self._open())

    @property
    def members(self) -> int:
        return self._c.hk_rtc_members(self._open())

    def is_member(self, node: int) -> bool:
        return self._c.hk_rtc_is_member(self._open(), node)

    def neighbours(self) -> list[int]:
        count = c_uint()
        found = self._c.hk_rtc_neighbours(self._open(), count)
        return found[: count.value]

    def pick(self) -> int:
        """A random neighbour by the seed, or -1."""
        return self._c.hk_rtc_pick(self._open())

    @property
    def address(self) -> str:
        return self._c.hk_rtc_address(self._open()).decode()

    @property
    def payload_max(self) -> int:
        return self._c.hk_rtc_payload_max(self._open())

    @property
    def now(self) -> float:
        """Seconds, monotonic."""
        return self._c.hk_rtc_now(self._open()) / 1e9

    def stats(self) -> dict:
        size = 1 << 16
        while True:
            text = ctypes.create_string_buffer(size)
            if self._c.hk_rtc_stats_json(self._open(), text, size) >= 0:
                return json.loads(text.value)
            size *= 2


def _too_long(length: int, room: int) -> None:
    raise ValueError(f"a reply of {length} bytes does not fit: there is room for {room}")
