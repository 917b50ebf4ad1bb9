# SPDX-License-Identifier: BSD-3-Clause
"""The lab: a cluster on one machine.

    with Lab.up(nodes=2, wire="memif", ranks_per_node=1, name="mine") as lab:
        result = lab.mpirun(2, ["./hello"], tcp=True, timeout=60)

Network namespaces are the nodes. topology.py describes them, network.py makes them, run.py runs
mpirun inside. A lab has a name and a private directory. Its namespaces and processes carry its id,
so that leftovers are found even without the directory.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

from .. import process
from ..checkout import LAUNCHER, ROOT, private_dir
from ..errors import HikyakuError
from ..own import own_name, write_maker
from . import drivers, huge, network, others, ovs, ready, run, runs, topology, wiring
from .job import MEMIF_WIRES, Job, RunResult
from .names import all_names, check_name, checkout_of, lab_directory, lab_id
from .others import KnownLab, other_labs
from .removal import down, down_all, down_dead, lab_processes, labs_locked, remove
from .settings import remove_wires
from .topology import BY_SOCKETS, DEFAULT_MTU, MAX_NODES, MAX_PORTS, WIRES, Node, Topology

__all__ = [
    "BY_SOCKETS",
    "MAX_NODES",
    "MEMIF_WIRES",
    "WIRES",
    "Job",
    "KnownLab",
    "Lab",
    "Node",
    "RunResult",
    "all_names",
    "check_name",
    "down",
    "down_all",
    "down_dead",
    "lab_id",
    "not_up",
    "other_labs",
    "own_name",
]

_SCRIPTS = Path(__file__).parent
MIN_MTU, MAX_MTU = 576, 9000


def not_up(name: str) -> str:
    """That lab @name is not up. One that is up has perhaps been misspelt."""
    up = _names_up()
    others = f" (but these are: {', '.join(up)})" if up else ""
    return f"lab '{name}' is not up{others}"


def _names_up() -> list[str]:
    return [each for each in all_names() if (lab_directory(each) / "lab.json").exists()]


def _not_up(name: str, make: str) -> HikyakuError:
    """The error for a lab @name that is not up, which the command @make would make."""
    up = _names_up()
    near = up if len(up) == 1 else get_close_matches(name, up, n=1)
    fix = f"use --lab {near[0]}; or make another lab: {make}" if near else make
    return HikyakuError(not_up(name), fix)


class Lab:
    """A lab that is up. Make one by up(), or find one by find()."""

    def __init__(self, name: str, layout: Topology, launcher: Path = LAUNCHER):
        """@launcher: the `hikyaku` of the installation that made it."""
        self.name = name
        self.launcher = launcher
        self.topology = layout
        self.directory = lab_directory(name, checkout_of(layout.lab_id))

    # ---- life ---------------------------------------------------------------------------------

    @classmethod
    def up(
        cls,
        nodes: int = 2,
        wire: str = "memif",
        ranks_per_node: int = 1,
        mtu: int = DEFAULT_MTU,
        name: str = "default",
        huge_mb: int = 0,
        switches: str | None = None,
        ports: int = 1,
    ) -> "Lab":
        """@huge_mb: of each node. @ports: of each rank.

        @switches: the wiring on wire ovs (wiring.py), which also gives the number of nodes.
        """
        network.require_root()
        if (wire == "ovs") != (switches is not None):
            plain = topology.plan(lab_id(name), nodes, wire, ranks_per_node, mtu, huge_mb, lab=name)
            raise HikyakuError(
                "wire ovs needs a topology of switches, and no other wire has one",
                plain.up_command(**plain.switched(switches)),
            )
        wired = wiring.parse(switches) if switches is not None else None
        if wired:
            ovs.require()
            nodes = wired.nodes
        check(nodes, wire, ranks_per_node, mtu, name, ports)
        huge.check(huge_mb)
        with labs_locked():
            if (lab_directory(name) / "lab.json").exists():
                raise HikyakuError(
                    f"lab '{name}' is up already",
                    f"give this one another name: --lab {name}2, or, if nobody uses the other: "
                    f"hikyaku lab down --lab {name}",
                )
            if lab_directory(name).exists() or network.namespaces(lab_id(name) + "-"):
                raise HikyakuError(
                    f"something is left of an earlier lab '{name}'",
                    f"hikyaku lab down --lab {name}",
                )
            layout = topology.plan(
                lab_id(name), nodes, wire, ranks_per_node, mtu, huge_mb, wired, ports, name
            )
            lab = cls(name, layout)
            try:
                lab._write_directory()
                lab._make_huge_pages()
                network.create(lab.topology)
            except BaseException:
                remove(name)
                raise
        return lab

    @classmethod
    def find(cls, name: str = "default", *, shown: bool = False, made: Sequence[str] = ()) -> "Lab":
        """The lab @name that is up, or an error that says how to bring it up, with options @made.

        @shown: the caller only shows it, so it may be a lab of another installation.
        """
        check_name(name)
        network.require_root()  # a user who is not root sees no lab, even if one is up
        return cls.read(others.find(name, others=shown), made)

    @classmethod
    def read(cls, known: KnownLab, made: Sequence[str] = ()) -> "Lab":
        """The lab @known, as find()."""
        name, command = known.name, known.command
        try:
            data = json.loads(known.state.read_text())
            lab = cls(name, Topology.from_json(data["topology"]), known.launcher)
        except FileNotFoundError:
            words = [] if name == os.environ.get("HIKYAKU_LAB", "default") else ["--lab", name]
            raise _not_up(name, " ".join([command, "lab up", *words, *made])) from None
        except (ValueError, KeyError, TypeError) as bad:
            if not known.is_ours and not known.is_orphan:
                raise HikyakuError(
                    f"lab '{name}' is of another release", f"run the same command with {command}"
                ) from None
            raise HikyakuError(
                f"{known.state} is damaged: {bad}", f"{command} lab down --lab {name}"
            ) from None
        missing = sorted(set(lab.topology.netns) - set(network.namespaces(lab.topology.lab_id)))
        if missing:
            raise HikyakuError(
                f"lab '{name}' has lost its namespaces {', '.join(missing)}",
                f"{command} lab down --lab {name}",
            )
        return lab

    def down(self) -> None:
        down(self.name)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _write_directory(self) -> None:
        private_dir(self.directory)
        write_maker(self.directory)
        (self.directory / "nodes").mkdir()
        (self.directory / "runs").mkdir(mode=0o700)
        for script in ("enter.sh", "agent.sh"):
            shutil.copy(_SCRIPTS / script, self.directory / script)
        drivers.write(self.directory)
        hosts = ["127.0.0.1 localhost"]
        for node in self.topology.nodes:
            own = self.node_directory(node.name)
            private_dir(own)
            private_dir(own / "run")
            (self.directory / "nodes" / node.name).write_text(f"{node.netns}\n{own}\n")
            hosts += [f"{node.ctl_ip} {node.name}", f"{node.tcp_ip} {node.name}-tcp"]
        if self.topology.wiring:
            private_dir(ovs.directory(self.topology))
            private_dir(ovs.directory(self.topology) / "run")
        (self.directory / "hosts").write_text("\n".join(hosts) + "\n")
        state = {
            "schema": 1,
            "name": self.name,
            "created": int(time.time()),
            "launcher": str(self.launcher),
            "topology": self.topology.to_json(),
        }
        (self.directory / "lab.json").write_text(json.dumps(state, indent=1) + "\n")

    def _make_huge_pages(self) -> None:
        mb = self.topology.huge_mb
        if mb:
            huge.take(self.directory, len(self.topology.nodes) * mb // huge.PAGE_MB)
            for node in self.topology.nodes:
                huge.mount(self.node_directory(node.name) / "huge", mb)

    def node_directory(self, node: str) -> Path:
        """Holds `run`, `huge` (if the lab has huge pages) and DPDK's files of node @node."""
        return topology.node_directory(self.node(node).netns)

    def node(self, name: str) -> Node:
        node = self.topology.node(name)
        if node is None:
            names = ", ".join(n.name for n in self.topology.nodes)
            raise HikyakuError(f"lab '{self.name}' has no node '{name}'", f"use one of: {names}")
        return node

    # ---- use ----------------------------------------------------------------------------------

    def host_names(self) -> dict[int, tuple[str, str]]:
        """By address: the node and the link that have it. For the controller's page."""
        return {
            int(link["mac"].replace(":", ""), 16): (node.name, link["name"])
            for node in self.topology.nodes
            for link in network.links(node.netns)
        }

    def exec_argv(self, node: str, argv: list[str]) -> list[str]:
        """The command line that runs @argv as a process of @node."""
        self.node(node)
        cores = ",".join(map(str, self.topology.cpus(one_core=False)[node]))
        # also `hikyaku` of this checkout, which need not be in PATH
        path = f"PATH={os.environ.get('PATH', os.defpath)}:{ROOT}"
        tagged = ["env", f"HIKYAKU_LAB_ID={self.topology.lab_id}", path]
        return [*tagged, str(self.directory / "enter.sh"), node, cores, *argv]

    def mpirun(
        self,
        np: int,
        argv: list[str],
        *,
        tcp: bool = False,
        mode: str | None = None,
        tag: bool = False,
        mca: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        options: list[str] | None = None,
        one_core: bool = False,
        timeout: float = 120,
    ) -> RunResult:
        """Runs @argv as @np ranks over the lab's wire, or over TCP, and returns its output.

        Does not check the exit status. @mode: polling mode (Job.mode). @tag: tag the frames. @mca
        and @options: mpirun's; they override the lab's. @env: environment of every rank. @one_core:
        each node has one core only. After @timeout seconds it ends everything and raises
        HikyakuError.
        """
        arguments = ["-np", str(np), *(options or [])]
        for key, value in (mca or {}).items():
            arguments += ["--mca", key, str(value)]
        for key in env or {}:
            arguments += ["-x", key]
        return self.launch(
            Job(arguments + argv, tcp, mode, tag, env or {}, one_core=one_core, timeout=timeout)
        )

    def launch(self, job: Job) -> RunResult:
        """Runs @job in the lab."""
        if self.topology.wiring:
            ready.require_packets(self.name, self.topology, self.directory / "sdn")
        self.clean_stale()
        try:
            return run.launch(self.topology, self.directory / "runs", job)
        finally:
            self.clean_stale()

    def run_each(
        self,
        commands: Callable[[Path], list[tuple[str, list[str]]]],
        *,
        one_core: bool = True,
        timeout: float = 60,
    ) -> list[RunResult]:
        """Runs one command on each of some nodes at the same time: see run.launch_each()."""
        self.clean_stale()
        try:
            return run.launch_each(
                self.topology,
                self.directory / "runs",
                commands,
                one_core=one_core,
                timeout=timeout,
            )
        finally:
            self.clean_stale()

    # ---- leftovers of killed runs --------------------------------------------------------------

    def running(self) -> bool:
        """Is any run alive in this lab?"""
        directory = self.directory / "runs"
        everything = set(directory.iterdir()) if directory.is_dir() else set()
        return bool(everything - set(runs.stale_runs(directory)))

    def clean_stale(self) -> list[str]:
        """Removes processes, directories and XDP programs of killed runs; returns a line for each.

        While a run is alive, XDP programs stay, since it may own them.
        """
        gone = []
        with runs.runs_locked(self.directory / "runs"):
            for path in runs.stale_runs(self.directory / "runs"):
                tag = f"{self.topology.lab_id}-{path.name}"
                count = process.end_all(lambda tag=tag: run.run_processes(tag))
                remove_wires(self.topology, path)
                shutil.rmtree(path)
                gone.append(f"run {path.name} and {count} processes of it")
            if self.topology.data_ports and not self.running():
                for n in self.topology.nodes:
                    gone += [f"XDP program on {n.name}:{i}" for i in network.remove_xdp(n.netns)]
        return gone

    def status(self) -> dict:
        """The state of the lab, in the form of `lab status --json`."""
        cpus = self.topology.cpus(one_core=False)
        inodes = {network.namespace_inode(n.netns): n.name for n in self.topology.nodes}
        processes = [
            {
                "pid": pid,
                "node": inodes.get(process.net_namespace(pid)),
                "command": process.command_line(pid),
            }
            for pid in lab_processes(self.topology.lab_id)
        ]
        stale = [f"run {p.name}" for p in runs.stale_runs(self.directory / "runs")]
        nodes = []
        for n in self.topology.nodes:
            links = network.links(n.netns)
            if not self.running():
                stale += [
                    f"XDP program {program} on {n.name}:{name}"
                    for name, program in network.stale_xdp(n.netns).items()
                ]
            nodes.append({"name": n.name, "netns": n.netns, "cpus": cpus[n.name], "links": links})
        return {
            "name": self.name,
            "wire": self.topology.wire,
            "ranks_per_node": self.topology.ranks_per_node,
            "ports": self.topology.ports,
            "mtu": self.topology.mtu,
            "huge_mb": self.topology.huge_mb,
            "topology": self.topology.wiring.text if self.topology.wiring else None,
            "launcher": str(self.launcher),
            "directory": str(self.directory),
            "nodes": nodes,
            "processes": processes,
            "stale": stale,
        }


def check(nodes: int, wire: str, ranks_per_node: int, mtu: int, name: str, ports: int = 1) -> None:
    """Raises an error if such a lab cannot be built."""
    check_name(name)
    if wire not in WIRES:
        raise HikyakuError(f"there is no wire '{wire}'", f"use one of: {', '.join(WIRES)}")
    if not 2 <= nodes <= MAX_NODES:
        raise HikyakuError(f"{nodes} nodes", f"a lab has from 2 to {MAX_NODES}")
    if not 1 <= ranks_per_node <= 64:
        raise HikyakuError(f"{ranks_per_node} ranks per node", "a node takes from 1 to 64")
    if not MIN_MTU <= mtu <= MAX_MTU:
        raise HikyakuError(f"MTU {mtu} for the kernel's wires", f"give from {MIN_MTU} to {MAX_MTU}")
    if not 1 <= ports <= MAX_PORTS:
        raise HikyakuError(f"{ports} ports a rank", f"give from 1 to {MAX_PORTS}")
    if ports > 1 and wire in ("ovs", *BY_SOCKETS):
        raise HikyakuError(
            f"{ports} ports: on wire {wire} a rank has one", "use --wire memif or --wire veth"
        )
