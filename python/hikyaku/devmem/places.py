# SPDX-License-Identifier: BSD-3-Clause
"""The two places where hk_devmem measures: this machine, and a guest."""

import json
import select
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from ..checkout import built
from ..errors import HikyakuError
from ..guest import Guest, Wire
from ..process import stop

TURN = 64  # frames that one direction moves before the other's turn
PROGRAM = "systems/devmem/tool/hk_devmem"


class Place(Protocol):
    def run(self, argv: list[str]) -> dict:
        """Measures one cell."""

    def peer(self, nic: str) -> AbstractContextManager[None]:
        """The other end of a cable, while cells are measured."""


def _report(status: int, said: str) -> dict:
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if status or not lines:
        raise HikyakuError.said((said.strip().splitlines() or ["it said nothing"])[-1])
    return json.loads(lines[-1])


class Here:
    def run(self, argv: list[str]) -> dict:
        done = subprocess.run(
            [str(built(PROGRAM)), "measure", *argv],
            capture_output=True,
            text=True,
            timeout=4000,
            check=False,
        )
        return _report(done.returncode, done.stdout + done.stderr)

    @contextmanager
    def peer(self, nic: str) -> Iterator[None]:
        argv = [str(built(PROGRAM)), "peer", "--nic", nic]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as peer:
            try:
                said = []
                for line in peer.stdout or ():
                    said.append(line)
                    if line == "ready\n":
                        break
                else:
                    raise HikyakuError.said(said[-1].strip() if said else "the peer said nothing")
                yield
            finally:
                stop(peer)


class InGuest:
    """The first two NICs of the guest are connected while this is in use."""

    def __init__(self, guest: Guest):
        self._guest = guest
        self._end = threading.Event()
        self._wires = ExitStack()

    def run(self, argv: list[str]) -> dict:
        return _report(*self._guest.exec(f"hk_devmem measure {shlex.join(argv)}", timeout=600))

    @contextmanager
    def peer(self, nic: str) -> Iterator[None]:
        peer = self._guest.start(f"hk_devmem peer --nic {nic}")
        try:
            yield
        finally:
            peer.end(stop=True)

    def __enter__(self) -> "InGuest":
        try:
            ends = [self._wires.enter_context(self._guest.wire(i)) for i in range(2)]
            self._thread = threading.Thread(target=self._patch, args=ends, daemon=True)
            self._thread.start()
        except BaseException:
            self._wires.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=5)
        self._wires.close()

    def _patch(self, a: Wire, b: Wire) -> None:
        while not self._end.is_set():
            select.select([a, b], [], [], 0.05)
            for left, right in ((a, b), (b, a)):
                for _ in range(TURN):
                    if (frame := left.receive()) is None:
                        break
                    # a frame that a stopped NIC does not take is lost, as on a cable
                    if not right.try_send(frame):
                        select.select([], [], [], 0.001)
                        right.try_send(frame)
