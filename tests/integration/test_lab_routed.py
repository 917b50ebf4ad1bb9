# SPDX-License-Identifier: BSD-3-Clause
"""Jobs over UDP sockets through a router, whose paths may carry less than the nodes' interfaces."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hikyaku import process
from hikyaku.lab import Lab, kill, network

pytestmark = pytest.mark.alone

MTU = 1400


@contextmanager
def narrow(lab: Lab) -> Iterator[None]:
    """The router's links carry less meanwhile, which it tells to those who send more."""

    def route(options: str) -> None:
        lines = [f"route replace {n.tcp_ip} dev tcp{n.index}{options}" for n in lab.topology.nodes]
        network.batch(lab.topology.switch_netns, lines)

    route(f" mtu lock {MTU}")
    try:
        yield
    finally:
        route("")
        for node in lab.topology.nodes:
            network.batch(node.netns, ["route flush cache"])


def routed_packets(lab: Lab) -> int:
    argv = ["ip", "-n", lab.topology.switch_netns, "-json", "-stats", "link", "show", "tcp0"]
    return json.loads(process.run(argv))[0]["stats64"]["rx"]["packets"]


def test_nodes_have_networks_of_their_own(get_lab):
    """Ethernet frames reach the router alone."""
    lab = get_lab(2, "routed", 1)
    addresses = json.loads(process.run(lab.exec_argv("node0", ["ip", "-json", "address"])))
    (tcp0,) = (link for link in addresses if link["ifname"] == "tcp0")
    assert [a["prefixlen"] for a in tcp0["addr_info"]] == [32]
    macs = {link["mac"] for n in lab.topology.nodes for link in network.links(n.netns)}
    job = lab.mpirun(2, ["hostname"], tcp=True)
    assert sorted(job.stdout.split()) == ["node0", "node1"]
    known = json.loads(
        process.run(lab.exec_argv("node0", ["ip", "-json", "neighbour", "show", "dev", "tcp0"]))
    )
    assert all(n.get("lladdr") not in macs for n in known)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_job_through_a_router(get_lab, program, tcp):
    lab = get_lab(2, "routed", 1)
    done = lab.mpirun(2, [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"], tcp=tcp)
    assert done.returncode == 0, done.stderr
    assert "PASS p2p_random" in done.stdout
    assert "carries packets" not in done.stderr


def test_a_path_that_carries_less(get_lab, program):
    """The kernel learns it from the router. The job is told once a node, with the fix."""
    lab = get_lab(2, "routed", 1)
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    with narrow(lab):
        done = lab.mpirun(2, argv, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "PASS p2p_random" in done.stdout
        fix = f"udp:addr=tcp0,mtu={MTU}"
        text = f"the path to {lab.node('node1').tcp_ip} carries packets of {MTU} bytes"
        assert done.stderr.count(text) == 1
        assert done.stderr.count(f"fix: on all nodes {fix}") == 2
        done = lab.mpirun(2, argv, mca={"btl_hikyaku_port": fix}, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "carries packets" not in done.stderr


def test_a_path_that_shrinks_under_way(get_lab, program):
    lab = get_lab(2, "routed", 1)
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "40", "--timeout", "100"]
    results = []
    runner = threading.Thread(target=lambda: results.append(lab.mpirun(2, argv, timeout=130)))
    before = routed_packets(lab)
    runner.start()
    try:
        process.wait_until("frames", lambda: routed_packets(lab) > before + 2000, 60)
        with narrow(lab):
            assert results == [], "the job ended before, so the test shows nothing"
            runner.join(timeout=150)
    finally:
        runner.join(timeout=150)
    assert results[0].returncode == 0, results[0].stderr
    assert "PASS p2p_random" in results[0].stdout
    assert "carries packets of 1400 bytes" in results[0].stderr


def test_the_way_comes_back_with_the_link(get_lab, hikyaku, program):
    lab = get_lab(2, "routed", 1)
    node = lab.node("node1")
    kill.cut_wire(lab.topology, node, kill.wire_links(lab.topology, node), 0)
    done = lab.mpirun(2, [program("tests/mpi/mpi_p2p_random"), "--rounds", "1"])
    assert "PASS p2p_random" in done.stdout, done.stderr
