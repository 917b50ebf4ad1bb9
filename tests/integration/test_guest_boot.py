# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine boots on a host that does not always run it."""

import os
import signal
import threading
import time

import pytest

from hikyaku import guest as guests
from hikyaku import process
from hikyaku.guest import Guest, Machine

STOPS = 40
RUNS, RESTS = 0.015, 0.1  # seconds


def test_host_takes_whole_ticks(lab_name, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts four ticks of 4 ms, and panics if they take long. While it does so, the
    host lets QEMU run for less than four ticks at a time."""
    name = lab_name("boot")
    plain = guests.command

    def command(machine, kernel, directory) -> list[str]:
        """The kernel's messages come early, and QEMU says its process id."""
        argv = [
            each.replace("quiet", "earlyprintk=serial")
            for each in plain(machine, kernel, directory)
        ]
        return [*argv, "-pidfile", f"{directory}/pid"]

    stops = 0

    def rest() -> None:
        nonlocal stops
        directory = guests._directory(name)

        def begun() -> bool:
            log = directory / "serial.log"
            return log.exists() and b"Linux version" in log.read_bytes()

        process.wait_until("the kernel to begin", begun, guests.BOOT_SECONDS)
        qemu = int((directory / "pid").read_text())
        for _ in range(STOPS):
            os.kill(qemu, signal.SIGSTOP)
            time.sleep(RESTS)
            os.kill(qemu, signal.SIGCONT)
            time.sleep(RUNS)
            stops += 1

    monkeypatch.setattr(guests, "command", command)
    host = threading.Thread(target=rest)
    host.start()
    try:
        Guest.up(Machine(iommu=True), name)
    finally:
        host.join()
        guests.down(name)
    assert stops == STOPS
