# SPDX-License-Identifier: BSD-3-Clause
"""A run of mpirun in a lab: its description, its result, and the checks before it starts."""

from dataclasses import dataclass, field

from ..errors import HikyakuError
from .topology import Topology


@dataclass(frozen=True)
class Job:
    """One mpirun: the arguments of its command line, and how to run it."""

    arguments: list[str]  # options of mpirun, the program, the program's arguments
    tcp: bool = False  # over TCP, not over the BTL
    mode: str | None = None  # polling mode, of openmpi.MODES; None: the component's default
    tag: bool = False  # tagged: over TCP by the kernel (docs/tagger.md), else by the ranks
    env: dict[str, str] = field(default_factory=dict)  # seen by mpirun
    one_core: bool = False  # each node has one core only
    capture: bool = True  # else it has this process's stdin and output
    timeout: float | None = None  # seconds after which everything is ended, with an error
    measure: bool = False  # tag: the kernel measures the tagger's programs
    attach: str | None = None  # tag: of sdn.tagger.WAYS; None: chosen by the tagger


@dataclass(frozen=True)
class RunResult:
    """The output and the exit status of a captured run."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float


def check(topology: Topology, job: Job) -> None:
    """Raises an error if @job cannot run in this lab."""
    if job.tag and not job.tcp and not topology.wiring:
        raise HikyakuError(
            f"ranks tag their own frames only where switches restore the addresses, and wire "
            f"{topology.wire} has no switches",
            "add --tcp, or leave out --tag, or make the lab with switches: "
            f"{topology.again(**topology.switched())}",
        )
    if job.mode is None:
        return
    if job.tcp:
        raise HikyakuError(
            f"--mode {job.mode} selects how the BTL polls, and --tcp does not use the BTL",
            "leave out one of them",
        )
    if job.tag and topology.wiring and job.mode in ("hybrid", "split", "daemon"):
        raise HikyakuError(
            f"in mode {job.mode} ranks share one port, and a tag identifies a port that its rank "
            "polls itself",
            "--mode inline, or leave out --tag",
        )
    if job.mode not in ("inline", "auto") and topology.ports > 1:
        raise HikyakuError(
            f"in mode {job.mode} ranks share one port, and in this lab each has {topology.ports}",
            f"--mode inline, or make the lab again: {topology.again(ports=None)}",
        )
    if job.mode in ("hybrid", "split", "daemon") and not topology.huge_mb:
        raise HikyakuError(
            "this lab has no huge pages, and hikyakud shares memory with ranks only in huge pages",
            f"--mode inline, or make the lab again: {topology.again(huge=512)}",
        )
