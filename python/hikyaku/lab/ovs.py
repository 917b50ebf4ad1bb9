# SPDX-License-Identifier: BSD-3-Clause
"""The switches of a lab on wire ovs: a separate Open vSwitch with the user-space datapath.

The namespace `sw` has one ovsdb-server and one ovs-vswitchd, with a bridge for each switch. Their
sockets, logs and database are in the switch's directory (topology.py). Their environment carries
the lab's id, so they end with the lab. Links between switches are veth pairs, so a cut cable takes
the ports at both ends down. Without a controller new bridges forward nothing (fail-mode secure);
when it ends, they keep their rules.

ovs-vswitchd(8), ovs-vswitchd.conf.db(5).
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from ..called import install_deps
from ..errors import HikyakuError
from ..process import run
from .network import NETNS_DIR, batch, limit_rate
from .topology import Topology, node_directory
from .wiring import FURTHER, Link, Wiring

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
OPENFLOW_PORT = 6653  # IANA's, on the loopback of the namespace `sw`
CONTROLLER = f"tcp:127.0.0.1:{OPENFLOW_PORT}"
BURST_MS = 20  # what a limited link lets through at once, as time at its rate


def directory(topology: Topology) -> Path:
    return node_directory(topology.switch_netns)


def require() -> None:
    """Raises an error with its fix if Open vSwitch is not installed."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ethtool", "tc"):
        if shutil.which(program) is None:
            raise HikyakuError(f"wire ovs needs {program}, which is not installed", install_deps())
    if not SCHEMA.exists():
        raise HikyakuError(f"Open vSwitch's {SCHEMA} is missing", install_deps())


def inside(topology: Topology, argv: list[str]) -> list[str]:
    """The command line that runs @argv in the namespace of the switches."""
    own = directory(topology)
    env = [
        f"HIKYAKU_LAB_ID={topology.lab_id}",
        f"OVS_RUNDIR={own / 'run'}",
        f"OVS_LOGDIR={own}",
        f"OVS_DBDIR={own}",
    ]
    return ["env", *env, "nsenter", f"--net={NETNS_DIR / topology.switch_netns}", *argv]


def vsctl(topology: Topology, arguments: list[str], seconds: int = 30) -> str:
    """Runs ovs-vsctl on the lab's switches, and returns its output."""
    socket = directory(topology) / "run" / "db.sock"
    # without --timeout it would wait for a dead switch for ever
    argv = ["ovs-vsctl", f"--timeout={seconds}", f"--db=unix:{socket}", *arguments]
    return run(inside(topology, argv), timeout=seconds + 5)


def _at_once(program: str) -> list[str]:
    """A prefix by which the switches forward a frame at once, if this process may do that. A real
    switch does not wait for a core, and ranks that poll would let these wait for milliseconds."""
    realtime = ["chrt", "--rr", "1"]
    if program != "ovs-vswitchd":
        return []
    tried = subprocess.run([*realtime, "true"], capture_output=True, check=False, timeout=10)
    return realtime if tried.returncode == 0 else []


def run_beside_switches() -> None:
    """Gives this process, the controller, the priority of the switches, if it may have that. A real
    one has a machine of its own. Here the kernel may leave it on the core of a busy switch, where a
    lower priority gets nothing for 20 s. On one core the two take turns."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def start(topology: Topology) -> None:
    """Starts both daemons, and makes a bridge for each switch with the ports that exist."""
    own = directory(topology)
    database, socket = own / "conf.db", own / "run" / "db.sock"
    run(["ovsdb-tool", "create", str(database), str(SCHEMA)])
    common = ["--pidfile", "--detach", "--no-chdir", "-vconsole:off", "-vsyslog:off"]
    for argv in (
        ["ovsdb-server", str(database), f"--remote=punix:{socket}"],
        ["ovs-vswitchd", f"unix:{socket}", "--disable-system"],
    ):
        log = f"--log-file={own / argv[0]}.log"
        run(inside(topology, [*_at_once(argv[0]), *argv, log, *common]))
    wiring = topology.wiring
    commands = ["set", "Open_vSwitch", ".", "other_config:n-handler-threads=1"]
    commands += ["other_config:n-revalidator-threads=1"]
    for i, switch in enumerate(wiring.switches):
        commands += ["--", "add-br", switch]
        commands += ["--", "set", "bridge", switch, "datapath_type=netdev", "fail-mode=secure"]
        commands += ["protocols=OpenFlow13", f"other-config:datapath-id={i + 1:016x}"]
    for switch, port, interface in ports(topology):
        commands += ["--", "add-port", switch, interface]
        commands += ["--", "set", "interface", interface, f"ofport_request={port}"]
        commands += ["--", "set", "port", interface, "qos=@none"]
    # Open vSwitch removes the limits of create_links() from a port without this type.
    commands += ["--", "--id=@none", "create", "qos", "type=linux-noop"]
    vsctl(topology, commands)
    set_controllers(topology, [CONTROLLER])


def set_controllers(
    topology: Topology, targets: list[str], switches: list[str] | None = None
) -> None:
    """Connects @switches, or all, to @targets (ovs-vswitchd.conf.db(5), "Controller"). They
    reconnect quickly."""
    commands = []
    for switch in switches or topology.wiring.switches:
        commands += ["--", "set-controller", switch, *targets]
    vsctl(topology, commands[1:])
    shown = vsctl(topology, ["--format=json", "--columns=_uuid", "list", "controller"])
    records = json.loads(shown)
    commands = []
    for ((_, uuid),) in records["data"]:
        commands += ["--", "set", "controller", uuid, "max_backoff=1000", "inactivity_probe=5000"]
        commands += ["connection_mode=out-of-band"]
    vsctl(topology, commands[1:])


def is_connected(topology: Topology, switch: str) -> bool:
    """Is @switch connected to a controller?"""
    shown = vsctl(topology, ["get", "bridge", switch, "controller"]).strip("[]\n ")
    controllers = filter(None, shown.split(", "))
    asks = (vsctl(topology, ["get", "controller", c, "is_connected"]) for c in controllers)
    return any(answer.strip() == "true" for answer in asks)


def without_rules(topology: Topology) -> list[str]:
    """The switches whose flow tables are empty: without a controller these forward nothing."""
    ask = ["ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate"]
    shown = {s: run(inside(topology, [*ask, s])) for s in topology.wiring.switches}
    return [switch for switch, text in shown.items() if "flow_count=0" in text]


def set_ssl(topology: Topology, key: Path, certificate: Path, ca: Path) -> None:
    """The certificate that switches show to controllers at ssl: targets, and their authority."""
    vsctl(topology, ["set-ssl", str(key), str(certificate), str(ca)])


# ---- ports and cables ----------------------------------------------------------------------------


def node_links(topology: Topology) -> list[str]:
    """The links of a node that lead to a switch."""
    return ["tcp0", *(f"hk{k}" for k in range(topology.data_ports))]


def ports(topology: Topology) -> list[tuple[str, int, str]]:
    """(switch, port, interface) of all ports. A node's data links come after its tcp0."""
    w = topology.wiring
    found = []
    for link in w.links:
        found.append((link.a, link.port_a, w.port_name(link.a, link.port_a)))
        found.append((link.b, link.port_b, w.port_name(link.b, link.port_b)))
    for node, link in zip(topology.nodes, w.access, strict=True):
        for k, _ in enumerate(node_links(topology)):
            found.append((link.b, _node_port(link, k), node_port_name(w, node.index, k)))
    return found


def _node_port(link: Link, k: int) -> int:
    """The ports of data links are above those that a wiring numbers."""
    return link.port_b + FURTHER * k


def node_link_name(link: Link, own: str) -> str:
    """The name of the link of a node's interface @own, as node3:hk0-leaf1. @link: the node's."""
    return f"{link.a}:{own}-{link.b}"


def link_names(topology: Topology) -> dict[tuple[int, int], str]:
    """The names of all links, by (number of the switch, port)."""
    w = topology.wiring
    number = {switch: i for i, switch in enumerate(w.switches, 1)}
    found = {}
    for link in w.links:
        found[number[link.a], link.port_a] = found[number[link.b], link.port_b] = link.name
    for link in w.access:
        for k, own in enumerate(node_links(topology)):
            found[number[link.b], _node_port(link, k)] = node_link_name(link, own)
    return found


def node_port_name(wiring: Wiring, index: int, k: int) -> str:
    link = wiring.access[index]
    return wiring.port_name(link.b, _node_port(link, k))


def _address() -> str:
    """An address for a node. One that the kernel draws may begin as a tag does, with 66:48."""
    return f"02:{secrets.token_bytes(5).hex(':')}"


def create_links(topology: Topology) -> None:
    """The cables: switch to switch, and each node's tcp0 and hk* to its switch."""
    w, switch = topology.wiring, topology.switch_netns
    for link in w.links:
        a, b = w.port_name(link.a, link.port_a), w.port_name(link.b, link.port_b)
        add = f"link add {a} mtu {topology.mtu} type veth peer name {b} mtu {topology.mtu}"
        batch(switch, [add, f"link set {a} up", f"link set {b} up"])
        for end in (a, b):
            _limit(switch, end, link.mbit)
    for node, link in zip(topology.nodes, w.access, strict=True):
        for k, name in enumerate(node_links(topology)):
            port = node_port_name(w, node.index, k)
            own = f"address {_address()} mtu {topology.mtu}"
            peer = f"peer name {name} {own} netns {node.netns}"
            add = f"link add {port} mtu {topology.mtu} type veth {peer}"
            batch(switch, [add, f"link set {port} up"])
            batch(node.netns, [f"link set {name} up"])
            # The switch hands on what it reads, and a checksum that the kernel left to the NIC
            # would arrive unfilled.
            run(["nsenter", f"--net={NETNS_DIR / node.netns}", "ethtool", "-K", name, "tx", "off"])
            _limit(switch, port, link.mbit)
            _limit(node.netns, name, link.mbit)


def _limit(netns: str, interface: str, mbit: int) -> None:
    if mbit:
        limit_rate(netns, interface, mbit, max(16 * 1024, mbit * 125 * BURST_MS))


def ends(topology: Topology, link: Link) -> list[str]:
    """The interfaces of @link in the namespace of the switches; of a node's link, all its
    interfaces."""
    w = topology.wiring
    if link.port_a == 0:
        index = w.access.index(link)
        return [node_port_name(w, index, k) for k, _ in enumerate(node_links(topology))]
    return [w.port_name(link.a, link.port_a), w.port_name(link.b, link.port_b)]
