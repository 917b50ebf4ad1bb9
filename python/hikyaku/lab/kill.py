# SPDX-License-Identifier: BSD-3-Clause
"""Deliberate faults: kills a rank or a daemon, or takes a wire down.

Victims are found only inside of the lab, by their network namespace. Ranks are identified by the
environment that Open MPI gave them, daemons by the lock that they hold. Names of programs are never
used.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import process
from ..errors import HikyakuError
from . import network
from .topology import Node, Topology


@dataclass(frozen=True)
class Killed:
    pid: int
    node: str
    what: str  # its command line, or the daemon's name


def _node_processes(node: Node) -> list[int]:
    inode = network.namespace_inode(node.netns)
    return process.find(namespaces=[inode]) if inode is not None else []


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
    return {name: value for name, _, value in pairs}


def _stat(pid: int) -> tuple[int, int]:
    """The parent and the session of @pid; (0, 0) if it has ended."""
    fields = process.stat(pid)
    return (int(fields[1]), int(fields[3])) if fields else (0, 0)


def _kill(pid: int, is_it: Callable[[], bool]) -> bool:
    """Sends SIGKILL to @pid, if @is_it confirms that the process has not been replaced."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if is_it():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


# ---- ranks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rank:
    """A rank's first process: the one that Open MPI's daemon started."""

    pid: int
    node: str
    number: int
    run: str
    job: int  # 1: mpirun's own; others were spawned by it
    command: str


def _job(env: Mapping[str, str]) -> int:
    """Its number among those of an mpirun, as Open MPI 4.1 or 5.0 tells it; 0: unknown."""
    ident = env.get("OMPI_MCA_ess_base_jobid", "")
    if ident.isdigit():
        return int(ident) & 0xFFFF
    number = env.get("PMIX_NAMESPACE", "").rpartition("@")[2]
    return int(number) if number.isdigit() else 0


def ranks(topology: Topology) -> list[Rank]:
    """The ranks that run in the lab. Children of a rank have its environment, so a rank is a
    process whose parent is not a rank."""
    found = []
    for node in topology.nodes:
        here = {pid: _environment(pid) for pid in _node_processes(node)}
        for pid, env in here.items():
            parent = here.get(_stat(pid)[0])
            if parent is None or "OMPI_COMM_WORLD_RANK" in parent:
                continue
            number = env.get("OMPI_COMM_WORLD_RANK", "")
            if number.isdigit():
                run = env.get("HIKYAKU_RUN", "?").rpartition("-")[2]
                job = _job(env)
                command = process.command_line(pid)
                found.append(Rank(pid, node.name, int(number), run, job, command))
    return found


def _family(rank: Rank, node: Node) -> list[int]:
    """The rank and its descendants, children last. A daemon has another parent, and stays."""
    session = _stat(rank.pid)[1]
    here = {pid: _stat(pid) for pid in _node_processes(node)}
    family = [rank.pid]
    for parent in family:
        family += [p for p, (up, s) in here.items() if up == parent and s == session]
    return family


def kill_rank(topology: Topology, number: int, run: str | None = None) -> Killed:
    running = ranks(topology)
    if not running:
        raise HikyakuError(
            f"no program of Open MPI runs in lab '{topology.lab}', and no other has ranks to kill",
            f"start one in another terminal: hikyaku lab mpirun --lab {topology.lab} -np 2 PROGRAM",
        )
    names = {r.run for r in running}
    if run is None and len(names) > 1:
        raise HikyakuError(
            f"{len(names)} runs are under way in this lab: {', '.join(sorted(names))}",
            "say which by --run",
        )
    job = [r for r in running if run in (None, r.run)]
    if not job:
        raise HikyakuError(f"there is no run '{run}'", f"there are: {', '.join(sorted(names))}")
    job = [r for r in job if r.job == min(r.job for r in job)]
    chosen = next((r for r in job if r.number == number), None)
    if chosen is None:
        there = ", ".join(str(n) for n in sorted(r.number for r in job))
        raise HikyakuError(f"no rank {number} runs in this lab; there are: {there}")
    node = topology.node(chosen.node)
    inode = network.namespace_inode(node.netns)
    for pid in _family(chosen, node):
        done = _kill(pid, lambda pid=pid: process.net_namespace(pid) == inode)
        if pid == chosen.pid and not done:
            raise HikyakuError(f"rank {number} (process {pid}) has just ended by itself")
    return Killed(chosen.pid, chosen.node, chosen.command)


# ---- daemons -------------------------------------------------------------------------------------


def _holder(lock: Path, node: Node) -> int | None:
    """The process of @node that holds the flock on @lock, by the kernel's list of open files."""
    try:
        inode = lock.stat().st_ino
    except OSError:
        return None
    for pid in _node_processes(node):
        with suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if fd.stat().st_ino != inode or not fd.samefile(lock):
                        continue
                    held = Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text()
                    # children inherit the file, but the lock is of the one that took it
                    if re.search(rf"^lock:.*FLOCK.* {pid} ", held, re.MULTILINE):
                        return pid
    return None


def daemons(node: Node, run_dir: Path) -> dict[str, int]:
    """The living daemons of @node by name; each holds the lock of its directory in @run_dir."""
    found = {}
    for lock in sorted(run_dir.glob("*/lock")):
        pid = _holder(lock, node)
        if pid is not None:
            found[lock.parent.name] = pid
    return found


def kill_daemon(node: Node, run_dir: Path, name: str | None = None) -> Killed:
    living = daemons(node, run_dir)
    if not living:
        raise HikyakuError(
            f"no hikyakud runs on {node.name}: nobody holds a lock in {run_dir}/*/",
            "start a job whose ranks use a daemon, or a daemon by itself",
        )
    if name is None and len(living) > 1:
        raise HikyakuError(
            f"{len(living)} daemons run on {node.name}: {', '.join(living)}", "say which by --name"
        )
    name = name or next(iter(living))
    if name not in living:
        raise HikyakuError(f"no daemon '{name}' runs on {node.name}; running: {', '.join(living)}")
    pid = living[name]
    if not _kill(pid, lambda: _holder(run_dir / name / "lock", node) == pid):
        raise HikyakuError(f"daemon '{name}' (process {pid}) has just ended by itself")
    return Killed(pid, node.name, name)


# ---- wires ---------------------------------------------------------------------------------------


def wire_links(topology: Topology, node: Node, link: str | None = None) -> list[str]:
    """The data links of @node, or only @link."""
    there = [found["name"] for found in network.links(node.netns)]
    if link is not None:
        if link not in there:
            raise HikyakuError(f"{node.name} has no link '{link}'; it has: {', '.join(there)}")
        return [link]
    if topology.wire == "memif":
        raise HikyakuError(
            "the wires of a memif lab are memory that two processes share: there is no link to "
            "take down",
            "use a lab of wire veth; or kill the daemon or a rank at one end; or let frames be "
            "lost, by ';faults=drop=1' behind the port; or name a kernel link by --link tcp0",
        )
    return [name for name in there if name.startswith("tcp" if topology.by_sockets else "hk")]


def take_down(node: Node, links: list[str]) -> None:
    network.batch(node.netns, [f"link set {link} down" for link in links])


def bring_up(topology: Topology, node: Node, links: list[str]) -> None:
    """Links that are up already may be among @links, except on wire routed."""
    for link in links:
        network.batch(node.netns, network.commands_up(topology, link))


def cut_wire(topology: Topology, node: Node, links: list[str], seconds: float) -> None:
    """Takes @links down for @seconds, and brings them back however this ends."""
    try:
        take_down(node, links)
        time.sleep(seconds)
    finally:
        bring_up(topology, node, links)
