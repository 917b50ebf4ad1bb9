# SPDX-License-Identifier: BSD-3-Clause
"""The messages of one exchange between neighbours, as JSON and as hikyaku-sim reads them.

The JSON is {"ranks": N, "messages": [[from, to, bytes], ...]}; tools/sim/messages.h has the limits.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import HikyakuError

RANKS = 4096  # at most
BYTES = 1 << 30  # that a rank sends, at most
FILE = 1 << 28  # bytes of a file, at most
_FIX = 'write {"ranks": N, "messages": [[from, to, bytes], ...]}; docs/sim.md explains it'


@dataclass(frozen=True)
class Messages:
    ranks: int
    messages: list[tuple[int, int, int]]  # from, to, bytes; at most one from a rank to another

    def lines(self) -> str:
        """The file of hikyaku-sim."""
        rows = (" ".join(map(str, message)) for message in self.messages)
        return "\n".join([f"ranks {self.ranks}", *rows, ""])

    def neighbours(self) -> list[int]:
        """By rank: the ranks to which it sends."""
        found = Counter(sender for sender, _, _ in self.messages)
        return [found[rank] for rank in range(self.ranks)]

    def sent(self) -> list[int]:
        """By rank: the bytes that it sends."""
        found: Counter[int] = Counter()
        for sender, _, size in self.messages:
            found[sender] += size
        return [found[rank] for rank in range(self.ranks)]


def _is_number(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def check(document: object, name: str) -> Messages:
    """Checks what a file has. @name: of the file, for errors."""
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        raise HikyakuError(f"{name} has no list of messages", _FIX)
    ranks = document.get("ranks")
    if not _is_number(ranks, 2, RANKS):
        raise HikyakuError(f"{name}: 'ranks' must be a number from 2 to {RANKS}", _FIX)
    pairs = set()
    for i, message in enumerate(document["messages"]):
        if not isinstance(message, list) or len(message) != 3:
            raise HikyakuError(f"{name}: message {i} is not [from, to, bytes]", _FIX)
        sender, receiver, size = message
        if not (_is_number(sender, 0, ranks - 1) and _is_number(receiver, 0, ranks - 1)):
            text = f"{name}: message {i} names a rank that is not from 0 to {ranks - 1}"
            raise HikyakuError(text, _FIX)
        if sender == receiver or (sender, receiver) in pairs:
            text = f"{name}: message {i} is from a rank to itself, or the second of two ranks"
            raise HikyakuError(text, "leave it out, or add its bytes to the first")
        if not _is_number(size, 1, BYTES):
            text = f"{name}: message {i} must have 1 to {BYTES} bytes"
            raise HikyakuError(text, _FIX)
        pairs.add((sender, receiver))
    if not pairs:
        raise HikyakuError(f"{name} has no messages", _FIX)
    found = Messages(ranks, [(a, b, size) for a, b, size in document["messages"]])
    if max(found.sent()) > BYTES:
        raise HikyakuError(f"{name}: a rank sends more than {BYTES} bytes", "send fewer")
    return found


def read(path: Path) -> Messages:
    try:
        if path.stat().st_size > FILE:
            raise HikyakuError(f"{path} has more than {FILE} bytes", "choose a smaller exchange")
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as why:
        raise HikyakuError(f"{path} cannot be read as JSON: {why}", _FIX) from why
    return check(document, str(path))
