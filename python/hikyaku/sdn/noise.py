# SPDX-License-Identifier: BSD-3-Clause
"""Limits the frames that hosts send to the controller, by a token bucket for each port.

Pure. A port with an empty bucket is *quiet* for a while: its switch sends the controller nothing
from it, and forwards as before. If a port exceeds its rate again at once, the time doubles.
"""

from collections.abc import Iterable

Port = tuple[int, int]

RATE = 100.0  # frames a second from a port
BURST = 600  # at once: a port may have 256 hosts, and each says more than one thing
QUIET_FIRST, QUIET_MAX = 10.0, 320.0  # seconds


class _Bucket:
    __slots__ = ("at", "pause", "tokens", "until")

    def __init__(self, now: float):
        self.tokens, self.at = float(BURST), now
        self.pause, self.until = 0.0, 0.0


class Noise:
    def __init__(self) -> None:
        self.quiet: set[Port] = set()
        self._buckets: dict[Port, _Bucket] = {}

    def admits(self, port: Port, now: float) -> bool:
        """A frame came from @port. Returns whether to handle it."""
        bucket = self._buckets.get(port)
        if bucket is None:
            bucket = self._buckets[port] = _Bucket(now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) * RATE)
        bucket.at = now
        if port in self.quiet or bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def exceeded(self, port: Port, now: float) -> float | None:
        """After admits() returned False: the seconds for which the port is quiet, if that begins
        now."""
        if port in self.quiet:
            return None
        bucket = self._buckets[port]
        again = bucket.pause and now - bucket.until < bucket.pause
        bucket.pause = min(2 * bucket.pause, QUIET_MAX) if again else QUIET_FIRST
        bucket.until = now + bucket.pause
        self.quiet.add(port)
        return bucket.pause

    def over(self, now: float) -> set[Port]:
        """Ends the quiet time of ports, and returns these."""
        found = {port for port in self.quiet if now >= self._buckets[port].until}
        self.quiet -= found
        return found

    def forget(self, ports: Iterable[Port]) -> None:
        for port in ports:
            self._buckets.pop(port, None)
            self.quiet.discard(port)
