# SPDX-License-Identifier: BSD-3-Clause
"""Interfaces that this node needs itself; no rank should use them by AF_XDP.

The kernel receives none of the frames that arrive for an AF_XDP port. Frames that leave by a
bridge, bond or VLAN leave by the interfaces below it.
"""

import json
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from ..process import run
from .finding import OK, WARN, Finding, Findings

_SSH_PORT = "22"
_SSH = ("ssh", "sshd", "sshd-session")
_MPI = ("mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "srun", "slurmstepd", "slurmd")
_ON_A_LINK = ("vlan", "macvlan", "macvtap", "ipvlan", "macsec")
_PROGRAM = re.compile(r'users:\(\("([^"]*)"')


@dataclass(frozen=True)
class Network:
    """The output of iproute2 and ss in this network namespace."""

    links: list[dict] = field(default_factory=list)  # ip -details link
    addresses: list[dict] = field(default_factory=list)  # ip address
    routes: list[dict] = field(default_factory=list)  # ip route, of both families
    connections: str = ""  # ss: local and remote address, program, a line each

    @classmethod
    def of_this_node(cls) -> "Network":
        """An empty one where iproute2 is missing, which programs() reports."""
        if not (shutil.which("ip") and shutil.which("ss")):
            return cls()

        def ip(*what: str) -> list[dict]:
            return json.loads(run(["ip", "-json", *what]) or "[]")

        routes = ["route", "show", "table", "all", "default"]
        six = ip("-6", *routes) if Path("/proc/net/if_inet6").exists() else []
        return cls(
            ip("-details", "link", "show"),
            ip("address", "show"),
            ip("-4", *routes) + six,
            run(["ss", "-H", "-t", "-n", "-p", "state", "established"]),
        )

    def below(self, name: str, depth: int = 8) -> set[str]:
        """The physical interfaces below @name."""
        under = {link["ifname"] for link in self.links if link.get("master") == name}
        for link in self.links:
            kind = link.get("linkinfo", {}).get("info_kind")
            if link["ifname"] == name and kind in _ON_A_LINK and link.get("link"):
                under.add(link["link"])
        if not under or depth == 0:
            return {name}
        return set().union(*(self.below(each, depth - 1) for each in under))


def _host_and_port(text: str) -> tuple[str, str]:
    """Splits texts such as 10.0.0.1%eth0:22, [::ffff:10.0.0.1]:22, [fe80::1%eth0]:22."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]").partition("%")[0]
    return host.removeprefix("::ffff:") if "." in host else host, port


def _who(program: str, ports: tuple[str, str]) -> str | None:
    if program in _MPI:
        return f"a connection of {program}"
    if program in _SSH or (not program and _SSH_PORT in ports):
        return "an ssh connection"
    return None


def needs(network: Network) -> dict[str, list[str]]:
    """By interface: the traffic of this node that needs it."""
    owner = {
        a["local"]: i["ifname"]
        for i in network.addresses
        for a in i.get("addr_info", [])
        if "LOOPBACK" not in i.get("flags", [])
    }
    found: dict[str, list[str]] = defaultdict(list)

    def add(name: str, what: str) -> None:
        for below in sorted(network.below(name)):
            if what not in found[below]:
                found[below].append(what)

    for route in network.routes:
        if route.get("dst") == "default" and route.get("type", "unicast") == "unicast":
            for hop in [route, *route.get("nexthops", [])]:
                if hop.get("dev"):
                    add(hop["dev"], "the default route")
    for line in network.connections.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        (local, local_port), (_, remote_port) = map(_host_and_port, fields[2:4])
        program = _PROGRAM.search(line)
        what = _who(program[1] if program else "", (local_port, remote_port))
        if what and local in owner:
            add(owner[local], what)
    return dict(found)


def uplinks(network: Network | None = None) -> Findings:
    if network is None:
        network = Network.of_this_node()
    needed = needs(network)
    for name, what in sorted(needed.items()):
        yield Finding(
            "interfaces",
            WARN,
            f"{name} carries {' and '.join(what)}: a rank that takes it by af_xdp:iface={name} "
            "cuts this off",
            f"give ranks another interface, or af_packet:iface={name}   (docs/ports.md)",
        )
    if not needed:
        yield Finding(
            "interfaces", OK, "none carries a default route, or a connection of ssh or mpirun"
        )
