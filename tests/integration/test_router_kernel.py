# SPDX-License-Identifier: BSD-3-Clause
"""A router between two hosts with an unchanged network stack.

The router's kernel does ARP and neighbour discovery, and answers for the router's addresses, by TAP
interfaces. The hosts are network namespaces, and the ports are af_packet.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hikyaku.lab import own_name
from hikyaku.process import run, wait_until

ROUTES = """port 1 mtu 1300
address 198.18.0.1/24 port 0
address fd00:a::1/64 port 0
address 198.18.1.1/24 port 1
address fd00:b::1/64 port 1
route 10.7.0.0/16 via 198.18.1.7
route 198.18.1.64/26 unreachable
"""
# An address within the unreachable route: the router must not send to it, although its kernel has a
# neighbour entry for it.
COVERED = "198.18.1.70"

ECHO = """
import select, socket
here = []
for address in ("198.18.1.7", "10.7.0.1", "fd00:b::7"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    here.append(socket.socket(family, socket.SOCK_DGRAM))
    here[-1].bind((address, 7))
print("ready", flush=True)
while True:
    for s in select.select(here, [], [], 60)[0]:
        s.sendto(*s.recvfrom(2000))
"""

ASK = '''
import errno, socket, sys
IP_MTU_DISCOVER, IP_RECVERR, IPV6_MTU_DISCOVER, IPV6_RECVERR, DO = 10, 11, 23, 25, 2
def connect(to):
    s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
    if ":" in to:
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, DO)
    else:
        s.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, DO)
    s.connect((to, 7))
    s.settimeout(0.1)
    return s
def ask(s, data):
    """The answer, or the error. Sends again, as the first packets may be lost before ARP is done.
    So an answer may come twice: each question has a socket of its own."""
    for _ in range(100):
        try:
            s.send(data)
            return "echo" if s.recv(2000) == data else "other"
        except TimeoutError:
            continue
        except OSError as error:
            return errno.errorcode[error.errno]
    return "nothing"
for to in sys.argv[1:]:
    print(to, ask(connect(to), b"x" * 700))
    print(to, "large", ask(connect(to), b"y" * 1290))
    s = connect(to)
    if ":" in to:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 1)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    print(to, "ttl", ask(s, b"z"))
'''


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Namespaces of host 0, host 1 and the router; the router's interfaces are hk0 and hk1."""
    names = [own_name("test", what)[:30] for what in ("rh0", "rh1", "rr")]
    try:
        for name in names:
            run(["ip", "netns", "add", name])
            run(["ip", "-n", name, "link", "set", "lo", "up"])
        for i in (0, 1):
            host, router = names[i], names[2]
            end = ["link", "add", f"hk{i}", "netns", router, "type", "veth"]
            run(["ip", *end, "peer", "name", "eth0", "netns", host])
            run(["ip", "netns", "exec", host, "ethtool", "-K", "eth0", "tx", "off"])
            for address in (f"198.18.{i}.7/24", f"fd00:{'ab'[i]}::7/64"):
                flags = ["nodad"] if ":" in address else []
                run(["ip", "-n", host, "address", "add", address, "dev", "eth0", *flags])
            # the kernel must not answer frames that the router's ports receive
            for key in (f"ipv6.conf.hk{i}.disable_ipv6=1", f"ipv4.conf.hk{i}.rp_filter=1"):
                run(["ip", "netns", "exec", router, "sysctl", "-qw", f"net.{key}"])
            run(["ip", "-n", router, "link", "set", f"hk{i}", "arp", "off", "up"])
            run(["ip", "-n", host, "link", "set", "eth0", "up"])
            for version, via in (("-4", f"198.18.{i}.1"), ("-6", f"fd00:{'ab'[i]}::1")):
                run(["ip", version, "-n", host, "route", "add", "default", "via", via])
        run(["ip", "-n", names[1], "address", "add", "10.7.0.1/32", "dev", "lo"])
        run(["ip", "-n", names[1], "address", "add", f"{COVERED}/24", "dev", "eth0"])
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def meet_covered(hosts: list[str]) -> None:
    """Makes the router's kernel learn the MAC address of COVERED, by an ARP request from there."""
    script = "import socket; s = socket.socket(type=socket.SOCK_DGRAM)\n"
    script += f"s.bind(('{COVERED}', 0)); s.sendto(b'x', ('198.18.1.1', 9))"
    run(["ip", "netns", "exec", hosts[1], sys.executable, "-c", script])

    def known() -> bool:
        found = run(["ip", "-n", hosts[2], "neigh", "show", COVERED, "dev", "hkr1"])
        return "lladdr" in found

    wait_until(f"the router's kernel to know {COVERED}", known, 20)


def test_hosts_with_an_unchanged_network_stack(hosts, tmp_path: Path, program, hikyaku) -> None:
    (tmp_path / "routes").write_text(ROUTES)
    control = tmp_path / "control"
    argv = [
        "ip",
        "netns",
        "exec",
        hosts[2],
        program("systems/devmem/router/hk_router"),
        "--tap",
        "hkr",
    ]
    argv += ["--routes", str(tmp_path / "routes"), "--control", str(control)]
    argv += ["--port", "af_packet:iface=hk0", "--port", "af_packet:iface=hk1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    echo = ["ip", "netns", "exec", hosts[1], sys.executable, "-c", ECHO]
    ask = ["ip", "netns", "exec", hosts[0], sys.executable, "-c", ASK]
    stats = [*hikyaku, "devmem", "ask", "--control", str(control), "--json"]
    with (
        subprocess.Popen(argv, **pipes) as router,
        subprocess.Popen(echo, **pipes) as server,
    ):
        try:
            assert router.stdout.readline() == "ready\n", router.stderr.read()
            assert server.stdout.readline() == "ready\n", server.stderr.read()
            meet_covered(hosts)
            said = run([*ask, "198.18.1.7", "10.7.0.1", "fd00:b::7", "198.18.0.1"], timeout=50)
            covered = run([*ask, COVERED], timeout=30)
            counted = json.loads(run([*stats, "stats"]))
            # the router keeps its neighbours over a reload
            assert json.loads(run([*stats, "reload"]))["done"]
            again = run([*ask, "198.18.1.7", COVERED], timeout=50)
        finally:
            server.kill()
            router.terminate()
            router.wait(timeout=20)
    assert router.returncode == 0
    want = []
    for to in ("198.18.1.7", "10.7.0.1", "fd00:b::7"):
        want += [f"{to} echo", f"{to} large EMSGSIZE", f"{to} ttl EHOSTUNREACH"]
    # no program listens at the router's own address, so its kernel refuses
    want += ["198.18.0.1 ECONNREFUSED", "198.18.0.1 large ECONNREFUSED"]
    want += ["198.18.0.1 ttl ECONNREFUSED"]
    assert said.splitlines() == want
    refused = [f"{COVERED} EHOSTUNREACH", f"{COVERED} large EHOSTUNREACH"]
    refused += [f"{COVERED} ttl EHOSTUNREACH"]
    assert covered.splitlines() == refused
    assert again.splitlines() == want[:3] + refused
    assert counted["kernel"]["written"] > 0
    assert sum(port["icmp_sent"] for port in counted["ports"]) >= 6
    taps = run(["ip", "-n", hosts[2], "-o", "link"])
    assert "hkr0" not in taps, "the TAP interfaces are left"
