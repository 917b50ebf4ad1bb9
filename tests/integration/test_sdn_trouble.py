# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong with a controller and its switches: contained, and said where one looks."""

import re
import subprocess
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, ovs
from hikyaku.lab.controller import LabController, controlled
from hikyaku.lab.frames import register, send, started
from hikyaku.sdn.client import Client
from hikyaku.sdn.registrar import Registrar

LINE = "leaf-spine:1x2x1"
SOON = 30  # seconds, on a machine that does much else


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn-trouble"), LINE) as (lab, controller):
        yield lab, controller


def vsctl(lab: Lab, *arguments: str) -> str:
    return ovs.vsctl(lab.topology, list(arguments))


def said(controller: LabController, text: str) -> None:
    process.wait_until(f"the log to say '{text}'", lambda: text in controller.log.read_text(), SOON)


def test_a_job_that_a_flow_table_has_no_room_for_is_refused(network):
    lab, controller = network
    client = controller.client
    try:
        vsctl(
            lab,
            *("--", "--id=@t", "create", "Flow_Table", "flow_limit=12"),
            *("--", "set", "bridge", "leaf0", "flow_tables:1=@t"),
        )
        groups = {str(g): [0, 1] for g in range(1, 30)}
        with pytest.raises(HikyakuError, match=r"switch 2 refused \d+ rules of job 1 "):
            register(lab, client, ["node0", "node1"], groups=groups)
        said(controller, "its flow table is full")
        assert client.get("/v1/jobs") == []
    finally:
        vsctl(lab, "clear", "bridge", "leaf0", "flow_tables")
        for job in client.get("/v1/jobs"):
            client.delete(f"/v1/jobs/{job['job']}")


def test_a_forged_link_is_refused(network):
    lab, controller = network
    forge = (
        "import socket; s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('tcp0',0))\n"
        "tlv=bytes.fromhex('0207040011223344550403023031060200780000')\n"
        "own=bytes.fromhex('02686b01')+bytes(36)\n"
        "s.send(bytes.fromhex('0180c200000e020000000099')+b'\\x88\\xcc'\n"
        "       +bytes([254,len(own)])+own+tlv)"
    )
    process.run(lab.exec_argv("node0", ["/usr/bin/python3", "-c", forge]))
    said(controller, "refused: its hash is not ours")
    status = controller.client.get("/v1/status")
    assert status["counts"]["forged"] == 1
    assert status["links"] == 2


def test_the_controller_that_was_started_last_has_the_network(network):
    """The earlier one ends by itself, and says why."""
    lab, first = network
    second = LabController(lab, "--openflow", "127.0.0.1:6654", state="second")
    try:
        second.start()
        ovs.set_controllers(lab.topology, [ovs.CONTROLLER, "tcp:127.0.0.1:6654"])
        process.wait_until("the first to end", lambda: first.ended() is not None, SOON)
        assert first.ended() == 1
        assert "another controller is the master" in first.log.read_text()
        assert "run one controller at a time" in first.log.read_text()
    finally:
        second.stop()
        ovs.set_controllers(lab.topology, [ovs.CONTROLLER])
        first.start()
        first.wait_links(2)


def test_a_job_outlives_its_controller(network, hikyaku, tmp_path):
    """Killed and started anew, at another port of REST, while the job's registrar runs."""
    lab, controller = network
    rank = "02:00:00:00:aa:03"
    client = Client(controller.state, patience=SOON)
    with Registrar(client, "solver", tmp_path / "r") as registrar:
        controller.stop(kill=True)
        controller.start()
        secret = registrar.address.partition("@")[0]
        assert registrar.hear(f"{secret} 0 {rank}") == "ok"
        (job,) = controller.client.get("/v1/jobs")
        assert (job["job"], job["name"], job["ranks"]) == (registrar.job, "solver", {"0": rank})
    assert controller.client.get("/v1/jobs") == []
    left = controller.client.post("/v1/jobs", {"name": "left"})["job"]
    process.run([*hikyaku, "sdn", "forget", str(left), "--lab", lab.name])
    assert controller.client.get("/v1/jobs") == []


def test_a_switch_of_another_version_is_refused_with_the_fix(network):
    lab, controller = network
    vsctl(lab, "set", "bridge", "leaf0", "protocols=OpenFlow10")
    try:
        said(controller, "protocols=OpenFlow13")
    finally:
        vsctl(lab, "set", "bridge", "leaf0", "protocols=OpenFlow13")
        controller.wait_links(2)


def test_a_host_that_has_gone_is_forgotten(network):
    """Its rules too; one that a job has as a rank stays, whether it is heard or not."""
    lab, controller = network
    controller.stop()
    brief = LabController(lab, "--forget-hosts", "2", state="brief")
    ghost, rank = "02:00:00:00:aa:01", "02:00:00:00:aa:02"
    speak = (
        "import socket; s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('tcp0',0))\n"
        "for last in (1, 2):\n"
        "    s.send(b'\\xff'*6+bytes([2,0,0,0,0xaa,last])+b'\\x88\\xb6'+bytes(46))"
    )

    def hosts() -> set[str]:
        return {host["address"] for host in brief.client.get("/v1/topology")["hosts"]}

    try:
        brief.start()
        brief.wait_links(2)
        job = brief.client.post("/v1/jobs", {"name": "j", "ranks": {"0": rank}})["job"]
        process.run(lab.exec_argv("node0", ["/usr/bin/python3", "-c", speak]))
        said(brief, f"host {ghost} at switch 2")
        assert rank in hosts()
        assert ghost not in hosts()
        process.wait_until("its rules to go", lambda: ghost not in flows(lab, "leaf1"), SOON)
        assert rank in flows(lab, "leaf1")
        brief.client.delete(f"/v1/jobs/{job}")
        process.wait_until("the other to go", lambda: rank not in hosts(), SOON)
    finally:
        brief.stop()
        controller.start()
        controller.wait_links(2)


def flows(lab: Lab, bridge: str) -> str:
    return ofctl(lab, "dump-flows", bridge)


def ofctl(lab: Lab, command: str, bridge: str, *arguments: str) -> str:
    socket = ovs.directory(lab.topology) / "run" / f"{bridge}.mgmt"
    return process.run(["ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{socket}", *arguments])


def test_groups_and_rules_of_others_outlive_a_restart(network):
    """Those that look like ours, too."""
    lab, controller = network
    ofctl(lab, "add-group", "leaf0", "group_id=77,type=all,bucket=output:1")
    ofctl(lab, "add-flow", "leaf0", "table=9,cookie=5,actions=group:77")
    try:
        controller.stop()
        controller.start()
        controller.wait_links(2)
        register(lab, controller.client, ["node0", "node1"])
        assert "group_id=77," in ofctl(lab, "dump-groups", "leaf0")
        assert "actions=group:77" in flows(lab, "leaf0")
    finally:
        for job in controller.client.get("/v1/jobs"):
            controller.client.delete(f"/v1/jobs/{job['job']}")
        ofctl(lab, "del-groups", "leaf0", "group_id=77")


def test_a_host_with_ever_new_addresses_does_not_reach_the_controller_for_long(network):
    """Links are heard all the while, and so is another host that is new."""
    lab, controller = network
    flood = (
        "import os, socket, time\n"
        "s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('tcp0',0))\n"
        "end=time.monotonic()+60\n"
        "while time.monotonic()<end:\n"
        "    for _ in range(20):\n"
        "        s.send(b'\\x02'+bytes(5)+b'\\x06'+os.urandom(5)+b'\\x88\\xb6'+bytes(46))\n"
        "    time.sleep(0.01)\n"
    )
    with started(lab.exec_argv("node0", ["/usr/bin/python3", "-c", flood])):
        said(controller, "frames a second from hosts that are not known; not looked at for 10 s")
        deaf = re.compile(r"priority=10,in_port=[^ ]* actions=(resubmit|goto_table)")
        process.wait_until("its switch to know", lambda: deaf.search(flows(lab, "leaf0")), SOON)
        before = controller.client.get("/v1/status")["counts"]["packet_in"]
        send(lab, "node1", "ff:ff:ff:ff:ff:ff", 1, 0, "02:00:00:00:bb:01")
        process.wait_until(
            "the other host to be known",
            lambda: "02:00:00:00:bb:01" in flows(lab, "leaf1"),
            SOON,
        )
        status = controller.client.get("/v1/status")
        assert status["links"] == 2
        assert status["counts"]["packet_in"] - before < 1000, "it is not told any more"


def test_noise_at_the_switches_door_ends_that_connection_alone(network):
    lab, controller = network
    noise = (
        "import os, socket\n"
        "for data in (b'GET / HTTP/1.1\\r\\n\\r\\n', bytes(8), bytes.fromhex('0400000800000001')\n"
        "             + bytes.fromhex('0406000c00000001deadbeef'), os.urandom(3000)):\n"
        "    s = socket.create_connection(('127.0.0.1', 6653)); s.sendall(data)\n"
        "    s.shutdown(socket.SHUT_WR); s.settimeout(15)\n"
        "    try:\n"
        "        while s.recv(65536): pass\n"
        "    except ConnectionError: pass\n"
    )
    argv = ["/usr/bin/python3", "-c", noise]
    process.run(ovs.inside(lab.topology, argv), timeout=60)
    assert controller.ended() is None
    assert len(controller.client.get("/v1/status")["switches"]) == 3


def test_two_controllers_cannot_share_an_address(network):
    lab, _ = network
    again = LabController(lab, state="third")
    with pytest.raises(HikyakuError, match=r"cannot listen on 127\.0\.0\.1:6653"):
        again.start()


# ---- TLS -----------------------------------------------------------------------------------------


def certificates(place: Path, names: list[str]) -> None:
    """A CA in @place, and a key and a certificate that it has signed for each name."""

    def openssl(*arguments: str) -> None:
        process.run(["openssl", *arguments])

    ca, key = str(place / "ca.pem"), str(place / "ca.key")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", key, "-out", ca)
    for name in names:
        own, asked = str(place / f"{name}.key"), str(place / f"{name}.csr")
        openssl(*new, "-subj", f"/CN={name}", "-keyout", own, "-out", asked)
        sign = ["-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", "2"]
        openssl("x509", "-req", "-in", asked, *sign, "-out", str(place / f"{name}.pem"))


def test_openflow_over_tls_with_certificates_of_one_ca_only(lab_name, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for place in (ours, theirs):
        place.mkdir()
        certificates(place, ["controller", "switch"])
    with Lab.up(wire="ovs", switches=LINE, name=lab_name("sdn-tls")) as lab:
        options = ["--certificate", "controller.pem", "--key", "controller.key", "--ca", "ca.pem"]
        options = [str(ours / o) if not o.startswith("--") else o for o in options]
        controller = LabController(lab, *options)
        try:
            controller.start()

            def show(place: Path) -> None:
                files = ("switch.key", "switch.pem", "ca.pem")
                ovs.set_ssl(lab.topology, *(place / f for f in files))

            show(theirs)
            ovs.set_controllers(lab.topology, [f"ssl:127.0.0.1:{ovs.OPENFLOW_PORT}"])
            log = ovs.directory(lab.topology) / "ovs-vswitchd.log"
            refused = "stream_ssl|WARN|SSL_connect: error"
            process.wait_until("the switch to be refused", lambda: refused in log.read_text(), SOON)
            assert controller.client.get("/v1/status")["switches"] == {}
            show(ours)
            controller.wait_links(2)
            assert register(lab, controller.client, ["node0", "node1"]) == 1
        finally:
            controller.stop()


def test_incomplete_or_broken_certificates_are_refused(hikyaku, tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for options, text in (
        (["--ca", bad], "TLS needs --certificate, --key and --ca"),
        (["--ca", bad, "--key", bad, "--certificate", bad], "cannot read the certificates"),
    ):
        done = subprocess.run(
            [*hikyaku, "sdn", "run", "--state", tmp_path / "s", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert text in done.stderr
