# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on AF_XDP sockets of hikyaku-helper: several on one interface, without rights, beside the
kernel's own traffic. tests/unit/helper has the cases of single frames and wrong requests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from hikyaku import process
from hikyaku.checkout import ROOT, built
from hikyaku.lab import Lab, kill
from mpi_programs import assert_passed

pytestmark = pytest.mark.one_core

WHERE = ("veth", 2, 2)
ONE_PORT = {"btl_hikyaku_port": "af_xdp:iface=hk0"}
NAMED_BY_NOBODY = {"btl_hikyaku_port": "auto", "btl_hikyaku_if_include": "tcp0"}
FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"


@pytest.mark.parametrize(
    "command", ["p2p_random --rounds 10", "rma_random --rounds 8", "threads", "hand_over"]
)
def test_ranks_of_a_node_share_an_interface(run, command):
    result = run(WHERE, command, mca=ONE_PORT)
    assert_passed(result, command)
    assert "port af_xdp:iface=hk0, mode inline" in result.stderr


def test_ranks_that_share_an_interface_with_faults(run):
    command = "p2p_random --rounds 10"
    mca = ONE_PORT | {"btl_hikyaku_protection": "crc"}
    assert_passed(run(WHERE, command, faults=FAULTS, mca=mca), command)


def exec_in(netns: str, *argv: str) -> subprocess.Popen:
    command = ["ip", "netns", "exec", netns, *argv]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def is_there(netns: str) -> bool:
    """A helper, or what the kernel has not removed of one that has ended."""
    return "@hikyaku-helper" in process.run(["ip", "netns", "exec", netns, "cat", "/proc/net/unix"])


def start_helper(netns: str) -> subprocess.Popen:
    """One of root's, which stays. One that the ranks of a former test have started ends first: it
    may have no rights."""
    process.wait_until("the former helper to end", lambda: not is_there(netns), 30)
    helper = exec_in(netns, str(built("src/helper/hikyaku-helper")))
    process.wait_until("the helper to listen", lambda: is_there(netns), 30)
    return helper


@contextlib.contextmanager
def helpers_of(lab: Lab) -> Iterator[None]:
    """A helper on each node of @lab."""
    running = [start_helper(node.netns) for node in lab.topology.nodes]
    yield
    for each in running:
        assert each.poll() is None
        each.terminate()
        assert each.wait(timeout=20) == 0


@pytest.fixture
def helpers(get_lab) -> Iterator[None]:
    with helpers_of(get_lab(2, "veth", 2)):
        yield


@pytest.mark.usefixtures("helpers")
def test_ranks_without_capabilities(run):
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    command = "p2p_random --rounds 5"
    assert_passed(run(WHERE, command, mca=ONE_PORT, before=bare), command)


def test_the_port_that_nobody_names_uses_the_helper(run, get_lab):
    """On a veth, too: AF_XDP has the short messages, and a socket the long ones."""
    command = "p2p_random --rounds 5"
    with helpers_of(get_lab(2, "udp", 1)):
        result = run(("udp", 2, 1), command, mca=NAMED_BY_NOBODY)
    assert_passed(result, command)
    assert "port udp:addr=tcp0,xdp=1+udp:addr=tcp0, mode inline" in result.stderr


def test_without_capabilities_and_without_a_helper(run):
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    result = run(WHERE, "digest", mca=ONE_PORT, before=bare, limit=60)
    assert result.returncode != 0
    assert (
        "port af_xdp:iface=hk0: no permission for AF_XDP on hk0; fix: have the administrator start "
        "hikyaku-helper or give it rights (docs/ports.md)\n"  # a UDP socket needs an IP address
    ) in result.stderr


def has_program(netns: str, iface: str = "hk0") -> bool:
    (link,) = json.loads(process.run(["ip", "-n", netns, "-json", "-d", "link", "show", iface]))
    return "xdp" in link


@contextlib.contextmanager
def endless_job(lab: Lab, program: Callable, ranks: int, iface: str, **mca: str) -> Iterator:
    """Runs until the block ends, which may wait for its end. It has its ports when this starts."""
    settings = {"btl_hikyaku_port": f"af_xdp:iface={iface}", **mca}
    options = [word for name, value in settings.items() for word in ("--mca", name, value)]
    endless = [program("tests/mpi/mpi_hand_over"), "--rounds", "1000000"]
    command = [ROOT / "hikyaku", "lab", "mpirun", "--lab", lab.name, "-np", str(ranks)]
    command += ["--map-by", "node"]
    job = subprocess.Popen(
        [*command, *options, *endless], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = iter(job.stderr.readline, "")  # one may say that ranks take turns
        assert any(f"{ranks} ranks on 2 nodes, port af_xdp:iface={iface}" in line for line in lines)
        yield job
    finally:
        job.terminate()
        job.wait(timeout=60)


@pytest.mark.usefixtures("helpers")
def test_a_killed_job_leaves_no_program(get_lab, program):
    """Of the ranks, too, since the helper lives on."""
    lab: Lab = get_lab(2, "veth", 2)
    with endless_job(lab, program, 4, "hk0"):
        pass
    for node in lab.topology.nodes:
        process.wait_until("no program", lambda node=node: not has_program(node.netns), 30)


def test_a_helper_outlives_the_job_that_started_it(get_lab, program):
    """The lab ends all processes whose environment names the job. One was the helper."""
    lab: Lab = get_lab(2, "veth", 2)
    with contextlib.ExitStack() as first:
        first.enter_context(endless_job(lab, program, 2, "hk0"))
        stopped = kill.ranks(lab.topology)  # or they would keep the cores from those of the second
        for rank in stopped:
            os.kill(rank.pid, signal.SIGSTOP)
        with endless_job(lab, program, 2, "hk1"):
            for rank in stopped:
                os.kill(rank.pid, signal.SIGCONT)
            first.close()
            assert all(has_program(node.netns, "hk1") for node in lab.topology.nodes)
    for node in lab.topology.nodes:
        process.wait_until("its end", lambda node=node: not has_program(node.netns, "hk1"), 30)


def test_a_helper_that_ends_under_a_job(get_lab, program):
    """The ranks learn of it when they miss an answer."""
    lab: Lab = get_lab(2, "veth", 2)
    helper = start_helper(lab.topology.nodes[1].netns)
    with endless_job(lab, program, 2, "hk0", btl_hikyaku_peer_timeout_ms="1500") as job:
        helper.terminate()
        helper.wait(timeout=20)
        said = job.communicate(timeout=60)[1]
    assert job.returncode != 0
    assert (
        "rank 0 on node0 has not answered for 1.5 s: the hikyaku-helper that serves port "
        "af_xdp:iface=hk0 has ended"
    ) in said


# Sends and receives 64 bytes @N times by TCP.
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 7777), timeout=60) as s:
    for i in range(int(sys.argv[2])):
        sent = i.to_bytes(64, "big")
        s.sendall(sent)
        got = b""
        while len(got) < 64:
            got += s.recv(64 - len(got))
        assert got == sent
print("all")
"""
SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 7777)) as listening:
    print("ready", flush=True)
    s, _ = listening.accept()
    while data := s.recv(64):
        s.sendall(data)
"""


def test_the_kernels_traffic_goes_on(get_lab, program):
    """TCP by the interface of a job that sends all the time."""
    lab: Lab = get_lab(2, "veth", 2)
    one, two = lab.topology.nodes
    for node, address in ((one, "10.77.0.1/24"), (two, "10.77.0.2/24")):
        process.run(["ip", "-n", node.netns, "address", "replace", address, "dev", "hk0"])
    bench = [program("bench/mpi_bench"), "--sizes", "8,1M", "--metrics", "bandwidth_MBps"]
    results = []
    job = threading.Thread(
        target=lambda: results.append(lab.mpirun(2, [*bench, "--sample-ms", "1500"], mca=ONE_PORT))
    )
    server = exec_in(two.netns, sys.executable, "-c", SERVER, "10.77.0.2")
    try:
        assert server.stdout.readline() == "ready\n"
        job.start()
        process.wait_until("the job", lambda: has_program(two.netns), 30)
        client = exec_in(one.netns, sys.executable, "-c", CLIENT, "10.77.0.2", "500")
        said, _ = client.communicate(timeout=120)
        assert said == "all\n"
        assert has_program(two.netns)
    finally:
        process.stop(server)
        job.join()
    assert results[0].returncode == 0, results[0].stderr
