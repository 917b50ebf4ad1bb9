# SPDX-License-Identifier: BSD-3-Clause
"""A run of mpirun in a lab: its description, its result, and the checks before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import HikyakuError
from .rtc import BACKEND, PREFIX
from .topology import Topology

MEMIF_WIRES = 32  # that a process can open: RTE_MAX_ETHPORTS of DPDK


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
    mpi: str | None = None  # one of mpi.NAMES; None: the machine's Open MPI


@dataclass(frozen=True)
class RunResult:
    """The output and the exit status of a captured run."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float

    def said(self, most: int) -> str:
        """The end of its errors, or else of its output, at most @most characters."""
        return (self.stderr or self.stdout).strip()[-most:]


def check_wires(topology: Topology, job: Job, ranks: int, given: Mapping[str, str]) -> None:
    """Raises an error if a rank of @job would need too many wires. @given: its environment.

    On memif a rank has a wire to each rank of other nodes, and to all others if it uses rtc.
    """
    backend = given.get(BACKEND)
    shared = job.tcp or job.mode not in (None, "inline") or backend not in (None, "dpdk")
    if topology.wire != "memif" or shared:
        return
    on_a_node = topology.ranks_of_node(ranks)
    wires = (ranks - (1 if backend else on_a_node)) * topology.ports
    if wires > MEMIF_WIRES:
        veth = topology.again(wire="veth", ranks_per_node=on_a_node)
        raise HikyakuError(
            f"on wire memif each of {ranks} ranks needs {wires} wires, and DPDK opens "
            f"{MEMIF_WIRES} in a process",
            f"start fewer ranks, use --tcp, or make the lab with another wire: {veth}",
        )


def check_backend(topology: Topology, ranks: int | None, given: Mapping[str, str]) -> None:
    """Raises an error if @given, the environment of a job of @ranks, names a backend of rtc without
    an interface in this lab."""
    own = f"{PREFIX}ADDRESS_AF_XDP" in given
    if given.get(BACKEND) == "af_xdp" and not topology.data_ports and not own:
        raise HikyakuError(
            f"lab '{topology.lab}' has the wire {topology.wire}, which af_xdp cannot use",
            topology.again(wire="veth", ranks_per_node=topology.ranks_of_node(ranks)),
        )


def check(topology: Topology, job: Job, *, named: bool) -> None:
    """Raises an error if @job cannot run in this lab. @named: the user names its port."""
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
    if topology.by_sockets and job.mode != "inline":
        raise HikyakuError(
            f"in mode {job.mode} ranks share one port, and on wire {topology.wire} each has a "
            "socket of its own",
            "--mode inline",
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
    if job.mode in ("hybrid", "split") and topology.data_ports and not named:
        raise HikyakuError(
            f"in mode {job.mode} ranks poll queues of one port, and an interface of wire "
            f"{topology.wire} has one queue",
            f"--mode inline, or make the lab again: {topology.again(wire='memif', huge=512)}",
        )
    if job.mode in ("hybrid", "split", "daemon") and not topology.huge_mb:
        raise HikyakuError(
            "this lab has no huge pages, and hikyakud shares memory with ranks only in huge pages",
            f"--mode inline, or make the lab again: {topology.again(huge=512)}",
        )
