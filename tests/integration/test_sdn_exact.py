# SPDX-License-Identifier: BSD-3-Clause
"""Rules by whole addresses in a real Open vSwitch. It has the computed entries, and the frames
arrive. A controller with masked rules takes over."""

import re
from collections import Counter

from hikyaku import process
from hikyaku.lab import ovs
from hikyaku.lab.controller import LabController, controlled
from hikyaku.lab.frames import receivers, register, send
from hikyaku.sdn import codec, entries
from hikyaku.sdn.algorithms.bcast import tree_key
from hikyaku.sdn.network import Job
from hikyaku.sdn.tag import Function, Tag, from_mac, to_mac
from hikyaku.sdn.wired import of_wiring

SHAPE = "leaf-spine:2x2x2"
NODES = [f"node{i}" for i in range(4)]
FUNCTIONS = [Function.ALLREDUCE, Function.BCAST]
SOON = 60  # seconds, on a machine that does much else


def installed(lab, switch: str) -> dict[str, int]:
    """The entries of a switch by kind, as Open vSwitch itself lists them."""
    found: Counter[str] = Counter()
    for line in ofctl(lab, "dump-flows", switch):
        if not (match := re.search(r"cookie=0x68696b79.* priority=\d+(?:,(\S+))? actions=", line)):
            continue
        fields = dict(f.partition("=")[::2] for f in (match[1] or "").split(",") if f)
        if not fields or "/" in fields.get("dl_dst", ""):
            found["masked"] += 1
        else:
            found["exact" if set(fields) == {"dl_dst"} else "by_port"] += 1
    numbers = [re.search(r"group_id=(\d+)", line) for line in ofctl(lab, "dump-groups", switch)]
    groups = {int(n[1]) for n in numbers if n} - {codec.ALIVE}
    return {kind: found[kind] for kind in ("exact", "masked", "by_port")} | {"groups": len(groups)}


def ofctl(lab, command: str, switch: str) -> list[str]:
    socket = ovs.directory(lab.topology) / "run" / f"{switch}.mgmt"
    argv = ["ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{socket}"]
    return process.run(argv).splitlines()


def computed(controller: LabController, number: int, form: str) -> dict[int, dict[str, int]]:
    """The entries of each switch, for the hosts, ports, job and paths that the controller has."""
    get = controller.client.get
    network = of_wiring(SHAPE)
    known = get("/v1/topology")
    hosts = {from_mac(h["address"]): (h["switch"], h["port"]) for h in known["hosts"]}
    network.graph.hosts = hosts
    for each in known["switches"]:  # a node has one port for each of its interfaces
        network.graph.ports[each["switch"]] = set(map(int, each["ports"]))
    for source in hosts:
        for to in hosts.keys() - {source}:
            path = get(f"/v1/path?source={to_mac(source)}&destination={to_mac(to)}")
            for link in path["links"]:
                network.paths[link["a"]["switch"], to] = link["a"]["port"]
    tree = get(f"/v1/jobs/{number}/path?function=bcast&source=0&group=0")["links"]
    ends = {(link[end]["switch"], link[end]["port"]) for link in tree for end in ("a", "b")}
    network.standing[tree_key(number, 0)] = ends
    ranks = get(f"/v1/jobs/{number}")["ranks"]
    job = Job(number, ranks={int(rank): from_mac(mac) for rank, mac in ranks.items()})
    found = entries.planned(network, [job], FUNCTIONS)[form]
    return {switch: counts._asdict() for switch, counts in found.items()}


def send_all(lab, number: int) -> Counter[str]:
    """Sends a frame of each tag that is in use after both collectives. Returns the frames that each
    node is sent."""
    used = entries.used(Job(number, ranks=dict.fromkeys(range(len(NODES)), 0)), FUNCTIONS)
    tags = [Tag.parse(to_mac(address)) for address in sorted(used)]
    wanted: Counter[str] = Counter()
    for tag in tags:
        to = set(range(len(NODES))) - {tag.source} if tag.group else {tag.destination}
        wanted.update(NODES[rank] for rank in to)
    for rank, node in enumerate(NODES):
        own = [tag.mac for tag in tags if tag.source == rank]
        send(lab, node, ",".join(own), len(own))
    return wanted


def test_open_vswitch_has_the_computed_entries(lab_name, tmp_path):
    with controlled(lab_name("exact"), SHAPE, "--exact") as (lab, controller):
        number = register(lab, controller.client, NODES)
        switches = lab.topology.wiring.switches

        def as_computed(form: str) -> bool:
            want = computed(controller, number, form)
            have = {i + 1: installed(lab, name) for i, name in enumerate(switches)}
            return controller.client.get("/v1/status")["settled"] and have == want

        with receivers(lab, tmp_path) as received:

            def arrived(times: int, wanted: Counter[str]) -> bool:
                got = {node: len(received[node].received()) for node in wanted}
                return got == {node: times * n for node, n in wanted.items()}

            wanted = send_all(lab, number)
            process.wait_until("the first frames", lambda: arrived(1, wanted), SOON)
            process.wait_until("exact entries", lambda: as_computed(entries.EXACT), SOON)
            strays = controller.client.get("/v1/status")["counts"]["strays"]
            assert strays > 0
            send_all(lab, number)
            process.wait_until("frames by the entries", lambda: arrived(2, wanted), SOON)
            status = controller.client.get("/v1/status")
            assert status["counts"]["strays"] == strays, "no switch asks again"
            assert {s["refused"] for s in status["switches"].values()} == {0}

            controller.stop()
            controller.options = controller.options[:-1]
            controller.start()
            controller.wait_links(len(lab.topology.wiring.links))
            process.wait_until("masked entries", lambda: as_computed(entries.MASKED), SOON)
            send_all(lab, number)
            process.wait_until("frames by masks", lambda: arrived(3, wanted), SOON)
