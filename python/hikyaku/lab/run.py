# SPDX-License-Identifier: BSD-3-Clause
"""One mpirun inside a lab, from its settings to the end of its last process.

mpirun runs as a process of node0. It starts its daemons on the other nodes by agent.sh in place of
ssh. Some processes leave its process group, so a tag in the environment identifies those of a run.
However mpirun ends, every process with the tag is ended after it. If this process itself is killed,
the kernel sends mpirun SIGTERM (setpriv --pdeathsig), and mpirun ends its daemons.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, NoReturn

from .. import mpi, process
from ..errors import HikyakuError
from . import hydra, ofi, openmpi, ranks, severed
from .built_for import check_built_for
from .job import Job, RunResult, check, check_backend, check_wires
from .ready import start_command
from .runs import run_directory
from .settings import TAG, own_wires, port_spec, settings, tagged
from .topology import Topology, node_directory


def enter(directory: Path, node: str, cores: list[int], argv: list[str]) -> list[str]:
    """The command line that runs @argv on @node, and ends it if this process dies."""
    start = ["setpriv", "--pdeathsig", "TERM", str(directory / "enter.sh"), node]
    return [*start, ",".join(map(str, cores)), *argv]


# When mpirun starts its daemons, parent and child both put the child into its own process group. If
# the child is quicker and already runs the agent, the parent's call fails, and Open MPI warns
# although all is well. mpirun shares its core with the agents here, so this happens sometimes.
_WARNING = rb"\[\S*\] plm:(?:rsh|ssh): Warning: setpgid\(\d+,\d+\) failed in parent.*\n"
_RELAY_END_S = 2.0


def _filtered(text: bytes) -> bytes:
    """@text without that warning."""
    return re.sub(_WARNING, b"", text) if b"setpgid" in text else text


class Relay:
    """A process that hands on to stderr what is written to @pipe, without that warning.

    It lives until all writers have closed the pipe. If it were a thread, the pipe would break when
    this process is killed; mpirun would then die before it ended its ranks.
    """

    def __init__(self) -> None:
        end, self.pipe = os.pipe()
        with process.uninterrupted():
            self._pid = os.fork()
            if self._pid == 0:
                self._hand_on(end)
        os.close(end)

    def _hand_on(self, end: int) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(each, signal.SIG_IGN)
        os.close(self.pipe)
        with suppress(OSError):  # stderr is gone
            # Open MPI writes the warning by one call, so it comes in one piece
            while text := os.read(end, 1 << 16):
                text = _filtered(text)
                while text:
                    text = text[os.write(2, text) :]
        os._exit(0)

    def close(self) -> None:
        """Waits until all is handed on, but not for a process of the user that keeps stderr."""
        os.close(self.pipe)
        with suppress(HikyakuError):
            process.wait_until("the output", self._has_ended, _RELAY_END_S)

    def _has_ended(self) -> bool:
        return os.waitpid(self._pid, os.WNOHANG)[0] != 0


class Output:
    """The output of a command. If it is captured, it goes to files, since a pipe would break if
    this process were killed."""

    def __init__(self, path: Path, capture: bool):
        self.out = path.with_suffix(".out").open("w+b") if capture else None
        self.err = path.with_suffix(".err").open("w+b") if capture else None
        self.relay = None if capture else Relay()

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.out, self.err, self.relay):
            if file:
                file.close()

    def where(self) -> dict[str, IO[bytes] | int | None]:
        """Arguments of Popen()."""
        return {"stdout": self.out, "stderr": self.relay.pipe if self.relay else self.err}

    def note(self, line: str) -> None:
        """Adds a line of the lab to the command's stderr."""
        with suppress(OSError):  # stderr is gone
            os.write(self.relay.pipe if self.relay else self.err.fileno(), line.encode())

    def advise(self, text: str | None) -> None:
        """Adds @text for the user, who is there if the output is not captured."""
        if text and self.relay:
            self.note(f"hikyaku: {text}\n")

    def read(self) -> tuple[str, str]:
        texts = []
        for file in (self.out, self.err):
            if file:
                file.seek(0)
            texts.append(file.read() if file else b"")
        out, err = texts[0], _filtered(texts[1])
        return out.decode(errors="replace"), err.decode(errors="replace")


def too_late(argv: list[str], timeout: float | None, *printed: str) -> HikyakuError:
    text = "\n".join(part.strip()[-2000:] for part in printed if part.strip())
    return HikyakuError(
        f"'{' '.join(argv)}' did not end within {timeout:g} s and was ended; it had printed:\n"
        f"{text or '(nothing)'}"
    )


def run_processes(tag: str) -> list[int]:
    return process.find(tag=f"{TAG}={tag}")


@contextmanager
def tagging(
    topology: Topology, directory: Path, run_dir: Path, job: Job, program: list[str]
) -> Iterator[tuple[list[str], dict[str, str], str | None]]:
    """The command before mpirun, its environment, and a line for the user, for a tagged job.

    On wire ovs, registers the job with the lab's controller, and the last switch restores
    addresses. On other wires the nodes restore them.
    """
    from ..sdn.client import Client
    from ..sdn.registrar import RETRY_S, Registrar
    from ..sdn.tagger import tag_command

    if not job.tag:
        yield [], {}, None
    elif not topology.wiring:
        command = tag_command(
            interfaces=["tcp0"], restore=True, measure=job.measure, attach=job.attach
        )
        yield command, {}, "the frames of this job have tags"
    else:
        where = node_directory(topology.nodes[0].netns) / f"r{run_dir.name}"
        start = start_command(directory.name)
        client = Client(directory / "sdn", retry_s=RETRY_S, start=start)
        with Registrar(client, Path(program[0]).name[:60], where) as registrar:
            said = f"the frames of this job have tags, as job {registrar.job}"
            if not job.tcp:
                settings = openmpi.tag_settings(registrar.job, registrar.address)
                yield [], settings | registrar.environment, said
                return
            command = tag_command(
                job=registrar.job,
                interfaces=["tcp0"],
                measure=job.measure,
                registrar=registrar.address,
                attach=job.attach,
            )
            yield command, registrar.environment, said


def crowded(
    topology: Topology, job: Job, options: list[str], count: int | None, given: Mapping[str, str]
) -> str | None:
    """If more ranks poll than there are cores: what that costs, and the fix."""
    name = "btl_hikyaku_announce"
    said = openmpi.parameters(options).get(name, given.get(f"OMPI_MCA_{name}", "1"))
    cpus = topology.cpus(one_core=job.one_core).values()
    cores, ranks = len({core for each in cpus for core in each}), count or len(topology.nodes)
    if ranks <= cores or said.lower() in ("0", "false", "no", "f", "n"):
        return None
    return (
        f"{ranks} ranks take turns on {cores} cores, so times vary, and some are milliseconds; "
        f"fix: to measure, start at most {cores} ranks: -np {cores}"
    )


def _check_all(topology: Topology, job: Job, given: Mapping[str, str]) -> None:
    """Raises an error if @job cannot run here. @given: its environment."""
    options, program = _parts(job)
    if not program:
        raise HikyakuError("no program to run", "name it after the options, such as ./program")
    if job.mpi:
        ofi.check(job)
    if job.mpi in mpi.BY_HYDRA:
        hydra.check(options)
        openmpi.check_program([], program[0])
        check_built_for(job, program[0])
        check(topology, job, named=_names_port(job, options, given))
        check_wires(topology, job, hydra.rank_count(options) or 1, given)
        return
    count = openmpi.rank_count(options)
    openmpi.check_hosts(options, [node.name for node in topology.nodes])
    openmpi.check_program(options, program[0])
    check_built_for(job, program[0])
    openmpi.check_parameters(options)
    openmpi.check_exports(options)
    check(topology, job, named=_names_port(job, options, given))
    check_backend(topology, count, {**given, **openmpi.exported(options)})
    if count and not openmpi.option(options, openmpi.HOSTS):
        check_wires(topology, job, count, given)
    severed.check(topology, job, options)


def _names_port(job: Job, options: list[str], given: Mapping[str, str]) -> bool:
    """Does the user name the port of @job?"""
    if job.mpi:
        return "FI_HIKYAKU_PORT" in given
    return openmpi.PORT_PARAMETER in openmpi.parameters(options)


def _launcher(job: Job) -> ModuleType:
    return hydra if job.mpi in mpi.BY_HYDRA else openmpi


def _parts(job: Job) -> tuple[list[str], list[str]]:
    """The launcher's options, and the program with its arguments."""
    return _launcher(job).split_command(job.arguments)


def _command(topology: Topology, runs: Path, job: Job, variables: Iterable[str]) -> list[str]:
    """@variables: the names in the environment of the launcher."""
    if not job.mpi:
        return ["mpirun", *job.arguments]
    program = mpi.program(job.mpi, "mpiexec")
    if job.mpi not in mpi.BY_HYDRA:
        return [program, *job.arguments]
    agent = str(runs.parent / "agent.sh")
    return hydra.command(topology, program, agent, job.arguments, variables)


def launch(topology: Topology, runs: Path, job: Job) -> RunResult:
    """Runs @job in the lab."""
    given = {**os.environ, **job.env}
    _check_all(topology, job, given)
    options, program = _parts(job)
    count = _launcher(job).rank_count(options)
    first = topology.nodes[0].name
    with run_directory(runs) as run_dir, own_wires(topology, run_dir):
        ours = settings(
            topology,
            run_dir,
            ranks=count,
            tcp=job.tcp,
            one_core=job.one_core,
            mode=job.mode,
            named=not job.mpi and _names_port(job, options, given),
            rankfile=not job.mpi and openmpi.option(options, openmpi.RANKFILE) is not None,
            given=given,
        )
        if job.mpi:
            port = given.get("FI_HIKYAKU_PORT") or port_spec(topology, run_dir, job.mode)
            shared = ours["OMPI_MCA_mpi_yield_when_idle"] == "1"
            ours = ofi.settings(ours, given, job.mpi, port, job.mode, tcp=job.tcp, shared=shared)
        cores = topology.cpus(one_core=job.one_core)[first]
        start = time.monotonic()
        late, hung = False, None
        with (
            tagging(topology, runs.parent, run_dir, job, program) as (tagger, tags, said),
            Output(run_dir / "mpirun", job.capture) as output,
        ):
            env = given | ours | tags
            command = _command(topology, runs, job, env)
            argv = enter(runs.parent, first, cores, [*tagger, *command])
            watch = severed.Watch(topology, output.note)
            output.advise(said)
            if not job.mpi:
                output.advise(crowded(topology, job, options, count, given))
            mpirun = None  # Popen() may start it and be interrupted
            try:
                mpirun = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL if job.capture else None,
                    **output.where(),
                )
                hung = ranks.wait(mpirun, job.timeout, watch.look)
            except subprocess.TimeoutExpired:
                late = True
            except KeyboardInterrupt:
                # The terminal sent SIGINT to mpirun, too: give it a moment to end the job.
                with suppress(subprocess.TimeoutExpired):
                    if mpirun:
                        mpirun.wait(timeout=1)
                raise
            finally:
                process.end_all(lambda: run_processes(ours[TAG]))
                if mpirun:
                    mpirun.wait(timeout=10)
            if late or hung or mpirun.returncode:
                watch.look()
            if hung:
                output.note(f"hikyaku: {hung}, so the lab ended it\n")
            out, err = output.read()
        if late:
            raise too_late(["mpirun", *job.arguments], job.timeout, out, err)
        status = 1 if hung else mpirun.returncode
        return RunResult(status, out, err, time.monotonic() - start)


def launch_each(
    topology: Topology,
    runs: Path,
    commands: Callable[[Path], list[tuple[str, list[str]]]],
    *,
    one_core: bool,
    timeout: float,
) -> list[RunResult]:
    """Runs one command on each of some nodes at the same time, without MPI.

    @one_core: each has one core, not all that its node has. @commands: called with the run's
    directory; returns (node, argv) pairs. Returns when all have ended. After @timeout seconds it
    ends all commands and raises HikyakuError.
    """
    cpus = topology.cpus(one_core=one_core)
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
                        **output.where(),
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
            printed = [r.stderr for r in results] + [r.stdout for r in results]
            raise too_late(pairs[0][1], timeout, *printed)
        return results
