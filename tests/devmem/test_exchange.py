# SPDX-License-Identifier: BSD-3-Clause
"""Frames to a guest and back, with a simulated clock."""

from collections import deque

import pytest

from hikyaku.guest import wire


class Clock:
    """A clock that advances when the code waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def select(self, _reads: list, _writes: list, _errors: list, timeout: float) -> None:
        self.now += timeout


class Echo:
    """A wire that returns each frame, except for @seconds from time @still on."""

    def __init__(self, clock: Clock, still: float = 0, seconds: float = 0) -> None:
        self.clock, self.from_, self.to = clock, still, still + seconds
        self.frames: deque[bytes] = deque()
        self.most = 0

    def try_send(self, frame: bytes) -> bool:
        self.frames.append(frame)
        self.most = max(self.most, len(self.frames))
        return True

    def receive(self) -> bytes | None:
        self.clock.now += 0.001
        if self.from_ <= self.clock.now < self.to or not self.frames:
            return None
        return self.frames.popleft()


FRAMES = [n.to_bytes(2) for n in range(1000)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wire, "time", clock)
    monkeypatch.setattr(wire, "select", clock)
    return clock


def test_a_guest_that_pauses_for_seconds_loses_nothing(clock: Clock) -> None:
    echo = Echo(clock, still=0.3, seconds=20)
    assert wire.exchange([(echo, FRAMES)], [echo], len(FRAMES), timeout=300) == [FRAMES]
    assert clock.now > 20 and echo.most <= 256


def test_a_guest_that_stops_is_given_up(clock: Clock) -> None:
    echo = Echo(clock, still=0.3, seconds=1e9)
    [got] = wire.exchange([(echo, FRAMES)], [echo], len(FRAMES), window=64, timeout=300)
    assert got == FRAMES[: len(got)] and 100 < len(got) < len(FRAMES)
    assert clock.now < 2 * wire.QUIET and echo.most == 64


def test_the_timeout_is_an_upper_limit(clock: Clock) -> None:
    echo = Echo(clock, still=0.3, seconds=1e9)
    wire.exchange([(echo, FRAMES)], [echo], len(FRAMES), timeout=4)
    assert clock.now < 5
