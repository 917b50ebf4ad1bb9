# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on an MPI job in a lab, by a node that takes no part in it.

The attacker hears the frames to its victim, as a switch on the path does. It sends them in other
forms, by a link of its own.

replay   frames as they were, somewhat later
reflect  the same to their senders, with both ends swapped
forge    the newest frame as one of the next ones, with random bytes in header and payload

Frames are of every kind that the job sends meanwhile: messages, puts, acknowledgements, and so on.
"""

import contextlib
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import HikyakuError
from ..netns import inside
from . import Lab, network
from .attack import ETHERTYPE, IFACE, check_job_nodes, mac_of

FRAMES = 2000  # that are heard
FORGED = 4  # of each
LIMIT_S = 30.0  # until the victim gets a frame
QUIET_S = 1.0  # then there are no more
_ALL = 3  # ETH_P_ALL
_ENDS, _EPOCHS, _PSN = 14 + 8, 14 + 16, 14 + 28  # wire/wire.h, behind the Ethernet header
_LEAST = 14 + 48
_NAMES = {1: "data", 2: "put", 3: "ack", 4: "reset", 5: "mcast"}
_AHEAD = 128  # a forged packet claims to be one of the next ones


@dataclass
class Result:
    """@frames: sent. @heard: those that were heard, by type. With seal it cannot be read."""

    attack: str
    frames: int
    heard: dict[str, int]


class _Tap:
    """The frames to @victim, as its port of the switch sends them, without those of @attacker."""

    def __init__(self, lab: Lab, attacker: str, victim: str):
        check_job_nodes(lab, attacker, victim)
        self._to, self._not_from = mac_of(lab, victim), mac_of(lab, attacker)
        self._victim = victim
        with inside(network.NETNS_DIR / lab.topology.switch_netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        self._socket.bind((f"hk{lab.node(victim).index}-0", _ALL))

    def __enter__(self) -> "_Tap":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _wanted(self, frame: bytes) -> bool:
        of_job = int.from_bytes(frame[12:14], "big") == ETHERTYPE and len(frame) >= _LEAST
        return of_job and frame[:6] == self._to and frame[6:12] != self._not_from

    def next(self, limit: float) -> bytes | None:
        """The next one, if it comes within @limit seconds."""
        end = time.monotonic() + limit
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                frame = self._socket.recv(65536)
            except TimeoutError:
                break
            if self._wanted(frame):
                return frame
        return None

    def newest(self) -> bytes | None:
        """The last one that has arrived, or the next."""
        frame = self.next(QUIET_S)
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while later := self._socket.recv(65536):
                if self._wanted(later):
                    frame = later
        return frame

    def first(self) -> bytes:
        frame = self.next(LIMIT_S)
        if frame is None:
            raise HikyakuError(
                f"{self._victim} gets no frame of an MPI job on {IFACE}",
                "hikyaku lab mpirun -np 2 ./program",
            )
        return frame


def _swapped(frame: bytes) -> bytes:
    """The same from its receiver to its sender."""
    changed = bytearray(frame)
    changed[0:6], changed[6:12] = frame[6:12], frame[0:6]
    for at in (_ENDS, _EPOCHS):
        changed[at : at + 4], changed[at + 4 : at + 8] = frame[at + 4 : at + 8], frame[at : at + 4]
    return bytes(changed)


def _changed(frame: bytes, draw: random.Random) -> bytes:
    changed = bytearray(frame)
    (number,) = struct.unpack_from("<I", frame, _PSN)
    struct.pack_into("<I", changed, _PSN, (number + draw.randint(1, _AHEAD)) & 0xFFFFFFFF)
    for _ in range(draw.randint(1, 4)):
        changed[draw.randrange(14 + 24, len(frame))] = draw.randrange(256)
    return bytes(changed)


def _heard(tap: _Tap, kind: str) -> Iterator[bytes]:
    """Frames for an attack: a forger wants what is valid now."""
    frame: bytes | None = tap.first()
    for _ in range(FRAMES):
        if frame is None:
            return
        yield frame
        frame = tap.newest() if kind == "forge" else tap.next(QUIET_S)


def attack(lab: Lab, attacker: str, victim: str, kind: str) -> Result:
    """Sends what @kind, replay, reflect or forge, makes of the frames to @victim."""
    draw = random.Random(1)
    heard: Counter[str] = Counter()
    sent = 0
    with (
        _Tap(lab, attacker, victim) as tap,
        inside(network.NETNS_DIR / lab.node(attacker).netns),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s,
    ):
        s.bind((IFACE, 0))
        own = s.getsockname()[4]
        frames = _heard(tap, kind)
        # a replay within the same moment could be a duplicate of the network's
        for frame in frames if kind == "forge" else list(frames):
            heard[_NAMES.get(frame[38], "other")] += 1
            if kind == "forge":
                made = [_changed(frame, draw) for _ in range(FORGED)]
            else:
                made = [_swapped(frame) if kind == "reflect" else frame]
            for each in made:
                s.send(each[:6] + own + each[12:])
            sent += len(made)
    return Result(kind, sent, dict(heard))
