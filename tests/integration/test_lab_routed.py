# SPDX-License-Identifier: BSD-3-Clause
"""Jobs over UDP sockets through a router, whose paths may carry less than the nodes' interfaces."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hikyaku import process
from hikyaku.lab import Lab, kill, network

pytestmark = pytest.mark.one_core

MTU = 1400


@contextmanager
def narrow(lab: Lab) -> Iterator[None]:
    """The links to the nodes carry less meanwhile, which it tells to those who send more."""

    def route(options: str) -> None:
        for n in lab.topology.nodes:
            to = [f"route replace {ip} dev tcp{n.index}{options}" for ip in (n.tcp_ip, n.tcp_ip6)]
            network.batch(lab.topology.router_netns[lab.topology.router_of(n)], to)

    route(f" mtu lock {MTU}")
    try:
        yield
    finally:
        route("")
        for node in lab.topology.nodes:
            for family in ("-4", "-6"):
                process.run(["ip", "-n", node.netns, family, "route", "flush", "cache"])


XDP = "udp:addr=tcp0,xdp=1"
PORTS = ["udp:addr=tcp0", "udp:addr=tcp0,ip=6", XDP, "udp:addr=tcp0,ip=6,xdp=1"]


def with_port(port: str, program: str) -> list[str]:
    """A shell that names the port to its rank, and then becomes @program."""
    return ["sh", "-c", f'export OMPI_MCA_btl_hikyaku_port="{port}"; exec "$0"', program]


def test_addresses_of_ipv6_as_text(get_lab, program):
    job = with_port("udp:addr=fd78::$((OMPI_COMM_WORLD_RANK + 1))", program("tests/mpi/mpi_digest"))
    done = get_lab(2, "routed", 1).mpirun(2, job)
    assert done.returncode == 0, done.stderr
    assert "port udp:addr=fd78::1," in done.stderr


def test_rtc_on_a_port_of_sockets(get_lab, program):
    """Its own backend serves it."""
    lab = get_lab(2, "routed", 1)
    job = [program("examples/sum"), "--messages", "1000"]
    env = {"HIKYAKU_RTC_BACKEND": "dpdk", "HIKYAKU_RTC_ADDRESS_DPDK": "udp:addr=tcp0"}
    done = lab.mpirun(2, job, env=env, timeout=60)
    assert done.returncode != 0
    assert "fix: use backend udp with address tcp0" in done.stderr
    done = lab.mpirun(2, job, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "0 wrong, 0 lost" in done.stdout


def test_ranks_of_both_kinds(get_lab, program):
    """The rank that notices it first names the other, and the fix."""
    port = "udp:addr=tcp0,ip=$((4 + 2 * OMPI_COMM_WORLD_RANK))"
    done = get_lab(2, "routed", 1).mpirun(2, with_port(port, program("tests/mpi/mpi_digest")))
    assert done.returncode != 0
    said = [
        f"rank {rank} on node{rank}: port udp:addr=tcp0,ip={kind} is of IPv{kind}, and that of the "
        "peer is not; fix: add ip=4 or ip=6"
        for rank, kind in ((1, 4), (0, 6))
    ]
    assert any(each in done.stderr for each in said), done.stderr


def sent_by_kernel(lab: Lab, name: str) -> int:
    """Datagrams of UDP that the kernel of a node has sent."""
    lines = process.run(lab.exec_argv(name, ["cat", "/proc/net/snmp", "/proc/net/snmp6"]))
    (keys, values) = (line.split() for line in lines.splitlines() if line.startswith("Udp:"))
    (v6,) = (line.split()[1] for line in lines.splitlines() if line.startswith("Udp6OutDatagrams"))
    return int(values[keys.index("OutDatagrams")]) + int(v6)


@pytest.mark.parametrize("port", PORTS[2:])
def test_frames_do_not_go_through_the_kernel(get_lab, program, port):
    """It sends the first to each peer, and an empty one in each two seconds."""
    lab = get_lab(2, "routed", 1)
    before = sent_by_kernel(lab, "node0"), routed_packets(lab)
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    done = lab.mpirun(2, argv, mca={"btl_hikyaku_port": port})
    assert "PASS p2p_random" in done.stdout, done.stderr
    assert routed_packets(lab) - before[1] > 1000
    assert sent_by_kernel(lab, "node0") - before[0] < 100


@pytest.mark.parametrize("ip", ["", ",ip=6"])
def test_a_rank_without_the_helper(get_lab, program, ip):
    """The datagrams are the same, however they are sent."""
    port = f"udp:addr=tcp0{ip},xdp=$OMPI_COMM_WORLD_RANK"
    job = ["sh", "-c", f'export OMPI_MCA_btl_hikyaku_port="{port}"; exec "$@"', "sh"]
    argv = [*job, program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    done = get_lab(2, "routed", 1).mpirun(2, argv)
    assert "PASS p2p_random" in done.stdout, done.stderr


def routed_packets(lab: Lab) -> int:
    argv = ["ip", "-n", lab.topology.switch_netns, "-json", "-stats", "link", "show", "tcp0"]
    return json.loads(process.run(argv))[0]["stats64"]["rx"]["packets"]


def test_nodes_have_networks_of_their_own(get_lab):
    """Ethernet frames reach the router alone."""
    lab = get_lab(2, "routed", 1)
    addresses = json.loads(process.run(lab.exec_argv("node0", ["ip", "-json", "address"])))
    (tcp0,) = (link for link in addresses if link["ifname"] == "tcp0")
    lengths = {a["family"]: a["prefixlen"] for a in tcp0["addr_info"] if a["scope"] == "global"}
    assert lengths == {"inet": 32, "inet6": 128}
    macs = {link["mac"] for n in lab.topology.nodes for link in network.links(n.netns)}
    job = lab.mpirun(2, ["hostname"], tcp=True)
    assert sorted(job.stdout.split()) == ["node0", "node1"]
    known = json.loads(
        process.run(lab.exec_argv("node0", ["ip", "-json", "neighbour", "show", "dev", "tcp0"]))
    )
    assert all(n.get("lladdr") not in macs for n in known)


@pytest.mark.parametrize("port", [None, *PORTS])
def test_a_job_through_a_router(get_lab, program, port):
    lab = get_lab(2, "routed", 1)
    mca = {"btl_hikyaku_port": port} if port else {}
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    done = lab.mpirun(2, argv, tcp=not port, mca=mca)
    assert done.returncode == 0, done.stderr
    assert "PASS p2p_random" in done.stdout
    assert "carries packets" not in done.stderr


@pytest.mark.parametrize("port", PORTS[:3])
def test_a_path_that_carries_less(get_lab, program, port):
    """The kernel learns it from the router. The job is told once a node, with the fix."""
    lab = get_lab(2, "routed", 1)
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    node = lab.node("node1")
    with narrow(lab):
        done = lab.mpirun(2, argv, mca={"btl_hikyaku_port": port}, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "PASS p2p_random" in done.stdout
        to = node.tcp_ip6 if "ip=6" in port else node.tcp_ip
        assert done.stderr.count(f"the path to {to} carries packets of {MTU} bytes") == 1
        assert done.stderr.count(f"fix: on all nodes {port},mtu={MTU}") == 2
        mca = {"btl_hikyaku_port": f"{port},mtu={MTU}"}
        done = lab.mpirun(2, argv, mca=mca, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "carries packets" not in done.stderr


@pytest.mark.parametrize("port", [PORTS[0], XDP])
def test_a_path_that_shrinks_under_way(get_lab, program, port):
    lab = get_lab(2, "routed", 1)
    # on a busy machine the path may shrink two seconds after we have asked for it
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "60", "--timeout", "100"]
    results = []

    def run() -> None:
        results.append(lab.mpirun(2, argv, mca={"btl_hikyaku_port": port}, timeout=130))

    runner = threading.Thread(target=run)
    before = routed_packets(lab)
    runner.start()
    try:
        process.wait_until("frames", lambda: routed_packets(lab) > before + 200, 60)
        with narrow(lab):
            assert results == [], "the job ended before, so the test shows nothing"
            runner.join(timeout=150)
    finally:
        runner.join(timeout=150)
    assert results[0].returncode == 0, results[0].stderr
    assert "PASS p2p_random" in results[0].stdout
    assert "carries packets of 1400 bytes" in results[0].stderr


def packets_by_way(lab: Lab) -> list[int]:
    """Of both directions."""
    count = dict.fromkeys(network.WAYS, 0)
    for netns in lab.topology.router_netns:
        for link in json.loads(process.run(["ip", "-n", netns, "-json", "-stats", "link", "show"])):
            if link["ifname"] in count:
                count[link["ifname"]] += link["stats64"]["tx"]["packets"]
    return list(count.values())


@pytest.mark.parametrize("port", PORTS)
def test_several_sockets_take_several_ways(get_lab, program, port):
    """A job has eight flows. Both directions of a flow take one way, since the kernel's hash sorts
    addresses and ports. So one job of 128 has all on one way by chance, two jobs in 32000 have."""
    lab = get_lab(2, "routed", 1)
    argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "5"]
    before = packets_by_way(lab)
    for _ in range(2):
        done = lab.mpirun(2, argv, mca={"btl_hikyaku_port": "+".join([port] * 8)})
        assert done.returncode == 0, done.stderr
        assert "PASS p2p_random" in done.stdout
    ways = [now - then for now, then in zip(packets_by_way(lab), before, strict=True)]
    assert min(ways) > sum(ways) / 40, ways


def test_the_way_comes_back_with_the_link(get_lab, hikyaku, program):
    lab = get_lab(2, "routed", 1)
    node = lab.node("node1")
    kill.cut_wire(lab.topology, node, kill.wire_links(lab.topology, node), 0)
    for port in PORTS:
        argv = [program("tests/mpi/mpi_p2p_random"), "--rounds", "1"]
        done = lab.mpirun(2, argv, mca={"btl_hikyaku_port": port})
        assert "PASS p2p_random" in done.stdout, done.stderr
