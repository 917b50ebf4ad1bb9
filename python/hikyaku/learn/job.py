# SPDX-License-Identifier: BSD-3-Clause
"""A training: writes the nodes' shards, runs hk_learn on them, and reads their logs and results.

It runs in a lab, on this machine, or by a launcher command of the user (mpirun, srun) on a cluster.
All nodes must see the directory of the shards, which is removed however the training ends.
"""

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import process
from ..checkout import built
from ..errors import HikyakuError
from ..process import option_words
from . import shard
from .data import CLASSES_MAX, Data, Scaling, check_nodes, number_of, split
from .native import Model

BACKENDS = ("dpdk", "af_xdp", "raw", "udp", "tcp", "tcp:batch=1")
_LAB_NODES = 512  # eight namespaces with 64 ranks each
TOPOLOGIES = ("all", "ring", "random", "exponential", "file")


@dataclass(frozen=True)
class Plan:
    """The model and its settings. @options: further options of hk_learn."""

    data: Data
    kind: str
    nodes: int
    seed: int = 1
    l2: float = 1e-4
    hidden: int = 0
    hinge: bool = False
    options: list[str] = field(default_factory=list)
    max_seconds: float = 120.0

    @property
    def model(self) -> Model:
        classes = 0 if self.data.classes is None else len(self.data.classes)
        return Model(self.kind, self.data.x.shape[1], classes, self.hidden, self.l2, self.hinge)


def check(plan: Plan) -> None:
    """Raises an error if this cannot be trained."""
    check_nodes(plan.data.rows, plan.nodes)
    regression = plan.data.classes is None
    numbers = not regression and None not in map(number_of, plan.data.classes)
    kinds = len(np.unique(plan.data.y))
    few = kinds <= CLASSES_MAX and 2 * kinds <= plan.data.rows  # they return, as classes do
    if plan.kind == "linear" and not regression:
        raise HikyakuError(
            f"{plan.data.name}: the target has {len(plan.data.classes or [])} classes, and a "
            "linear model predicts a number",
            "--model logistic, svm or mlp" + ("; or --task regression" if numbers else ""),
        )
    if plan.kind in ("logistic", "svm") and regression:
        raise HikyakuError(
            f"{plan.data.name}: the target is a number, and {plan.kind} tells classes apart",
            "--model linear or mlp" + ("; or --task classification" if few else ""),
        )
    plan.model.native()


class Log:
    """The log lines of the nodes, read as they are written."""

    def __init__(self, directory: Path, nodes: int):
        self._files = [directory / f"log-{i}" for i in range(nodes)]
        self._at = [0] * nodes
        self.lines: list[dict] = []

    def read(self) -> list[dict]:
        """Reads and returns the new lines."""
        new = []
        for i, path in enumerate(self._files):
            with suppress(FileNotFoundError), path.open("rb") as text:
                text.seek(self._at[i])
                raw = text.read()
                whole = raw.rfind(b"\n") + 1  # the rest is not finished
                self._at[i] += whole
                new += [json.loads(line) for line in raw[:whole].splitlines()]
        self.lines += new
        return new


@dataclass
class Outcome:
    lines: list[dict]  # of all nodes
    w: np.ndarray  # [nodes][parameters]
    scaling: Scaling
    seconds: float


@contextmanager
def _watched(log: Log, on_lines: Callable[[list[dict]], None] | None) -> Iterator[None]:
    """Reads @log in a thread during the block, and once after it."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            new = log.read()
            if new and on_lines:
                on_lines(new)

    thread = threading.Thread(target=watch, name="learn-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        new = log.read()
        if new and on_lines:
            on_lines(new)


def _write_shards(plan: Plan, place: Path) -> Scaling:
    """Writes each node's rows to @place."""
    data = plan.data
    scaling = Scaling.of(data.x, data.y, regression=data.classes is None)
    x, y = scaling.x(data.x), scaling.y(data.y)
    for i, rows in enumerate(split(data.rows, plan.nodes, plan.seed)):
        shard.write(
            place / f"shard-{i}",
            x[rows],
            y[rows],
            classes=plan.model.classes,
            node=i,
            nodes=plan.nodes,
            total=data.rows,
        )
    return scaling


def prepare(plan: Plan, place: Path, backend: str | None, address: str | None) -> list[str]:
    """Writes the nodes' shards to the directory @place, and returns the command of a node."""
    check(plan)
    place.mkdir(parents=True, exist_ok=True)
    _write_shards(plan, place)
    return [*_command(plan, place), *option_words(backend=backend, address=address)]


def train(
    plan: Plan,
    launch: Callable[[list[str], float], "subprocess.CompletedProcess[str]"],
    directory: Path | None = None,
    on_lines: Callable[[list[dict]], None] | None = None,
) -> Outcome:
    """Trains by @launch, which runs a command as N nodes and returns when all have ended; see
    in_lab() and by_command(). @directory: the parent of the nodes' files; nodes must see it."""
    check(plan)
    place = Path(tempfile.mkdtemp(prefix=".learn-", dir=directory))
    log = Log(place, plan.nodes)
    try:
        scaling = _write_shards(plan, place)
        start = time.monotonic()
        with _watched(log, on_lines):
            done = launch(_command(plan, place), plan.max_seconds + 60)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-1500:]
            raise HikyakuError(f"training ended with {done.returncode}:\n{said or '(silence)'}")
        w = np.array(
            [
                shard.read_parameters(place / f"end-{i}", plan.model.parameters)[0]
                for i in range(plan.nodes)
            ]
        )
        return Outcome(log.lines, w, scaling, time.monotonic() - start)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _command(plan: Plan, place: Path) -> list[str]:
    words = option_words(
        shard=f"{place}/shard-{{node}}",
        output=f"{place}/end-{{node}}",
        log=f"{place}/log-{{node}}",
        model=plan.kind,
        l2=plan.l2,
        seed=plan.seed,
        max_seconds=plan.max_seconds,
        hidden=plan.hidden or None,
        hinge=plan.hinge,
    )
    return [str(built("systems/learn/hk_learn")), *words, *plan.options]


def in_lab(
    nodes: int, *, backend: str | None, lab_name: str
) -> Callable[[list[str], float], "subprocess.CompletedProcess[str]"]:
    """Runs in the lab @lab_name if it is up, else in a temporary one."""
    from ..lab import MEMIF_WIRES, Job, Lab, all_names, down_dead, own_name

    if nodes > _LAB_NODES:
        raise HikyakuError(
            f"{nodes} nodes in one lab", f"give up to {_LAB_NODES}, or start them by --launch"
        )
    up = Lab.find(lab_name) if lab_name in all_names() else None
    # a memif joins two nodes; one node has nobody at its other end, and many nodes need too many
    alone = nodes == 1 or nodes - 1 > MEMIF_WIRES
    if backend is None and (alone or (up and up.topology.lacks_ports(nodes))):
        backend = "udp"

    def launch(command: list[str], limit: float) -> "subprocess.CompletedProcess[str]":
        env = {} if backend is None else {"HIKYAKU_RTC_BACKEND": backend}
        cores = os.cpu_count() or 1
        crowded = ["--yield"] if nodes > cores else []
        job = Job(["-np", str(nodes), *command, *crowded], env=env, timeout=limit)
        if up:
            done = up.launch(job)
        else:
            down_dead("learn")
            # more nodes than that share namespaces: it is one machine all the same
            spaces = min(max(nodes, 2), 8)
            wire = "veth" if backend in ("af_xdp", "raw") else "memif"
            ranks = -(-nodes // spaces)
            with Lab.up(spaces, wire, ranks, name=own_name("learn", "job")) as lab:
                done = lab.launch(job)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout, done.stderr)

    return launch


def by_command(
    launcher: str, *, backend: str | None, address: str | None
) -> Callable[[list[str], float], "subprocess.CompletedProcess[str]"]:
    """Runs by a launcher of the user, such as "srun -n 4" or "mpirun --host a,b"."""

    def launch(command: list[str], limit: float) -> "subprocess.CompletedProcess[str]":
        argv = [*shlex.split(launcher), *command]
        argv += option_words(backend=backend, address=address)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            try:
                child = subprocess.Popen(argv, stdout=out, stderr=err, start_new_session=True)
            except OSError as error:
                raise HikyakuError(
                    f"--launch: '{argv[0]}' cannot be run: {error.strerror}",
                    "begin with a program that is in PATH, such as mpirun or srun, or its path",
                ) from None
            try:
                child.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                raise HikyakuError(f"'{launcher}' did not end within {limit:g} s") from None
            finally:
                _end_group(child)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(argv, child.returncode, out.read(), err.read())

    return launch


def on_this_machine(
    nodes: int,
) -> Callable[[list[str], float], "subprocess.CompletedProcess[str]"]:
    """Runs @nodes processes on this machine, over UDP, without launcher, lab and root."""

    def launch(command: list[str], limit: float) -> "subprocess.CompletedProcess[str]":
        end = time.monotonic() + limit
        with tempfile.TemporaryDirectory(prefix="hikyaku-learn-") as place, ExitStack() as stack:
            peers = Path(place) / "peers"
            peers.write_text(
                "".join(f"{i} 127.0.0.1:{p}\n" for i, p in enumerate(free_ports(nodes)))
            )
            key = secrets.randbits(31) + 1
            secret = Path(place) / "secret"
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32))
            own = option_words(backend="udp", peers=peers, key=key, secret=secret)
            said = stack.enter_context(tempfile.TemporaryFile("w+"))
            running = []
            for node in range(nodes):
                argv = [*command, *own, "--node", str(node), "--yield"]
                with process.uninterrupted():
                    child = subprocess.Popen(
                        argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said
                    )
                    stack.callback(process.stop, child)
                running.append(child)
            process.wait_until(
                "the nodes to end",
                # one that failed ends them all
                lambda: any(c.poll() for c in running) or all(c.poll() == 0 for c in running),
                max(0.0, end - time.monotonic()),
            )
            said.seek(0)
            code = next((c.returncode for c in running if c.returncode), 0)
            return subprocess.CompletedProcess(command, code, "", said.read())

    return launch


def free_ports(count: int) -> list[int]:
    """UDP ports of this machine that are free."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in range(count)
        ]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _end_group(child: subprocess.Popen) -> None:
    """Ends the launcher, which ends its nodes; kills it if that takes too long."""
    for signum, wait in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        if child.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=wait)
