# SPDX-License-Identifier: BSD-3-Clause
"""One mpirun inside a lab, from its settings to the last process gone.

mpirun runs as a process of node0 and starts its daemons on the other nodes by agent.sh in place of
ssh. Not all that runs is in their process groups, so a run is known by a tag in the environment:
whatever happens to mpirun (it ends, it is interrupted, a limit passes), every process with the tag
is ended after it.
If this process itself is killed, the kernel sends mpirun SIGTERM (setpriv --pdeathsig), and mpirun
ends its daemons.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .. import process
from ..errors import HikyakuError
from ..sdn.client import Client
from ..sdn.registrar import PATIENCE_S, Registrar
from ..sdn.tagger import tag_command
from . import openmpi, rtc
from .lock import locked_directory, try_lock
from .topology import Topology, link_name, node_directory

TAG = "HIKYAKU_RUN"


@dataclass(frozen=True)
class Job:
    """One mpirun: its own arguments, as the command line has them, and how it is to run."""

    arguments: list[str]  # options of mpirun, the program, the program's arguments
    tcp: bool = False  # over TCP, not over the fabric
    host: str | None = None  # who polls, of openmpi.HOST_MODES; None: the component's default
    tag: bool = False  # tagged; over TCP by the kernel (docs/tagger.md), else by the ranks
    env: dict[str, str] = field(default_factory=dict)  # seen by mpirun
    one_core: bool = False  # each node has one core only
    capture: bool = True  # else it has this process's stdin and output
    timeout: float | None = None  # seconds: then everything is ended, with an error
    measure: bool = False  # tag: the kernel measures the programs
    attach: str | None = None  # tag: how they see packets (sdn.tagger.WAYS); None: what there is


@dataclass(frozen=True)
class RunResult:
    """What a captured run printed and how it ended."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float


def runs_locked(runs: Path) -> AbstractContextManager[None]:
    """Nobody else starts a run, ends one or looks for stale ones meanwhile."""
    return locked_directory(runs, f"the lock of {runs}: another run starts or is cleaned up")


@contextmanager
def run_directory(runs: Path) -> Iterator[Path]:
    """A directory for one run: Open MPI's session files, memif sockets. Locked while the run
    lives, so that one that is left over can be told from one in use."""
    path = runs / uuid.uuid4().hex[:8]
    with ExitStack() as stack:
        with runs_locked(runs):
            path.mkdir(mode=0o700)
            lock = stack.enter_context((path / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            with runs_locked(runs):
                shutil.rmtree(path)


def stale_runs(runs: Path) -> list[Path]:
    """Directories of runs whose process was killed before it could clean up. Only what is done
    with them under runs_locked() is sure not to meet a run that starts."""
    found = []
    for path in sorted(runs.iterdir()) if runs.is_dir() else []:
        with suppress(FileNotFoundError):  # it has just ended
            lock = path / "lock"
            if not lock.exists():
                found.append(path)  # killed between the two steps of its start
                continue
            with lock.open() as open_lock:
                if try_lock(open_lock.fileno()):
                    found.append(path)
    return found


def slots_per_node(topology: Topology, ranks: int | None, tcp: bool) -> int:
    """How many ranks a node takes. A veth wire has a port for each, and no more."""
    nodes = len(topology.nodes)
    wanted = -(-ranks // nodes) if ranks else topology.ranks_per_node
    if not tcp and topology.data_ports and wanted > topology.ranks_per_node:
        raise HikyakuError(
            f"{ranks} ranks on {nodes} nodes need {wanted} ports a node, and this lab has "
            f"{topology.ranks_per_node}",
            f"hikyaku lab down, then the same lab up with --ranks-per-node {wanted}",
        )
    return max(wanted, topology.ranks_per_node)


def wires(topology: Topology, run_dir: Path) -> Path:
    """Where the run's memif sockets are. Their paths may have 107 characters, and the names of
    those between polling processes are long, so not below the lab's name."""
    return node_directory(topology.nodes[0].netns) / "wires" / run_dir.name


def remove_wires(topology: Topology, run_dir: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(wires(topology, run_dir))


def memif_spec(topology: Topology, run_dir: Path) -> str:
    return f"memif:dir={wires(topology, run_dir)}"


MEMIF_RING = 256  # descriptors of a wire, as the port has it (docs/ports.md)


def memif_ports(topology: Topology, run_dir: Path) -> list[str]:
    """A place of its own for the wires of each port of a rank. Their rings together are as long as
    that of one port: longer ones would not fit in the cache."""
    first = memif_spec(topology, run_dir)
    if topology.ports == 1:
        return [first]
    ring = f",ring={MEMIF_RING // topology.ports}"
    return [first + ring, *(f"{first}/{port}{ring}" for port in range(1, topology.ports))]


def switch_polls(topology: Topology, host: str | None) -> bool:
    """Does hikyakud's switch poll? Then it needs a core as a rank does."""
    return host in openmpi.SWITCH_MODES or (host == "auto" and topology.wire != "memif")


def port_spec(topology: Topology, run_dir: Path, host: str | None) -> str:
    if topology.wire == "memif":
        return "+".join(memif_ports(topology, run_dir))
    # where hikyakud polls, all ranks of a node share its first port
    if host in ("daemon", "auto"):
        return "af_xdp:iface=hk0"
    links = (link_name("{local_rank}", port) for port in range(topology.ports))
    return "+".join(f"af_xdp:iface={link}" for link in links)


def settings(
    topology: Topology,
    run_dir: Path,
    *,
    ranks: int | None,
    tcp: bool,
    one_core: bool,
    host: str | None = None,
    given: Mapping[str, str],
) -> dict[str, str]:
    """What the lab sets in the environment of mpirun, which has @given besides. Writes the hostfile
    that it names."""
    slots = slots_per_node(topology, ranks, tcp)
    hostfile = run_dir / "hostfile"
    hostfile.write_text("".join(f"{n.name} slots={slots}\n" for n in topology.nodes))
    (run_dir / "tmp").mkdir(mode=0o700)
    wires(topology, run_dir).mkdir(mode=0o700, parents=True)
    for port in range(1, topology.ports):
        (wires(topology, run_dir) / str(port)).mkdir(mode=0o700)

    cpus = topology.cpus(one_core=one_core)
    used = [core for cores in cpus.values() for core in cores]
    polling = slots + switch_polls(topology, host)
    shared = len(used) != len(set(used)) or any(polling > len(c) for c in cpus.values())
    shared |= topology.wiring is not None  # its switches have no core of their own

    env = {
        **tagged(topology, run_dir),
        "HIKYAKU_LAB_CPUS": " ".join(
            f"{name}={','.join(map(str, cores))}" for name, cores in cpus.items()
        ),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": str(run_dir.parent.parent / "agent.sh"),
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        # One session for all nodes. The kernel shares a core between sessions first, then between
        # the processes of each (autogroup, sched(7)), and 6.18 can keep a whole session off a core
        # for half a minute: nodes that share a core would take each other for dead.
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_oob_tcp_if_include": "ctl0",
        "OMPI_MCA_orte_tmpdir_base": str(run_dir / "tmp"),
        "OMPI_MCA_orte_default_hostfile": str(hostfile),
        # Consecutive ranks on different nodes: the wire is what a lab is for.
        "OMPI_MCA_rmaps_base_mapping_policy": "node",
        # Each node's daemon would bind its first rank to core 0; taskset has pinned the node.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1" if shared else "0",
        **rtc.settings(topology, memif_spec(topology, run_dir), tcp=tcp, given=given),
    }
    if tcp:
        env |= openmpi.tcp_settings("tcp0")
    else:
        env |= openmpi.fabric_settings(host)
        env["OMPI_MCA_btl_hikyaku_port"] = port_spec(topology, run_dir, host)
    return env


def check(topology: Topology, job: Job) -> None:
    """Refuses what cannot work here, before anything is started."""
    if job.tag and not job.tcp and not topology.wiring:
        raise HikyakuError(
            f"ranks tag their own frames where switches give them their addresses back, and wire "
            f"{topology.wire} has none",
            "--wire ovs, or add --tcp, or leave --tag away",
        )
    if job.host is None:
        return
    if job.tcp:
        raise HikyakuError(
            f"--host {job.host} says who polls the fabric, and --tcp that it is not used",
            "leave one of them away",
        )
    if job.tag and topology.wiring and job.host in ("hybrid", "split", "daemon"):
        raise HikyakuError(
            f"--host {job.host} shares one port among ranks, and a tag stands for a port that its "
            "rank polls itself",
            "--host inline, or leave --tag away",
        )
    if job.host not in ("inline", "auto") and topology.ports > 1:
        raise HikyakuError(
            f"--host {job.host} shares one port among ranks, and here each has {topology.ports}",
            "hikyaku lab down, then the same lab up without --ports; or --host inline",
        )
    if job.host in ("hybrid", "split", "daemon") and not topology.huge_mb:
        raise HikyakuError(
            "this lab has no huge pages, and a polling process shares its memory with ranks "
            "in huge pages only",
            "hikyaku lab down, then hikyaku lab up … --huge 512; or --host inline",
        )


def tagged(topology: Topology, run_dir: Path) -> dict[str, str]:
    return {
        TAG: f"{topology.lab_id}-{run_dir.name}",
        "HIKYAKU_LAB_ID": topology.lab_id,
    }


def enter(directory: Path, node: str, cores: list[int], argv: list[str]) -> list[str]:
    """The command line that runs @argv on @node and ends it if this process dies."""
    start = ["setpriv", "--pdeathsig", "TERM", str(directory / "enter.sh"), node]
    return [*start, ",".join(map(str, cores)), *argv]


# When mpirun starts its daemons, parent and child both put the child into a process group of its
# own. If the child was quicker and runs the agent already, the parent's attempt fails, and Open MPI
# 4.1 warns of it, although all is well. mpirun shares its core with the agents here, so that it
# happens now and then; whoever compares a captured stderr shall not see it.
_SETPGID_WARNING = re.compile(r"\[\S*\] plm:rsh: Warning: setpgid\(\d+,\d+\) failed in parent.*\n")


class Output:
    """Where a command's output goes: files, if it is captured, since a pipe would break if this
    process were killed, and mpirun would die of it before it has ended its ranks."""

    def __init__(self, path: Path, capture: bool):
        self.out = path.with_suffix(".out").open("w+b") if capture else None
        self.err = path.with_suffix(".err").open("w+b") if capture else None

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.out, self.err):
            if file:
                file.close()

    def read(self) -> tuple[str, str]:
        texts = []
        for file in (self.out, self.err):
            if file:
                file.seek(0)
            texts.append(file.read().decode(errors="replace") if file else "")
        return texts[0], _SETPGID_WARNING.sub("", texts[1])


def too_late(argv: list[str], timeout: float | None, *said: str) -> HikyakuError:
    text = "\n".join(part.strip()[-2000:] for part in said if part.strip())
    return HikyakuError(
        f"'{' '.join(argv)}' did not end within {timeout:g} s and was ended; it had printed:\n"
        f"{text or '(nothing)'}"
    )


def run_processes(tag: str) -> list[int]:
    return process.find(tag=f"{TAG}={tag}")


@contextmanager
def tagging(
    topology: Topology, directory: Path, run_dir: Path, job: Job, program: list[str]
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """What stands before mpirun, and in its environment. On wire ovs the lab's controller is told
    of the job and its ranks, and the last switch restores addresses; elsewhere the nodes do."""
    if not job.tag:
        yield [], {}
    elif not topology.wiring:
        command = tag_command(
            interfaces=["tcp0"], restore=True, measure=job.measure, attach=job.attach
        )
        yield command, {}
    else:
        where = node_directory(topology.nodes[0].netns) / f"r{run_dir.name}"
        client = Client(directory / "sdn", patience=PATIENCE_S)
        with Registrar(client, Path(program[0]).name[:60], where) as registrar:
            if not job.tcp:
                yield [], openmpi.tag_settings(registrar.job, registrar.address)
                return
            command = tag_command(
                job=registrar.job,
                interfaces=["tcp0"],
                measure=job.measure,
                registrar=registrar.address,
                attach=job.attach,
            )
            yield command, {}


def launch(topology: Topology, runs: Path, job: Job) -> RunResult:
    """Runs @job in the lab."""
    options, program = openmpi.split_command(job.arguments)
    if not program:
        raise HikyakuError("no program to run", "hikyaku lab mpirun -np 2 PROGRAM [ARGUMENT...]")
    ranks = openmpi.rank_count(options)
    check(topology, job)
    first = topology.nodes[0].name
    given = {**os.environ, **job.env}
    with run_directory(runs) as run_dir:
        ours = settings(
            topology,
            run_dir,
            ranks=ranks,
            tcp=job.tcp,
            one_core=job.one_core,
            host=job.host,
            given=given,
        )
        cores = topology.cpus(one_core=job.one_core)[first]
        start = time.monotonic()
        late = False
        with (
            tagging(topology, runs.parent, run_dir, job, program) as (tagger, tags),
            Output(run_dir / "mpirun", job.capture) as output,
        ):
            argv = enter(runs.parent, first, cores, [*tagger, "mpirun", *job.arguments])
            mpirun = subprocess.Popen(
                argv,
                env=given | ours | tags,
                stdin=subprocess.DEVNULL if job.capture else None,
                stdout=output.out,
                stderr=output.err,
            )
            try:
                mpirun.wait(timeout=job.timeout)
            except subprocess.TimeoutExpired:
                late = True
            except KeyboardInterrupt:
                # The terminal sent SIGINT to mpirun as well: a moment to end the job by itself.
                with suppress(subprocess.TimeoutExpired):
                    mpirun.wait(timeout=1)
                raise
            finally:
                process.end_all(lambda: run_processes(ours[TAG]))
                mpirun.wait(timeout=10)
                remove_wires(topology, run_dir)
            out, err = output.read()
        if late:
            raise too_late(["mpirun", *job.arguments], job.timeout, out, err)
        return RunResult(mpirun.returncode, out, err, time.monotonic() - start)


def launch_each(
    topology: Topology,
    runs: Path,
    commands: Callable[[Path], list[tuple[str, list[str]]]],
    *,
    timeout: float,
) -> list[RunResult]:
    """Runs a command on each of some nodes at the same time, one core each, without MPI.
    @commands is given the run's directory and returns (node, argv) pairs. Ends when all have
    ended; after @timeout seconds everything is ended and HikyakuError says so."""
    cpus = topology.cpus(one_core=True)
    with run_directory(runs) as run_dir:
        tags = tagged(topology, run_dir)
        start = time.monotonic()
        started: list[tuple[subprocess.Popen, Output]] = []
        pairs = commands(run_dir)
        late = False
        with ExitStack() as stack:
            try:
                for i, (node, argv) in enumerate(pairs):
                    output = stack.enter_context(Output(run_dir / str(i), True))
                    child = subprocess.Popen(
                        enter(runs.parent, node, cpus[node], argv),
                        env={**os.environ, **tags},
                        stdin=subprocess.DEVNULL,
                        stdout=output.out,
                        stderr=output.err,
                    )
                    started.append((child, output))
                for child, _ in started:
                    child.wait(timeout=max(0.0, start + timeout - time.monotonic()))
            except subprocess.TimeoutExpired:
                late = True
            finally:
                process.end_all(lambda: run_processes(tags[TAG]))
                for child, _ in started:
                    child.wait(timeout=10)
            results = [
                RunResult(child.returncode, *output.read(), time.monotonic() - start)
                for child, output in started
            ]
        if late:
            said = [r.stderr for r in results] + [r.stdout for r in results]
            raise too_late(pairs[0][1], timeout, *said)
        return results
