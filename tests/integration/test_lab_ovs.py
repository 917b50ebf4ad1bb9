# SPDX-License-Identifier: BSD-3-Clause
"""Wire ovs: its topologies, the lab's own Open vSwitch, and its links."""

import json
import os
import re
import signal
import subprocess
from collections import Counter

import pytest

from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, down, frames, lab_id, links, loss, network, ovs, wiring

LINE = {"switches": ["a", "b"], "links": [{"ends": ["a", "b"]}], "nodes": [{"switch": "a"}] * 2}


# ---- topologies ----------------------------------------------------------------------------------


def degrees(made: wiring.Wiring) -> Counter:
    return Counter(end for link in (*made.links, *made.access) for end in (link.a, link.b))


def test_leaf_spine():
    made = wiring.parse("leaf-spine:2x3x4")
    assert made.nodes == 12
    assert degrees(made)["leaf1"] == 6
    assert degrees(made)["spine0"] == 3
    assert made.link("spine1-leaf2") == made.link("leaf2-spine1")
    assert made.link("node0:hk0-leaf0") == made.link("node0-leaf0")


def test_fat_tree_has_full_bisection():
    made = wiring.parse("fat-tree:4")
    assert (len(made.switches), made.nodes, len(made.links)) == (20, 16, 32)
    ports = degrees(made)
    assert {ports[switch] for switch in made.switches} == {4}
    for core in range(4):
        pods = {re.sub(r"\..*", "", x.a) for x in made.links if x.b == f"core{core}"}
        assert len(pods) == 4, "each core switch reaches each pod once"


def test_ports_are_numbered_once():
    for text in ("leaf-spine:3x4x5", "fat-tree:6"):
        made = wiring.parse(text)
        ends = [(x.a, x.port_a) for x in made.links]
        ends += [(x.b, x.port_b) for x in (*made.links, *made.access)]
        assert len(set(ends)) == len(ends)
        assert all(len(made.port_name(*end)) <= 15 for end in ends)


def test_a_port_is_called_as_its_cable():
    made = wiring.parse("leaf-spine:2x2x2")
    (link,) = (x for x in made.links if x.name == "leaf0-spine1")
    ends = {(link.a, link.port_a), (link.b, link.port_b)}
    assert {made.port_name(*end) for end in ends} == {"leaf0-spine1", "spine1-leaf0"}
    last = made.access[3]
    assert made.port_name("leaf1", last.port_b) == "leaf1-node3"
    assert made.port_name("leaf1", last.port_b + wiring.FURTHER) == "leaf1-node3.1"


def test_a_name_that_is_long_or_means_two_ports_is_of_numbers():
    made = wiring.build("", ["a", "a-b", "a-very-long-name"], [("a", "a-very-long-name", 0)], [])
    assert made.port_name("a", 1) == "s0p1"
    made = wiring.build("", ["a", "b-c", "a-b", "c"], [("a", "b-c", 0), ("a-b", "c", 0)], [])
    assert [made.port_name("a", 1), made.port_name("a-b", 1)] == ["s0p1", "s2p1"]
    assert made.port_name("c", 1) == "c-a-b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leaf-spine:2x2", "is not a topology"),
        ("leaf-spine:0x2x2", "zero"),
        ("fat-tree:3", "even"),
        ("fat-tree:12", "switches; a lab takes"),
        ("leaf-spine:2x2x99", "more than 64 ports"),
        ("/does/not/exist", "there is no topology"),
    ],
)
def test_topologies_that_cannot_be(text, said):
    with pytest.raises(HikyakuError, match=said):
        wiring.parse(text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ([], "has to be an object"),
        ({"nodes": 3}, "nodes has to be a list"),
        ({"color": 1}, "unknown color"),
        ({"switches": ["a", "a"]}, "two switches 'a'"),
        ({"switches": ["a", "node1"]}, "a node's name"),
        ({"switches": ["a", "b;rm"]}, "not a name for a switch"),
        ({"switches": []}, "has to name two"),
        ({"links": [{"ends": ["a", "c"]}]}, r"links\[0\].ends has to name"),
        ({"links": [{"ends": ["a", "a"]}]}, "to itself"),
        ({"links": [{"ends": ["a", "b"]}, {"ends": ["b", "a"]}]}, "a second time"),
        ({"switches": ["a", "b", "c", "d"]}, "no links lead from a to c, d: add"),
        ({"links": [{"ends": ["a", "b"], "mbit": -1}]}, "mbit has to be"),
        ({"links": [{"ends": ["a", "b"], "mbit": True}]}, "mbit has to be"),
        ({"nodes": [{"switch": "c"}]}, "there is no switch 'c'(?=; fix: use some of: a, b)"),
        ({"nodes": [{}]}, r"nodes\[0\] lacks switch"),
    ],
)
def test_files_with_errors(tmp_path, change, said):
    path = tmp_path / "topology.json"
    path.write_text(json.dumps({**LINE, **change} if isinstance(change, dict) else change))
    with pytest.raises(HikyakuError, match=f"{said}.*; fix: "):
        wiring.parse(str(path))


def test_file_that_is_no_json(tmp_path):
    path = tmp_path / "topology.json"
    path.write_text("{")
    with pytest.raises(HikyakuError, match=r"cannot read.*; fix: see the form"):
        wiring.parse(str(path))


# ---- the switches --------------------------------------------------------------------------------


def ofctl(lab: Lab, *arguments: str) -> str:
    command, switch, *rest = arguments
    socket = ovs.directory(lab.topology) / "run" / f"{switch}.mgmt"
    return process.run(["ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{socket}", *rest])


def connect(lab: Lab) -> None:
    """A lab of LINE: switches a and b, with node0 and node1 at the ends."""
    for switch in ("a", "b"):
        ofctl(lab, "add-flow", switch, "in_port=1,actions=output:2")
        ofctl(lab, "add-flow", switch, "in_port=2,actions=output:1")


def addresses(netns: str) -> list[str]:
    """Those of a node's links to switches."""
    return [link["mac"] for link in network.links(netns) if link["name"] != "ctl0"]


@pytest.fixture
def wire_lab(lab_name, tmp_path):
    path = tmp_path / "topology.json"
    nodes = [{"switch": "a", "mbit": 100}, {"switch": "b"}]
    path.write_text(json.dumps({**LINE, "nodes": nodes}))
    with Lab.up(wire="ovs", switches=str(path), name=lab_name("wire")) as lab:
        yield lab
    assert network.namespaces(lab_id(lab.name)) == []
    assert process.find(tag=f"HIKYAKU_LAB_ID={lab_id(lab.name)}") == []


def test_mpirun_over_switches_and_what_the_links_count(wire_lab):
    lab = wire_lab
    before = {row["link"]: row for row in links.counters(lab.topology)}
    assert all(row["a_to_b"]["frames"] == 0 for row in before.values()), "it forwards unasked"
    connect(lab)
    assert lab.mpirun(2, ["hostname"], tcp=True, timeout=60).returncode == 0
    t = lab.topology
    for netns, device in ((t.nodes[0].netns, "tcp0"), (t.switch_netns, "a-node0")):
        shaped = process.run(["tc", "-n", netns, "qdisc", "show", "dev", device])
        assert "tbf" in shaped
        assert "100Mbit" in shaped

    frames = 50
    send = (
        "import socket; s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('tcp0',0))\n"
        f"for i in range({frames}): s.send(bytes(12)+b'\\x88\\xb5'+bytes(986))"
    )
    before = {row["link"]: row for row in links.counters(lab.topology)}
    process.run(lab.exec_argv("node0", ["/usr/bin/python3", "-c", send]))

    def carried(link: str, way: str) -> int:
        now = {row["link"]: row for row in links.counters(lab.topology)}
        return now[link][way]["bytes"] - before[link][way]["bytes"]

    process.wait_until(
        "all frames to cross", lambda: carried("node1:tcp0-b", "b_to_a") >= frames * 1000, 20
    )
    for link, way in (("node0:tcp0-a", "a_to_b"), ("a-b", "a_to_b"), ("node1:tcp0-b", "b_to_a")):
        assert frames * 1000 <= carried(link, way) < frames * 1100


ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7))
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    data, sender = s.recvfrom(99)
    s.sendto(data, sender)
"""
ASK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect((sys.argv[1], 7))
for i in range(int(sys.argv[2])):
    s.send(bytes([i]))
    assert s.recv(99) == bytes([i])
"""


def test_packets_for_tcp0_arrive_by_tcp0(wire_lab):
    """Its segment is also that of hk0, which must not answer ARP for it."""
    lab, asked, python = wire_lab, 5, "/usr/bin/python3"
    for switch in ("a", "b"):
        ofctl(lab, "add-flow", switch, "actions=flood")
    asker, answerer = lab.topology.nodes
    before = {row["link"]: row for row in links.counters(lab.topology)}
    argv = lab.exec_argv(answerer.name, [python, "-c", ECHO, str(asked)])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as echo:
        try:
            assert echo.stdout.readline() == "ready\n"
            ask = [python, "-c", ASK, answerer.tcp_ip, str(asked)]
            process.run(lab.exec_argv(asker.name, ask), timeout=60)
            assert echo.wait(timeout=20) == 0
        finally:
            echo.kill()
    sent = {
        row["link"]: row["a_to_b"]["frames"] - before[row["link"]]["a_to_b"]["frames"]
        for row in links.counters(lab.topology)
    }
    assert sent["node0:hk0-a"] == sent["node1:hk0-b"] == 0
    assert min(sent["node0:tcp0-a"], sent["node1:tcp0-b"]) > asked
    for node, other in ((asker, answerer), (answerer, asker)):
        (known,) = json.loads(
            process.run(["ip", "-n", node.netns, "-json", "neigh", "show", other.tcp_ip])
        )
        tcp0 = {link["name"]: link["mac"] for link in network.links(other.netns)}["tcp0"]
        assert (known["dev"], known["lladdr"]) == ("tcp0", tcp0)


def test_no_node_has_the_address_of_a_tag(wire_lab):
    """A rank with such an address would end its job."""
    macs = [mac for node in wire_lab.topology.nodes for mac in addresses(node.netns)]
    assert len(set(macs)) == 4
    assert all(mac.startswith("02:") for mac in macs)


def test_a_cut_cable_is_seen_at_both_ends(wire_lab):
    lab = wire_lab
    links.set_link(lab.topology, "b-a", up=False)
    for switch in ("a", "b"):
        process.wait_until(
            "the port to be down", lambda s=switch: "LINK_DOWN" in ofctl(lab, "show", s), 20
        )
    assert not next(r for r in links.counters(lab.topology) if r["link"] == "a-b")["up"]
    links.set_link(lab.topology, "a-b", up=True)
    assert next(r for r in links.counters(lab.topology) if r["link"] == "a-b")["up"]
    with pytest.raises(HikyakuError, match="use one of: a-b, node0:tcp0-a"):
        links.set_link(lab.topology, "a-z", up=False)


def test_a_cut_cuts_what_it_names(wire_lab):
    """All links of a node, or that of one interface. The latter cut all, too."""
    lab = wire_lab

    def cut() -> list[str]:
        return [row["link"] for row in links.counters(lab.topology) if not row["up"]]

    both = ["node0:tcp0-a", "node0:hk0-a"]
    for name, names in (("node0:hk0-a", both[1:]), ("node0-a", both)):
        assert links.set_link(lab.topology, name, up=False) == name
        assert cut() == names
        links.set_link(lab.topology, name, up=True)
        assert cut() == []
    with pytest.raises(HikyakuError, match="use one of: node0:tcp0-a, node0:hk0-a"):
        links.set_link(lab.topology, "node0:hk7-a", up=False)


def test_links_that_lose_frames(wire_lab, hikyaku):
    """Frames are lost at a switch's and at a node's link; the same frames with the same seed."""
    lab, sent = wire_lab, 300
    connect(lab)

    def carried() -> dict[str, dict]:
        return {row["link"]: row for row in links.counters(lab.topology)}

    def run() -> tuple[int, int]:
        before = carried()
        frames.send(lab, "node0", "ff:ff:ff:ff:ff:ff", sent, 0.001)
        found = {}

        def counted() -> bool:
            for name, way in (
                ("node0:tcp0-a", "a_to_b"),
                ("a-b", "a_to_b"),
                ("node1:tcp0-b", "b_to_a"),
            ):
                now, then = carried()[name][way], before[name][way]
                found[name] = {k: now[k] - then[k] for k in now}
            return (
                found["node0:tcp0-a"]["frames"] == sent
                and found["a-b"]["frames"] == sent - found["node0:tcp0-a"]["lost"]
                and found["node1:tcp0-b"]["frames"] == found["a-b"]["frames"] - found["a-b"]["lost"]
            )

        process.wait_until("all frames to be carried or lost", counted, 20)
        return found["node0:tcp0-a"]["lost"], found["a-b"]["lost"]

    lossy = [*hikyaku, "lab", "lose", "--lab", lab.name]
    seen = []
    for seed in ("1", "1", "2"):
        process.run([*lossy, "20", "node0-a", "b-a", "--seed", seed])
        seen.append(run())
    assert seen[0] == seen[1] != seen[2]
    assert all(sent / 20 < lost < sent / 2 for pair in seen for lost in pair)
    own = loss.losing(lab.topology)
    process.run([*lossy, "0"])
    assert process.run([*lossy, "20", "node0:tcp0-a"]).startswith("1 link loses 20 % of ")
    assert len(loss.losing(lab.topology)) == 1 < len(own)
    shown = [*hikyaku, "lab", "links", "--lab", lab.name]
    table = process.run(shown)
    assert "lose %" in table
    (row,) = (line for line in table.splitlines() if "node0:tcp0-a" in line)
    assert row.split("│")[3].strip() == "20"
    listed = json.loads(process.run([*shown, "--json"]))
    assert {each["link"]: each["loses"] for each in listed if each["loses"]} == {
        "node0:tcp0-a": 0.2
    }
    assert process.run([*lossy, "0"]).startswith(f"{len(listed)} links lose 0 % of ")
    assert "lose %" not in process.run(shown)
    assert run() == (0, 0)
    with pytest.raises(HikyakuError, match=r"there is no link 'x'; .*: a-b, node0:tcp0-a"):
        process.run([*lossy, "1", "x"])


def test_a_killed_up_leaves_nothing_that_down_does_not_find(lab_name, tmp_path, python_script):
    name = lab_name("ovs-killed")
    script = python_script(
        tmp_path / "up.py",
        "import time\n"
        "from hikyaku.lab import Lab\n"
        f"Lab.up(wire='ovs', switches='leaf-spine:1x2x1', name={name!r})\n"
        "print('up', flush=True)\n"
        "time.sleep(300)\n",
    )
    tool = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    assert tool.stdout.readline() == "up\n"
    tool.send_signal(signal.SIGKILL)
    tool.wait(timeout=20)
    lab = Lab.find(name)
    home = ovs.directory(lab.topology)
    daemons = process.find(tag=f"HIKYAKU_LAB_ID={lab_id(name)}")
    commands = " ".join(process.command_line(pid) for pid in daemons)
    assert "ovs-vswitchd" in commands
    assert "ovsdb-server" in commands
    (lab.directory / "lab.json").unlink()
    assert down(name)
    assert not home.exists()
    assert not any(process.alive(pid) for pid in daemons)
    assert network.namespaces(lab_id(name)) == []


def test_wire_and_topology_belong_together(lab_name):
    for wrong in ({"wire": "ovs"}, {"wire": "veth", "switches": "leaf-spine:1x1x2"}):
        with pytest.raises(HikyakuError, match="needs a topology of switches"):
            Lab.up(name=lab_name("wrong"), **wrong)


def test_without_open_vswitch_it_says_what_to_install(lab_name, monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(HikyakuError, match=r"ovs-vswitchd.*install-deps"):
        Lab.up(wire="ovs", switches="leaf-spine:1x1x2", name=lab_name("none"))
