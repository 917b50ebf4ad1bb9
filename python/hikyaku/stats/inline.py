# SPDX-License-Identifier: BSD-3-Clause
"""Counters of ranks of mode inline, which no hikyakud knows: asks each rank at its tap.

A tap is an abstract socket (port/tap_ring.h) that disappears with its rank. Any user can listen
under such a name: sockets of other users are not asked, and answers are checked before use.
"""

import json
import os
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .counters import rank_counters

_LISTENS = re.compile(r"^\S+: \S+ \S+ 00010000 \S+ \S+ +\d+ @hikyaku/tap/(\d{1,10})$", re.MULTILINE)
_MESSAGE = struct.Struct("=IIIIIIQ232s")
_MAGIC, _VERSION = 0x50544B48, 1
_STATS = 5
_MOST = 4096
_TIMEOUT_S = 2.0
_AT_ONCE = 64
_POLLS = ("rank", "thread", "nobody")


def _pids() -> list[int]:
    """The processes of this network namespace that have a tap and do not share hikyakud's
    memory."""
    sockets = Path("/proc/net/unix").read_text(encoding="latin-1")  # anybody's names, any bytes
    return sorted({int(pid) for pid in _LISTENS.findall(sockets)})


def checked(answer: object, pid: int) -> dict | None:
    """@answer if it has the form of a rank's answer, else None."""
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
            known = all(name in counters for name in rank_counters())
            if said == pid and re.fullmatch("[0-9a-f]{8}", job) and 0 <= endpoint < 1 << 32:
                return answer if numbers and known and polls in _POLLS else None
    return None


def _talk(s: socket.socket, pid: int) -> bytes | None:
    """The answer of process @pid; None if it belongs to another user, or has no counters."""
    s.settimeout(_TIMEOUT_S)
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
    """The counters of process @pid; a complaint; or None without either."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            text = _talk(s, pid)
        if text is None:
            return None
        answer = checked(json.loads(text), pid)
    except (TimeoutError, BlockingIOError):  # the latter: its queue is full of those who asked
        return f"process {pid} did not say within {_TIMEOUT_S:g} s what it counts; is it stopped?"
    except OSError:
        return None  # it ends just now
    except (ValueError, RecursionError):  # the latter of "[[[…"
        answer = None
    if answer is None:
        return f"process {pid} says nonsense of its counters; fix: use one release of Hikyaku"
    return answer | {"clock_ms": time.monotonic_ns() // 1_000_000}


def ask_all() -> tuple[list[dict], list[str]]:
    """The answers of this user's ranks, by job and endpoint, and the complaints about missing
    ones."""
    pids = _pids()
    if not pids:
        return [], []
    with ThreadPoolExecutor(min(len(pids), _AT_ONCE)) as asking:  # a stopped one holds none up
        answers = list(asking.map(_ask, pids))
    found = [answer for answer in answers if isinstance(answer, dict)]
    found.sort(key=lambda rank: (rank["job"], rank["endpoint"]))
    return found, [answer for answer in answers if isinstance(answer, str)]
