# SPDX-License-Identifier: BSD-3-Clause
"""A controller's directory, what a killed one leaves in it, and who may reach a controller."""

import asyncio
import errno
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hikyaku.checkout import ROOT
from hikyaku.errors import HikyakuError
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.network import Job
from hikyaku.sdn.run import Options, check_rest, run
from hikyaku.sdn.store import Store

OWNER = """
import sys
from pathlib import Path
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.network import Job
from hikyaku.sdn.run import Options, check_rest, run
from hikyaku.sdn.store import Store
store = Store(Path(sys.argv[1]))
with store.owned():
    store.set_address("http://127.0.0.1:1")
    print("ready", flush=True)
    sys.stdin.read()
"""


def owner(directory: Path) -> subprocess.Popen:
    child = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    assert child.stdout.readline() == "ready\n"
    return child


def test_one_controller_has_a_directory(tmp_path):
    store = Store(tmp_path / "sdn")
    assert not store.is_owned()
    first = owner(store.directory)
    try:
        assert store.is_owned()
        says = (
            rf"process {first.pid}, runs with .*; fix: hikyaku sdn stop --state {store.directory}"
        )
        with pytest.raises(HikyakuError, match=says), store.owned():
            pass
        assert store.address() == "http://127.0.0.1:1", "the refused one leaves the other's"
    finally:
        first.communicate(timeout=30)
    assert not store.is_owned()
    assert store.address() is None


def test_a_killed_ones_address_goes_with_the_next(tmp_path):
    store = Store(tmp_path / "sdn")
    child = owner(store.directory)
    child.kill()
    child.communicate(timeout=30)
    assert not store.is_owned()
    assert store.address() is not None
    with store.owned():
        assert store.is_owned()
        assert store.address() is None


def test_who_looks_does_not_keep_a_controller_from_starting(tmp_path, monkeypatch):
    """Clients that wait for a controller look at the directory all the time."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # the owner may not wait for a pause
    store = Store(tmp_path / "sdn")
    end = threading.Event()
    seen: set[bool] = set()

    def look() -> None:
        while not end.is_set():
            seen.add(store.is_owned())

    clients = [threading.Thread(target=look) for _ in range(3)]
    for each in clients:
        each.start()
    try:
        for _ in range(300):
            with store.owned():
                assert store.is_owned()
    finally:
        end.set()
        for each in clients:
            each.join()
    assert seen == {False, True}


def test_much_that_comes_at_once_is_written_once_and_not_lost(tmp_path, monkeypatch):
    said: list[str] = []
    controller = Controller(Store(tmp_path / "sdn"), said.append)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for number in range(1, 20):
        controller.set_job(Job(number))
    assert synced == []
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        asyncio.run(controller._update())
    assert "No space left" in said[-1]
    assert Store(tmp_path / "sdn").load()[0] == {}
    asyncio.run(controller._update())
    asyncio.run(controller._update())
    assert len(synced) == 2, "the file, and the directory"
    assert len(Store(tmp_path / "sdn").load()[0]) == 19


def test_nothing_waits_for_a_slow_disk_except_the_rules(tmp_path, monkeypatch):
    """The state is written first: a next controller must know the jobs that have rules."""
    controller = Controller(Store(tmp_path / "sdn"), print)
    writes, written = threading.Event(), threading.Event()

    def slow(_fd: int) -> None:
        writes.set()
        assert written.wait(10)

    async def life() -> None:
        updating = asyncio.create_task(controller._updating())
        controller.set_job(Job(1))
        while not writes.is_set():
            await asyncio.sleep(0)  # a request would be answered here
        controller.set_job(Job(2))
        assert not controller.is_settled()
        written.set()
        await controller.settled()
        updating.cancel()

    monkeypatch.setattr(os, "fsync", slow)
    asyncio.run(life())
    assert Store(tmp_path / "sdn").load()[0].keys() == {1, 2}


def test_an_update_that_is_cancelled_leaves_its_state_to_the_end(tmp_path, monkeypatch):
    controller = Controller(Store(tmp_path / "sdn"), print)
    writes, end = threading.Event(), threading.Event()

    def slow(_fd: int) -> None:
        writes.set()
        end.wait(10)

    async def life() -> None:
        updating = asyncio.create_task(controller._updating())
        controller.set_job(Job(1))
        while not writes.is_set():
            await asyncio.sleep(0)
        updating.cancel()
        await asyncio.wait([updating])
        end.set()
        controller.keep()

    monkeypatch.setattr(os, "fsync", slow)
    asyncio.run(life())
    assert Store(tmp_path / "sdn").load()[0].keys() == {1}


def test_the_log_says_that_the_controller_did_not_run(tmp_path):
    said: list[str] = []
    times = iter([100.0, 100.0, 100.1, 131.2])
    clock = lambda: next(times, 131.3)  # noqa: E731

    async def life() -> None:
        controller = Controller(Store(tmp_path / "sdn"), said.append, clock=clock)
        probing = asyncio.create_task(controller._probing())
        async with asyncio.timeout(10):
            while not said:
                await asyncio.sleep(0.01)
        probing.cancel()

    asyncio.run(life())
    assert len(said) == 1
    assert re.match(r"the controller did not run for 31 s: ", said[0])


def full(_fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "::"])
def test_rest_is_for_this_machine_unless_it_is_said_aloud(tmp_path, host):
    options = Options(tmp_path / "sdn", ("127.0.0.1", 0), (host, 0))
    with pytest.raises(HikyakuError, match=r"token, .*; fix: --rest-tls; .*-in-clear"):
        run(options)
    check_rest(replace(options, rest_in_clear=True))
    with pytest.raises(HikyakuError, match="--rest-tls needs a certificate"):
        run(replace(options, rest_tls=True))
    check_rest(replace(options, rest=("localhost", 0)))
