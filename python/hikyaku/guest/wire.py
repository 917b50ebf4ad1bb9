# SPDX-License-Identifier: BSD-3-Clause
"""The host's end of a guest's NIC: frames as datagrams of a socket.

No frame is lost on the way. QEMU reads a frame when the NIC has a free buffer, and the kernel
blocks the sender until then.
"""

import select
import socket
import time
from contextlib import suppress
from pathlib import Path

from ..errors import HikyakuError

FRAME_LIMIT = 65535
# Seconds without a frame after which frames under way count as lost. An emulator on a busy machine
# stalled for more than five.
QUIET = 40.0


class Wire:
    def __init__(self, to_nic: Path, from_nic: Path):
        self._to = str(to_nic)
        self._from = from_nic
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._from.unlink(missing_ok=True)
        self._socket.bind(str(from_nic))
        self._socket.setblocking(False)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._from.unlink(missing_ok=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def try_send(self, frame: bytes) -> bool:
        """Sends @frame; returns False if the NIC has no free buffer now."""
        try:
            self._socket.sendto(frame, self._to)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as why:
            raise HikyakuError(f"the guest's NIC takes no frames: {why}", "is it up?") from None
        return True

    def send(self, frame: bytes, timeout: float = 10) -> None:
        end = time.monotonic() + timeout
        while not self.try_send(frame):
            if time.monotonic() > end:
                raise HikyakuError(f"the guest's NIC took no frame for {timeout:g} s")
            select.select([], [self._socket], [], 0.01)

    def receive(self, timeout: float = 0) -> bytes | None:
        """The next frame that the NIC sent; None after @timeout seconds."""
        end = time.monotonic() + timeout
        while True:
            with suppress(BlockingIOError, InterruptedError):
                return self._socket.recv(FRAME_LIMIT)
            left = end - time.monotonic()
            if left <= 0:
                return None
            select.select([self._socket], [], [], left)


def exchange(
    sent: list[tuple[Wire, list[bytes]]],
    receivers: list[Wire],
    expected: int,
    *,
    window: int = 256,
    timeout: float = 60,
    answers: list[int] | None = None,
) -> list[list[bytes]]:
    """Sends the frames of each wire of @sent in turn; returns the frames that each of @receivers
    got.

    At most @window more frames are sent than have come back. With fewer frames under way than a
    NIC's ring holds, none is lost. Ends when @expected frames have come, when none has come for
    QUIET seconds, or after @timeout seconds. @answers: how many frames come back for each frame of
    the first wire, if not one.
    """
    got: list[list[bytes]] = [[] for _ in receivers]
    queues = [(wire, iter(frames)) for wire, frames in sent]
    waiting: list[tuple[Wire, bytes] | None] = [None] * len(queues)
    live = [True] * len(queues)
    each = iter(answers or ())
    out = back = 0
    quiet_since = time.monotonic()
    end = quiet_since + timeout
    quiet_limit = min(QUIET, timeout)
    while back < expected:
        moved = False
        for i, (wire, frames) in enumerate(queues):
            while live[i] and out - back < window:
                frame = waiting[i][1] if waiting[i] else next(frames, None)
                if frame is None:
                    live[i] = False
                elif wire.try_send(frame):
                    waiting[i] = None
                    out += next(each, 1) if i == 0 else 1
                    moved = True
                    continue
                else:
                    waiting[i] = (wire, frame)
                break
        for k, wire in enumerate(receivers):
            while (frame := wire.receive()) is not None:
                got[k].append(frame)
                back += 1
                moved = True
        now = time.monotonic()
        if moved:
            quiet_since = now
        elif now - quiet_since > quiet_limit or now > end:
            break
        else:
            select.select(receivers, [], [], 0.01)
    return got
