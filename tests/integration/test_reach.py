# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku reach`: between two nodes of a lab, on good and on faulty wires, and its conclusions."""

import json
import subprocess

import pytest

from execute import execute
from hikyaku import reach
from hikyaku.cli.reach import _known_to_a_lab
from hikyaku.errors import HikyakuError


def call(hikyaku: list[str], *arguments: str) -> subprocess.CompletedProcess:
    return execute([*hikyaku, "reach", *arguments], code=None, timeout=200)


def findings(hikyaku, lab, spec: str, *more: str) -> tuple[int, list[dict]]:
    done = call(hikyaku, "--lab", lab.name, "--json", "-p", spec, *more)
    return done.returncode, json.loads(done.stdout)["findings"]


@pytest.fixture
def wire(get_lab):
    return get_lab(2, "veth", 1)


@pytest.mark.alone
def test_nodes_of_several_ranks(hikyaku, get_lab):
    """Both sides must not start on one node."""
    code, found = findings(hikyaku, get_lab(2, "veth", 2), "af_packet:iface=hk0")
    assert code == 0
    assert found[0]["text"].startswith("node0 to node1: ")


@pytest.mark.alone
def test_a_good_wire(hikyaku, wire):
    status, (there, back, latency) = findings(hikyaku, wire, "af_xdp:iface=hk0")
    assert status == 0
    assert there["ok"]
    assert there["text"].startswith("node0 to node1: frames pass, up to 3520 bytes; ")
    assert back["text"].startswith("node1 to node0: frames pass, up to 3520 bytes; ")
    assert "64 bytes take " in latency["text"]


@pytest.mark.one_core
def test_a_wire_that_works_one_way_only(hikyaku, wire):
    """All frames that the second side sends are lost."""
    spec = "af_packet:iface=hk0;faults=drop={rank}"
    status, (there, back) = findings(hikyaku, wire, spec, "--timeout", "1.5")
    assert status == 1
    assert there["ok"]
    assert not back["ok"]
    assert back["text"] == "node1 to node0: no frame passes"
    assert "EtherTypes 0x88B5" in back["fix"]


@pytest.mark.one_core
def test_udp(hikyaku, get_lab):
    """UDP sockets have no broadcast: MPI's ranks tell each other the addresses."""
    lab = get_lab(2, "udp", 1)
    status, (short, long) = findings(hikyaku, lab, "udp:addr=tcp0")
    assert status == 0
    assert short["text"].startswith("messages of 8 bytes pass both ways, in ")
    assert long["text"].startswith("messages of 65536 bytes pass both ways, in ")
    spec = "udp:addr=tcp0;faults=drop=1"
    status, (silence,) = findings(hikyaku, lab, spec, "--timeout", "1.5")
    assert status == 1
    assert silence["text"].endswith(" has not answered for 1.5 s")
    assert "firewalls of both nodes" in silence["fix"]


@pytest.mark.one_core
def test_udp_port_that_does_not_open(hikyaku, get_lab):
    done = call(hikyaku, "--lab", get_lab(2, "udp", 1).name, "-p", "udp:addr=tcp9")
    assert done.returncode == 1
    assert "there is no interface 'tcp9' with an IP address; fix: use one of: " in done.stderr


def test_port_that_does_not_open(hikyaku, wire):
    done = call(hikyaku, "--lab", wire.name, "-p", "af_xdp:iface=eth77")
    assert done.returncode == 1
    assert "hikyaku: node" in done.stderr
    assert "there is no interface eth77 here; fix: " in done.stderr


def side(host: str, frame_max: int = 9014, largest: int = 9014, **more) -> dict:
    sizes = [
        {"size": n, "sent": 50, "received": 50 if n <= largest else 0}
        for n in (64, 1514, 9014)
        if n <= frame_max
    ]
    more = {"release": "1", "receives": True, **more}
    return {"host": host, "frame_max": frame_max, "sizes": sizes, **more}


def said(a: dict, b: dict) -> list[str]:
    return [line.text for line in reach.judge(a, b) if not line.ok]


def test_conclusions():
    a, b = side("a"), side("b")
    assert said(a, b) == []
    assert said(a, side("b", largest=1514)) == [
        "a to b: frames of 9014 bytes do not pass, though both ports take 9014"
    ]
    assert said(a, side("b", frame_max=1514)) == [
        "the ports differ: frames of 9014 bytes at a, 1514 at b"
    ]
    assert said(a, side("b", release="2")) == ["releases differ: 1 at a, 2 at b"]
    assert said(a, side("b", receives=False)) == ["a to b: no frame passes"]
    assert said(side("a", largest=0), b) == [
        "b to a: only a few frames pass, and none of the test frames"
    ]


def test_lost_frames():
    b = side("b")
    b["sizes"][0]["received"] = b["sizes"][1]["received"] = 1
    assert said(side("a"), b) == ["a to b: frames pass, up to 9014 bytes; 65.3% of 150 lost"]


def test_sides_that_did_not_run():
    with pytest.raises(HikyakuError, match=r"did not run both sides.*ssh: no route"):
        reach.reach("af_xdp:iface=a", lambda _args, _limit: (1, "", "ssh: no route"))
    with pytest.raises(HikyakuError, match=r"ssh: no route; fix: see that `mpirun --host A,B"):
        reach.reach("udp:addr=a", lambda _args, _limit: (255, "", "ssh: no route"))
    with pytest.raises(HikyakuError, match="no network to try"):
        reach.reach("memif:dir=/x", lambda _args, _limit: (0, "", ""))


def test_two_hosts_are_required(hikyaku):
    done = call(hikyaku, "-p", "af_xdp:iface=a", "one")
    assert done.returncode == 1
    assert "fix: name both, such as: " in done.stderr


def test_the_command_of_mpirun(monkeypatch):
    """It begins with the user's own command, and names both hosts."""
    seen = []
    done = subprocess.CompletedProcess([], 3, "out", "err")
    monkeypatch.setattr(reach.subprocess, "run", lambda argv, **_: seen.append(argv) or done)
    launch = reach.by_mpirun("mpirun --mca oob_tcp_if_include eth0", ("n1", "n2"))
    assert launch(["-np", "1", "x"], 5) == (3, "out", "err")
    assert seen[0][:5] == ["mpirun", "--mca", "oob_tcp_if_include", "eth0", "--host"]
    assert seen[0][5:] == ["n1:1,n2:1", "-np", "1", "x"]


def test_what_mpirun_said_first_is_shown():
    """Open MPI adds twenty lines about what may be wrong."""
    said = (
        "ssh: Could not resolve hostname a: not known\n" + "-" * 74 + "\nORTE was unable\nto start"
    )
    with pytest.raises(HikyakuError, match=r"hostname a: not known / ORTE was unable; fix: "):
        reach.reach("af_xdp:iface=eth1", lambda *_: (255, "", said))


def test_nodes_of_a_lab_that_ssh_does_not_find(get_lab):
    def launch(*_: object) -> tuple[int, str, str]:
        return 255, "", "ssh: Could not resolve hostname node1: Name or service not known"

    names = tuple(node.name for node in get_lab(2, "memif").topology.nodes)
    with pytest.raises(HikyakuError, match=r"are nodes of lab '.*; fix: give --lab "):
        _known_to_a_lab(names, launch)([], 1.0)
    assert _known_to_a_lab(("a", "b"), launch)([], 1.0)[0] == 255
