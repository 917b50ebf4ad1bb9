# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of mode inline: no hikyakud knows their counters, so each is asked itself, at its tap
(port/tap_ring.h): an abstract socket, of which nothing is left when the rank is gone.

Anybody can listen under such a name: who does so as another user is not asked, and what comes is
checked before it is shown.
"""

import json
import os
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .prometheus import RANK

_LISTENS = re.compile(r"^\S+: \S+ \S+ 00010000 \S+ \S+ +\d+ @hikyaku/tap/(\d{1,10})$", re.MULTILINE)
_MESSAGE = struct.Struct("=IIIIIIQ232s")
_MAGIC, _VERSION = 0x50544B48, 1
_STATS = 5
_MOST = 4096
_PATIENCE_S = 2.0
_AT_ONCE = 64
_POLLS = ("rank", "helper", "nobody")


def _pids() -> list[int]:
    """Processes of this network namespace that have a tap and share no hikyakud's memory."""
    sockets = Path("/proc/net/unix").read_text(encoding="latin-1")  # anybody's names, any bytes
    return sorted({int(pid) for pid in _LISTENS.findall(sockets)})


def checked(answer: object, pid: int) -> dict | None:
    """@answer if it is what a rank says of itself; None if not."""
    match answer:
        case {
            "mode": "inline",
            "pid": int(said),
            "job": str(job),
            "endpoint": int(endpoint),
            "polls": polls,
            "counters": dict(counters),
        }:
            numbers = all(type(n) is int and 0 <= n < 1 << 64 for n in counters.values())
            known = all(name in counters for name in RANK)
            if said == pid and re.fullmatch("[0-9a-f]{8}", job) and 0 <= endpoint < 1 << 32:
                return answer if numbers and known and polls in _POLLS else None
    return None


def _talk(s: socket.socket, pid: int) -> bytes | None:
    """What process @pid says of its counters; None: it is another user's, or has none."""
    s.settimeout(_PATIENCE_S)
    s.connect(f"\0hikyaku/tap/{pid}")
    peer = s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", peer)[1] != os.geteuid():
        return None
    s.send(_MESSAGE.pack(_MAGIC, _VERSION, _STATS, 0, 0, 0, 0, b""))
    head = s.recv(_MESSAGE.size)
    if len(head) != _MESSAGE.size or _MESSAGE.unpack(head)[:3] != (_MAGIC, _VERSION, _STATS):
        return None
    return s.recv(_MOST)


def _ask(pid: int) -> dict | str | None:
    """What it counts; a complaint; or None if there is nothing to be said."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            text = _talk(s, pid)
        if text is None:
            return None
        answer = checked(json.loads(text), pid)
    except (TimeoutError, BlockingIOError):  # the latter: its queue is full of those who asked
        return f"process {pid} did not say within {_PATIENCE_S:g} s what it counts; is it stopped?"
    except OSError:
        return None  # it ends just now
    except (ValueError, RecursionError):  # the latter of "[[[…"
        answer = None
    if answer is None:
        return f"process {pid} says nonsense of its counters; fix: use one release of Hikyaku"
    return answer | {"clock_ms": time.monotonic_ns() // 1_000_000}


def ask_all() -> tuple[list[dict], list[str]]:
    """The answers of this user's ranks, by job and endpoint, and complaints of those without."""
    pids = _pids()
    if not pids:
        return [], []
    with ThreadPoolExecutor(min(len(pids), _AT_ONCE)) as asking:  # a stopped one holds none up
        answers = list(asking.map(_ask, pids))
    found = [answer for answer in answers if isinstance(answer, dict)]
    found.sort(key=lambda rank: (rank["job"], rank["endpoint"]))
    return found, [answer for answer in answers if isinstance(answer, str)]
