# SPDX-License-Identifier: BSD-3-Clause
"""Makes and removes the namespaces, bridges and links of a topology, and shows them.

iproute2 does all of it. Removing a namespace removes its links, so only namespaces must be removed;
their names identify their lab. ovs.py makes wire ovs.
"""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

from ..called import again_as_root
from ..errors import HikyakuError
from ..process import find, run
from ..sdn import tag
from .topology import Topology

NETNS_DIR = Path("/run/netns")
_PROGRAM = re.compile(r"^prog_id:\s*(\d+)", re.MULTILINE)


def require_root() -> None:
    if os.geteuid() != 0:
        raise HikyakuError(
            "a lab is made of network namespaces, and only root may make them",
            again_as_root(),
        )


def namespaces(prefix: str) -> list[str]:
    """Names of the machine's namespaces that belong to the lab or checkout @prefix."""
    if not NETNS_DIR.is_dir():
        return []
    return sorted(p.name for p in NETNS_DIR.iterdir() if p.name.startswith(prefix))


def namespace_inode(name: str) -> int | None:
    try:
        return (NETNS_DIR / name).stat().st_ino
    except OSError:
        return None


def batch(netns: str, lines: list[str]) -> None:
    """Runs commands of ip in @netns, in one process."""
    if lines:
        run(["ip", "-n", netns, "-batch", "-"], text_in="\n".join(lines) + "\n")


def _no_ipv6(netns: str) -> None:
    """New links in @netns send no IPv6 traffic, which would disturb a measured wire."""
    script = "f=/proc/sys/net/ipv6/conf/default/disable_ipv6; [ ! -e $f ] || echo 1 >$f"
    run(["nsenter", f"--net={NETNS_DIR / netns}", "sh", "-c", script])


def _set(netns: str, values: dict[str, int]) -> None:
    """Sets the kernel's parameters net.NAME in @netns."""
    words = [f"net.{name}={value}" for name, value in values.items()]
    run(["ip", "netns", "exec", netns, "sysctl", "-qw", *words])


def _answer_by_own_link(netns: str) -> None:
    """Each link of @netns answers ARP for its own addresses alone. By default hk0 also answers for
    the address of tcp0 where both are in one segment, and TCP's packets then arrive by hk0."""
    _set(netns, {"ipv4.conf.all.arp_ignore": 1, "ipv4.conf.all.arp_announce": 2})


def _bridge(name: str, mtu: int) -> list[str]:
    return [
        f"link add {name} type bridge forward_delay 0 mcast_snooping 0",
        f"link set {name} mtu {mtu} up",
    ]


def _plug(node_netns: str, link: str, mtu: int, switch: str, bridge: str, port: str) -> None:
    """A veth from a node's @link to a port of a bridge."""
    batch(switch, [f"link add {port} type veth peer name {link} netns {node_netns}"])
    batch(switch, [f"link set {port} mtu {mtu} master {bridge} up"])
    batch(node_netns, [f"link set {link} mtu {mtu} up"])


def _direct(a: str, b: str, link: str, mtu: int) -> None:
    """A veth that is called @link at both ends."""
    batch(a, [f"link add {link} type veth peer name {link} netns {b}"])
    for netns in (a, b):
        batch(netns, [f"link set {link} mtu {mtu} up"])


def _bridged(t: Topology) -> None:
    """A separate network for the first port of each rank, for the second, and so on."""
    for port in range(t.ports):
        batch(t.switch_netns, _bridge(f"data{port}", t.mtu))
    for n in t.nodes:
        for k, (link, port) in enumerate(t.data_links()):
            _plug(n.netns, link, t.mtu, t.switch_netns, f"data{port}", f"hk{n.index}-{k}")


_ROUTER = "169.254.78.1"  # of all its ends: each is a link of its own
_ROUTER6 = "fd78::ffff"


def commands_up(t: Topology, link: str) -> list[str]:
    """The commands of ip that bring a node's @link up. On wire routed also the way to the other
    nodes, which the kernel forgets when the link goes down."""
    way = [f"route add {_ROUTER} dev tcp0", f"route add 10.78.0.0/16 via {_ROUTER} dev tcp0"]
    way += [f"route add {_ROUTER6} dev tcp0", f"route add fd78::/64 via {_ROUTER6} dev tcp0"]
    return [f"link set {link} up", *(way if t.wire == "routed" and link == "tcp0" else [])]


def _with_ipv6(netns: str, link: str) -> None:
    """Permits it on @link, whose addresses are valid at once and stay when it goes down."""
    values = {"disable_ipv6": 0, "accept_dad": 0, "keep_addr_on_down": 1, "router_solicitations": 0}
    _set(netns, {f"ipv6.conf.{link}.{name}": value for name, value in values.items()})


WAYS = ("way0", "way1")  # the links between the two routers


def _end(way: int, router: int) -> tuple[str, str]:
    """The addresses of @router's end of a link to the other router."""
    return f"10.79.{way}.{router}", f"fd79:{way}::{router:x}"


def _join_routers(t: Topology) -> None:
    """Each flow takes one way: the routers hash addresses and ports."""
    a, b = t.router_netns
    for way, link in enumerate(WAYS):
        _direct(a, b, link, t.mtu)
        for router, netns in enumerate(t.router_netns):
            _with_ipv6(netns, link)
            ip, ip6 = _end(way, router)
            own = [f"address add {ip}/31 dev {link}", f"address add {ip6}/127 dev {link}"]
            batch(netns, own)
    for n in t.nodes:
        home = t.router_of(n)
        hops = ["", ""]
        for way, link in enumerate(WAYS):
            for k, gateway in enumerate(_end(way, home)):
                hops[k] += f" nexthop via {gateway} dev {link}"
        to = [f"route add {ip}{hop}" for ip, hop in zip((n.tcp_ip, n.tcp_ip6), hops, strict=True)]
        batch(t.router_netns[1 - home], to)


def _routed(t: Topology) -> None:
    """Two routers, with a link to every second node each. They pass IP alone, as the networks of
    clouds do."""
    values = ["ipv4.ip_forward", "ipv6.conf.all.forwarding"]
    values += ["ipv4.fib_multipath_hash_policy", "ipv6.fib_multipath_hash_policy"]
    for netns in t.router_netns:
        _set(netns, dict.fromkeys(values, 1))
    for n in t.nodes:
        port, netns = f"tcp{n.index}", t.router_netns[t.router_of(n)]
        batch(netns, [f"link add {port} type veth peer name tcp0 netns {n.netns}"])
        _with_ipv6(netns, port)
        _with_ipv6(n.netns, "tcp0")
        own = [
            f"address add {router} dev {port}" for router in (f"{_ROUTER}/32", f"{_ROUTER6}/128")
        ]
        to = [f"route add {address} dev {port}" for address in (n.tcp_ip, n.tcp_ip6)]
        batch(netns, [f"link set {port} mtu {t.mtu} up", *own, *to])
        own = [f"address add {n.tcp_ip}/32 dev tcp0", f"address add {n.tcp_ip6}/128 dev tcp0"]
        batch(n.netns, [f"link set tcp0 mtu {t.mtu}", *own, *commands_up(t, "tcp0")])
    _join_routers(t)


def _tcp_wire(t: Topology) -> None:
    if len(t.nodes) == 2:
        _direct(t.nodes[0].netns, t.nodes[1].netns, "tcp0", t.mtu)
        return
    batch(t.switch_netns, _bridge("tcp", t.mtu))
    for n in t.nodes:
        _plug(n.netns, "tcp0", t.mtu, t.switch_netns, "tcp", f"tcp{n.index}")


def avoid_tags(netns: str) -> None:
    """Gives another address to links of @netns whose address looks like a tag. The kernel draws
    addresses at random, and one in 16384 of them does."""
    for link in links(netns):
        if int(link["mac"].replace(":", ""), 16) >> 32 == tag.PREFIX >> 32:
            other = "02" + link["mac"][2:]
            batch(netns, [f"link set {link['name']} address {other}"])


def create(topology: Topology) -> None:
    from . import ovs  # which makes its links with batch()

    t = topology
    for netns in t.netns:
        run(["ip", "netns", "add", netns])
        _no_ipv6(netns)
        batch(netns, ["link set lo up"])

    for n in t.nodes:
        _answer_by_own_link(n.netns)
    batch(t.ctl_netns, _bridge("ctl", 1500))
    for n in t.nodes:
        _plug(n.netns, "ctl0", 1500, t.ctl_netns, "ctl", f"n{n.index}")
        batch(n.netns, [f"address add {n.ctl_ip}/16 dev ctl0"])

    if t.wire == "routed":
        _routed(t)
    else:
        make = ovs.create_links if t.wiring else _tcp_wire
        make(t)
        for n in t.nodes:
            batch(n.netns, [f"address add {n.tcp_ip}/16 dev tcp0"])

    if len(t.nodes) == 2 and t.data_ports == 1 and not t.wiring:
        for link, _ in t.data_links():
            _direct(t.nodes[0].netns, t.nodes[1].netns, link, t.mtu)
    elif t.data_ports and not t.wiring:
        _bridged(t)
    for n in t.nodes:
        avoid_tags(n.netns)
    if t.wiring:
        ovs.start(t)


def limit_rate(netns: str, interface: str, mbit: int, burst: int) -> None:
    """Lets @interface send @mbit Mbit/s, and after a pause @burst bytes at once."""
    rate = ["tbf", "rate", f"{mbit}mbit", "burst", str(burst), "latency", "50ms"]
    run(["tc", "-n", netns, "qdisc", "add", "dev", interface, "root", *rate])


def remove(prefix: str) -> list[str]:
    """Removes every namespace of @prefix; returns their names."""
    gone = namespaces(prefix)
    for name in gone:
        run(["ip", "netns", "delete", name])
    return gone


def links(netns: str) -> list[dict]:
    """The links of a namespace: name, state, MTU, and attached XDP program."""
    found = []
    for link in json.loads(run(["ip", "-n", netns, "-json", "-details", "link", "show"])):
        if link["ifname"] == "lo":
            continue
        xdp = link.get("xdp")
        found.append(
            {
                "name": link["ifname"],
                # without LOWER_UP the cable is cut, or its other end is down
                "up": {"UP", "LOWER_UP"} <= set(link["flags"]),
                "mtu": link["mtu"],
                "mac": link["address"],
                "xdp_program": xdp["prog"]["id"] if xdp else None,
            }
        )
    return found


def _open_programs(netns: str) -> set[int]:
    """The eBPF programs that processes of @netns have open."""
    inode = namespace_inode(netns)
    found = set()
    for pid in find(namespaces=[inode] if inode is not None else []):
        with suppress(OSError):  # it has ended
            for info in Path(f"/proc/{pid}/fdinfo").iterdir():
                with suppress(OSError):
                    found |= set(map(int, _PROGRAM.findall(info.read_text())))
    return found


def stale_xdp(netns: str) -> dict[str, int]:
    """By link: the XDP programs that a killed process left in @netns. A daemon that was started by
    hand has its program open."""
    on = {link["name"]: link["xdp_program"] for link in links(netns) if link["xdp_program"]}
    held = _open_programs(netns) if on else set()
    return {name: program for name, program in on.items() if program not in held}


def remove_xdp(netns: str) -> list[str]:
    """Removes stale_xdp() of @netns; returns the links."""
    dirty = list(stale_xdp(netns))
    for name in dirty:
        for kind in ("xdp", "xdpgeneric"):
            run(["ip", "-n", netns, "link", "set", name, kind, "off"])
    return dirty
