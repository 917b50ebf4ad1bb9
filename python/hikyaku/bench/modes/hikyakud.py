# SPDX-License-Identifier: BSD-3-Clause
"""hikyakud in a lab: a daemon that the benchmark starts, and the CPU that daemons use."""

import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ... import process
from ...errors import HikyakuError
from ...hostd import program, start
from ...lab import Lab

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


# ---- which processes -----------------------------------------------------------------------------


def _is_hikyakud(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.startswith("hikyakud")
    except OSError:  # it has just ended
        return False


def processes(lab: Lab) -> dict[str, list[int]]:
    """The daemons and pollers that run in @lab, by node."""
    found: dict[str, list[int]] = defaultdict(list)
    nodes = {Path(f"/run/netns/{n.netns}").stat().st_ino: n.name for n in lab.topology.nodes}
    for pid in process.find(namespaces=nodes):
        if _is_hikyakud(pid) and (node := nodes.get(process.net_namespace(pid) or 0)):
            found[node].append(pid)
    return {node: sorted(pids) for node, pids in found.items()}


def _daemons(lab: Lab, node: str) -> list[int]:
    """The daemons of @node, without their pollers."""
    ours = processes(lab).get(node, [])
    return [p for p in ours if "poller" not in process.command_line(p).split()[1:2]]


@contextmanager
def administrators(lab: Lab, node: str, slots: int, mode: str) -> Iterator[None]:
    """Runs hikyakud on @node in @mode, for any job, until the end of the block."""
    own = lab.node_directory(node)
    wires = own / "bench"
    wires.mkdir(mode=0o700)
    options = {"mode": mode, "slots": slots, "huge_dir": own / "huge"}
    argv = [program(), *process.option_words(background=True, port=f"memif:dir={wires}", **options)]
    try:
        start(lab.exec_argv(node, argv))
        yield
    finally:
        process.end_all(lambda: _daemons(lab, node), grace=10)
        shutil.rmtree(wires)


# ---- their CPU -----------------------------------------------------------------------------------


def cpu_seconds(stat: str) -> float:
    """User and system time of a process and of its children that have ended, from the text of
    /proc/PID/stat. The name in it may hold anything, even brackets."""
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * _TICK_S


def _cpu_of(pids: list[int]) -> float:
    try:
        return sum(cpu_seconds(Path(f"/proc/{pid}/stat").read_text()) for pid in pids)
    except OSError:
        raise HikyakuError("hikyakud or its poller ended while its CPU was measured") from None


def cpu_percent(lab: Lab, seconds: float, stop: threading.Event) -> list[float]:
    """The CPU use of each node's daemon and poller over the next @seconds, in % of a core."""
    before = processes(lab)
    if not before:
        raise HikyakuError(f"no hikyakud runs in lab '{lab.name}', so its CPU cannot be measured")
    start = {node: (_cpu_of(pids), time.monotonic()) for node, pids in before.items()}
    stop.wait(seconds)
    percents = []
    for node, pids in before.items():
        cpu, at = start[node]
        percents.append((_cpu_of(pids) - cpu) / (time.monotonic() - at) * 100)
    if not stop.is_set() and processes(lab) != before:
        raise HikyakuError("hikyakud or its poller restarted while its CPU was measured")
    return percents


class CpuWatch:
    """Measures the CPU of a lab's daemons in a thread, while the caller runs a job.

    The measurement lasts @seconds. It starts when the job has made all files of @flags, and then
    removes them, which ends the job.
    """

    def __init__(self, lab: Lab, flags: list[Path], seconds: float, limit: float):
        self._stop = threading.Event()
        self._percents: list[float] = []
        self._error: HikyakuError | None = None
        self._flags = flags
        self._thread = threading.Thread(target=self._main, args=(lab, seconds, limit))

    def _all_there(self) -> bool:
        return all(flag.exists() for flag in self._flags)

    def _remove_flags(self) -> None:
        for flag in self._flags:
            flag.unlink(missing_ok=True)

    def _main(self, lab: Lab, seconds: float, limit: float) -> None:
        try:
            process.wait_until(
                "the ranks to begin", lambda: self._stop.is_set() or self._all_there(), limit
            )
            percents = [] if self._stop.is_set() else cpu_percent(lab, seconds, self._stop)
            if not self._all_there():
                raise HikyakuError("the ranks ended before their daemons' CPU was measured")
            self._percents = percents
            self._remove_flags()
        except HikyakuError as error:
            self._error = error

    def during(self, run: Callable[[], object]) -> list[float]:
        """Calls @run, and returns the percentages."""
        self._thread.start()
        try:
            run()
        finally:
            self._stop.set()
            self._thread.join()
            self._remove_flags()
        if self._error:
            raise HikyakuError(f"the daemons' CPU could not be read: {self._error}")
        return self._percents
