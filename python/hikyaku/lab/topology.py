# SPDX-License-Identifier: BSD-3-Clause
"""The layout of a lab: its nodes, their addresses and cores. Pure.

    n0, n1, …    a namespace for each node, with
                   ctl0      control network: mpirun's daemons talk over it
                   tcp0      the wire that TCP is measured on; never carries an XDP program. On
                             wires udp and routed Hikyaku uses it too, by UDP sockets
                   hk0 …     (veth, ovs) the data wires, one for each local rank; where a rank has
                             several ports, hk0r1 and so on are the others of rank 0
    ctl          a namespace with the bridge of the control network
    sw           a namespace with the bridges of tcp0 and hk*, unless two ends meet directly; on
                 wire ovs with its switches (wiring.py, ovs.py); on wire routed it is a router, and
                 each tcp0 a network of its own
    sw2          on wire routed the router of node1, node3 and so on. Two links, way0 and way1, join
                 the routers, and each flow takes one of them (ECMP)

Links exist inside namespaces only, so the machine's own network never sees one.
"""

import os
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from ..checkout import state_dir
from ..process import option_words
from .names import checkout_of
from .wiring import Wiring

WIRES = ("memif", "veth", "udp", "routed", "ovs")
BY_SOCKETS = ("udp", "routed")  # wires on which each rank has a UDP socket
WITHOUT_LINKS = ("memif", *BY_SOCKETS)  # wires without links of their own: ranks of any number
MAX_NODES = 64
MAX_PORTS = 8  # of a rank
# The largest MTU at which veth takes an XDP program and a frame with its headroom fits a page.
# TCP's wire has the same.
DEFAULT_MTU = 3506


@dataclass(frozen=True)
class Node:
    index: int
    name: str
    netns: str
    ctl_ip: str
    tcp_ip: str

    @property
    def tcp_ip6(self) -> str:
        """On wire routed."""
        return f"fd78::{self.index + 1:x}"


@dataclass(frozen=True)
class Topology:
    lab_id: str
    wire: str
    ranks_per_node: int
    mtu: int
    nodes: tuple[Node, ...]
    huge_mb: int = 0  # huge pages of each node
    wiring: Wiring | None = None  # of the switches, on wire ovs
    ports: int = 1  # of each rank
    lab: str = "default"  # its name, for messages

    def up_command(self, **other: object) -> str:
        """The command that makes this lab, with @other options of `hikyaku lab up`."""
        options: dict[str, object] = {
            "wire": self.wire,
            "topology": self.wiring.text if self.wiring else None,
            "nodes": None if self.wiring else len(self.nodes),
            "ranks_per_node": self.ranks_per_node if self.ranks_per_node > 1 else None,
            "ports": self.ports if self.ports > 1 else None,
            "mtu": self.mtu if self.mtu != DEFAULT_MTU else None,
            "huge": self.huge_mb or None,
        }
        return f"hikyaku lab up {shlex.join(option_words(lab=self.lab, **(options | other)))}"

    def ranks_of_node(self, ranks: int | None) -> int:
        """The most that a node has of @ranks. None: as many as the lab is made for."""
        return -(-ranks // len(self.nodes)) if ranks else self.ranks_per_node

    def lacks_ports(self, ranks: int | None) -> bool:
        """Has a node fewer ports than @ranks need, if each has its own?"""
        return bool(self.data_ports) and self.ranks_of_node(ranks) > self.ranks_per_node

    def again(self, **other: object) -> str:
        """The commands that make this lab again, with @other options of `hikyaku lab up`."""
        return f"hikyaku lab down --lab {self.lab} && {self.up_command(**other)}"

    def switched(self, switches: str | None = None) -> dict[str, object]:
        """Options for again() and up_command() that make this a lab with switches, of as many nodes
        if @switches does not name others."""
        shape = switches or f"leaf-spine:2x2x{-(-len(self.nodes) // 2)}"
        return {"wire": "ovs", "topology": shape, "nodes": None, "ports": None}

    @property
    def ctl_netns(self) -> str:
        return f"{self.lab_id}-ctl"

    @property
    def switch_netns(self) -> str:
        return f"{self.lab_id}-sw"

    @property
    def router_netns(self) -> list[str]:
        """The routers of wire routed; nodes belong to them in turn."""
        return [self.switch_netns, f"{self.lab_id}-sw2"] if self.wire == "routed" else []

    def router_of(self, node: Node) -> int:
        """Which of the routers @node belongs to."""
        return node.index % len(self.router_netns)

    @property
    def by_sockets(self) -> bool:
        return self.wire in BY_SOCKETS

    @property
    def data_ports(self) -> int:
        """The number of ranks of a node that have data interfaces."""
        return 0 if self.wire in WITHOUT_LINKS else self.ranks_per_node

    def data_links(self) -> list[tuple[str, int]]:
        """The data interfaces of each node, with the index of the port at its rank."""
        return [
            (link_name(str(rank), port), port)
            for rank in range(self.data_ports)
            for port in range(self.ports)
        ]

    @property
    def netns(self) -> list[str]:
        networks = self.router_netns or [self.switch_netns]
        return [self.ctl_netns, *networks, *(n.netns for n in self.nodes)]

    def node(self, name: str) -> Node | None:
        return next((n for n in self.nodes if n.name == name), None)

    def cpus(self, *, one_core: bool) -> dict[str, list[int]]:
        """The cores of each node: those of the machine in turn, or one each. Nodes share cores if
        there are too few."""
        have = sorted(os.sched_getaffinity(0))
        count = len(self.nodes)
        dealt = {}
        for node in self.nodes:
            mine = have[node.index :: count] if count <= len(have) else []
            mine = mine or [have[node.index % len(have)]]
            dealt[node.name] = mine[:1] if one_core else mine
        return dealt

    def sharing(self) -> list[str]:
        """A line for each core that several nodes have."""
        nodes: dict[int, list[str]] = {}
        for name, cores in self.cpus(one_core=False).items():
            for core in cores:
                nodes.setdefault(core, []).append(name)
        return [
            f"core {core} is shared by {', '.join(names)}: programs that poll wait for each other"
            for core, names in sorted(nodes.items())
            if len(names) > 1
        ]

    def to_json(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_json(data: dict) -> "Topology":
        nodes = tuple(Node(**n) for n in data["nodes"])
        wiring = Wiring.from_json(data["wiring"]) if data.get("wiring") else None
        return Topology(**{**data, "nodes": nodes, "wiring": wiring})


def link_name(local_rank: str, port: int) -> str:
    return f"hk{local_rank}" + (f"r{port}" if port else "")


def node_directory(netns: str) -> Path:
    """The directory of a node, with its run directory, DPDK's files and huge pages. It is outside
    of the lab's directory, since paths of sockets must be short."""
    checkout = checkout_of(netns)
    return state_dir(checkout) / "n" / netns.removeprefix(checkout)


def plan(
    lab_id: str,
    nodes: int,
    wire: str,
    ranks_per_node: int,
    mtu: int,
    huge_mb: int = 0,
    wiring: Wiring | None = None,
    ports: int = 1,
    lab: str = "default",
) -> Topology:
    made = tuple(
        Node(
            index=i,
            name=f"node{i}",
            netns=f"{lab_id}-n{i}",
            ctl_ip=f"10.77.0.{i + 1}",
            tcp_ip=f"10.78.0.{i + 1}",
        )
        for i in range(nodes)
    )
    return Topology(lab_id, wire, ranks_per_node, mtu, made, huge_mb, wiring, ports, lab)
