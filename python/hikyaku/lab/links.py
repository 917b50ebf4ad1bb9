# SPDX-License-Identifier: BSD-3-Clause
"""The links of a lab's switches (ovs.py): cut and mended, and what they carry."""

import json

from ..process import run
from . import ovs
from .network import batch
from .topology import Topology
from .wiring import Link


def ends(topology: Topology, link: Link) -> list[str]:
    """The interfaces among the switches that belong to @link; of a node's, all its links."""
    w = topology.wiring
    if link.port_a == 0:
        index = w.access.index(link)
        return [ovs.node_port_name(w, index, k) for k, _ in enumerate(ovs.node_links(topology))]
    return [w.port_name(link.a, link.port_a), w.port_name(link.b, link.port_b)]


def set_link(topology: Topology, name: str, *, up: bool) -> Link:
    """Cuts the cable of link @name, or mends it. Both ends see it at once."""
    link = topology.wiring.link(name)
    state = "up" if up else "down"
    batch(topology.switch_netns, [f"link set {end} {state}" for end in ends(topology, link)])
    return link


def counters(topology: Topology) -> list[dict]:
    """What each link has carried, frames and bytes, as its ports count them: from @a to @b, and
    back. A node's links are counted apart."""
    shown = run(["ip", "-n", topology.switch_netns, "-json", "-stats", "link", "show"])
    links = {each["ifname"]: each for each in json.loads(shown)}
    w = topology.wiring
    rows = []
    for link in w.links:
        port = links[ends(topology, link)[0]]
        rows.append(_count(link.name, link, port, "tx", "rx"))
    for link in w.access:
        for own, end in zip(ovs.node_links(topology), ends(topology, link), strict=True):
            name = link.name if own == "tcp0" else f"{link.a}:{own}-{link.b}"
            rows.append(_count(name, link, links[end], "rx", "tx"))
    return rows


def _count(name: str, link: Link, port: dict, forth: str, back: str) -> dict:
    """@forth and @back: what @port's counter of frames from a to b is called, and of the others."""

    def both(direction: str) -> dict:
        count = port["stats64"][direction]
        return {"frames": count["packets"], "bytes": count["bytes"]}

    up = "LOWER_UP" in port["flags"]
    return {"link": name, "a": link.a, "b": link.b, "up": up} | {
        "a_to_b": both(forth),
        "b_to_a": both(back),
    }
