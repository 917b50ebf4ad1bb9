# SPDX-License-Identifier: BSD-3-Clause
"""The links of a lab's switches (ovs.py): cuts and repairs them, and counts their traffic."""

import json
from collections.abc import Iterable

from ..errors import HikyakuError
from ..process import run
from ..sdn.parts import Interface, Lost, Separation, separation
from . import loss, ovs
from .network import batch
from .topology import Topology
from .wiring import Link


def _named(topology: Topology, name: str) -> tuple[str, list[str]]:
    """The link called @name, which may be that of one interface of a node: its own name, and the
    interfaces at its switches."""
    link = topology.wiring.link(name, ovs.link_names(topology).values())
    ends = ovs.ends(topology, link)
    if ":" not in name:
        return link.name, ends
    of_node = [ovs.node_link_name(link, own) for own in ovs.node_links(topology)]
    if name not in of_node:
        raise HikyakuError(f"there is no link '{name}'", f"use one of: {', '.join(of_node)}")
    return name, [ends[of_node.index(name)]]


def set_link(topology: Topology, name: str, *, up: bool) -> str:
    """Cuts link @name, or repairs it. Both ends see it at once. Returns its own name."""
    name, ends = _named(topology, name)
    state = "up" if up else "down"
    batch(topology.switch_netns, [f"link set {end} {state}" for end in ends])
    return name


def is_set(topology: Topology, name: str, *, up: bool) -> bool:
    """Is link @name up, or cut, already?"""
    _, ends = _named(topology, name)
    flags = _flags(topology)
    return all(("UP" in flags[end]) == up for end in ends)


def _flags(topology: Topology) -> dict[str, list[str]]:
    """The kernel's flags of each interface of the switches."""
    shown = json.loads(run(["ip", "-n", topology.switch_netns, "-json", "link", "show"]))
    return {each["ifname"]: each["flags"] for each in shown}


def separated(
    topology: Topology, nodes: Iterable[str] | None = None, owns: Iterable[str] | None = None
) -> Separation | None:
    """The parts between which no path is left, among the interfaces @owns of @nodes (default: all
    of all nodes). A frame takes any path of links that are up."""
    flags, w = _flags(topology), topology.wiring
    chosen = {link.a for link in w.access} if nodes is None else set(nodes)
    owns = ovs.node_links(topology) if owns is None else list(owns)

    def up(*ends: str) -> bool:
        return all("LOWER_UP" in flags[end] for end in ends)

    lost = [Lost(x.a, x.b, x.name) for x in w.links if not up(*ovs.ends(topology, x))]
    joined = [(x.a, x.b) for x in w.links if up(*ovs.ends(topology, x))]
    interfaces = []
    for link in w.access:
        ends = zip(ovs.node_links(topology), ovs.ends(topology, link), strict=True)
        for own, end in ends if link.a in chosen else ():
            if own not in owns:
                continue
            itself = (link.a, own)
            interfaces.append(Interface(link.a, own, link.b if up(end) else itself))
            if not up(end):
                lost.append(Lost(itself, link.b, ovs.node_link_name(link, own)))
    return separation(interfaces, joined, lost)


def lose(topology: Topology, names: Iterable[str], part: float, seed: int) -> list[str]:
    """Makes the links called @names, or all, lose @part of their frames (loss.py). Returns their
    own names, as counters() has them."""
    ends = {end: name for name, there in _ends(topology).items() for end in there}
    chosen = [end for name in names for end in _named(topology, name)[1]] or list(ends)
    loss.lose(topology, dict.fromkeys(chosen), part, seed)
    return list(dict.fromkeys(ends[end] for end in chosen))


def _ends(topology: Topology) -> dict[str, list[str]]:
    """By link: its interfaces at switches. The links of a node are separate."""
    w = topology.wiring
    found = {link.name: ovs.ends(topology, link) for link in w.links}
    for link in w.access:
        for own, end in zip(ovs.node_links(topology), ovs.ends(topology, link), strict=True):
            found[ovs.node_link_name(link, own)] = [end]
    return found


def repair_command(lab: str) -> str:
    """The command that repairs the links that follow it."""
    return f"hikyaku lab repair --lab {lab}"


_NOTHING = ({"frames": 0, "bytes": 0}, {"frames": 0, "bytes": 0})


def counters(topology: Topology) -> list[dict]:
    """The frames and bytes that each link has carried, from @a to @b and back, by the counters of
    its ports. Frames that the link lost (loss.py) count as carried. The links of a node are counted
    separately. @loses: the part of its frames that it loses now.
    """
    shown = run(["ip", "-n", topology.switch_netns, "-json", "-stats", "link", "show"])
    there = {each["ifname"]: each for each in json.loads(shown)}
    lost, losing = loss.lost(topology), loss.losing(topology)
    w = topology.wiring
    rows = []
    for link in w.links:
        a, b = ovs.ends(topology, link)
        sent, got = (there[a]["stats64"][way] for way in ("tx", "rx"))
        out, back = (lost.get(end, _NOTHING)[0] for end in (a, b))
        # what an end loses of what leaves it, neither end's ports have counted
        ways = _carried(sent, out, out), _carried(got, back, back)
        rows.append(_row(link.name, link, there[a], losing.get(a, 0.0), *ways))
    for link in w.access:
        for own, end in zip(ovs.node_links(topology), ovs.ends(topology, link), strict=True):
            name = ovs.node_link_name(link, own)
            sent, got = (there[end]["stats64"][way] for way in ("tx", "rx"))
            out, came = lost.get(end, _NOTHING)
            # what is lost as it comes in, the node's end has sent
            ways = _carried(got, came, _NOTHING[0]), _carried(sent, out, out)
            rows.append(_row(name, link, there[end], losing.get(end, 0.0), *ways))
    return rows


def _carried(count: dict, lost: dict, uncounted: dict) -> dict:
    """@count: a port's counters. @uncounted: the lost frames that these do not include."""
    return {
        "frames": count["packets"] + uncounted["frames"],
        "bytes": count["bytes"] + uncounted["bytes"],
        "lost": lost["frames"],
    }


def _row(name: str, link: Link, port: dict, loses: float, forth: dict, back: dict) -> dict:
    up = "LOWER_UP" in port["flags"]
    ends = {"link": name, "a": link.a, "b": link.b, "up": up, "loses": loses}
    return {**ends, "a_to_b": forth, "b_to_a": back}


def lost(row: dict) -> int:
    """The frames that a link of counters() has lost, both directions."""
    return row["a_to_b"]["lost"] + row["b_to_a"]["lost"]
