# SPDX-License-Identifier: BSD-3-Clause
"""Faults of a controller and its network switches: their effect is limited, and they are logged."""

import re
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, ovs
from hikyaku.lab.controller import LabController, controlled
from hikyaku.lab.frames import register, send, started
from hikyaku.sdn.client import Client
from hikyaku.sdn.registrar import TO_US, Registrar, sign

LINE = "leaf-spine:1x2x1"
SOON = 30  # seconds, on a busy machine


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn-trouble"), LINE) as (lab, controller):
        yield lab, controller


def vsctl(lab: Lab, *arguments: str) -> str:
    return ovs.vsctl(lab.topology, list(arguments))


def wait_for_log(controller: LabController, text: str) -> None:
    process.wait_until(f"'{text}' in the log", lambda: text in controller.log.read_text(), SOON)


def test_a_job_that_does_not_fit_a_flow_table_is_refused(network):
    lab, controller = network
    client = controller.client
    try:
        vsctl(
            lab,
            *("--", "--id=@t", "create", "Flow_Table", "flow_limit=12"),
            *("--", "set", "bridge", "leaf0", "flow_tables:1=@t"),
        )
        groups = {str(g): [0, 1] for g in range(1, 30)}
        with pytest.raises(HikyakuError, match=r"leaf0 refused \d+ rules of job 1 "):
            register(lab, client, ["node0", "node1"], groups=groups)
        wait_for_log(controller, "its flow table is full")
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
    wait_for_log(controller, "refused: its hash is not ours")
    status = controller.client.get("/v1/status")
    assert status["counts"]["forged"] == 1
    assert status["links"] == 2


def test_the_controller_that_was_started_last_controls_the_network(network):
    """The earlier one ends by itself, and logs the reason."""
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


def test_a_job_survives_a_restart_of_its_controller(network, hikyaku, tmp_path):
    """The controller is killed and started again while the job's registrar runs. Its REST port
    changes."""
    lab, controller = network
    rank = "02:00:00:00:aa:03"
    client = Client(controller.state, retry_s=SOON)
    with Registrar(client, "solver", tmp_path / "r") as registrar:
        controller.stop(kill=True)
        controller.start()
        text = f"0 {rank}"
        line = f"{sign(registrar.secret, TO_US, 'nonce', text)} {text}"
        assert registrar.answer("nonce", line).endswith(" ok")
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
        wait_for_log(controller, "protocols=OpenFlow13")
    finally:
        vsctl(lab, "set", "bridge", "leaf0", "protocols=OpenFlow13")
        controller.wait_links(2)


def test_a_host_that_has_gone_is_forgotten(network):
    """Its rules are removed too. A host that is a rank of a job stays, even if it is silent."""
    lab, controller = network
    controller.stop()
    brief = LabController(lab, "--forget-hosts", "2", state="brief")
    ghost, rank = "02:00:00:00:aa:01", "02:00:00:00:aa:02"
    send_from_both = (
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
        process.run(lab.exec_argv("node0", ["/usr/bin/python3", "-c", send_from_both]))
        wait_for_log(brief, f"host {ghost} at leaf0 port")
        assert rank in hosts()
        assert ghost not in hosts()
        process.wait_until("its rules to go", lambda: ghost not in flows(lab, "leaf1"), SOON)
        assert rank in flows(lab, "leaf1")
        brief.client.delete(f"/v1/jobs/{job}")
        process.wait_until("the rank to go", lambda: rank not in hosts(), SOON)
    finally:
        brief.stop()
        controller.start()
        controller.wait_links(2)


def flows(lab: Lab, bridge: str) -> str:
    return ofctl(lab, "dump-flows", bridge)


def ofctl(lab: Lab, command: str, bridge: str, *arguments: str) -> str:
    socket = ovs.directory(lab.topology) / "run" / f"{bridge}.mgmt"
    return process.run(["ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{socket}", *arguments])


def test_groups_and_rules_of_others_survive_a_restart(network):
    """Even if they look like the controller's own."""
    lab, controller = network
    ofctl(lab, "add-group", "leaf0", "group_id=77,type=all,bucket=output:1")
    ofctl(lab, "add-flow", "leaf0", "table=9,cookie=5,actions=group:77")
    said = len(controller.log.read_text())
    try:
        controller.stop()
        (end,) = controller.log.read_text()[said:].splitlines()
        assert end.endswith(" the controller has ended; the switches keep their rules")
        controller.start()
        controller.wait_links(2)
        register(lab, controller.client, ["node0", "node1"])
        assert "group_id=77," in ofctl(lab, "dump-groups", "leaf0")
        assert "actions=group:77" in flows(lab, "leaf0")
    finally:
        for job in controller.client.get("/v1/jobs"):
            controller.client.delete(f"/v1/jobs/{job['job']}")
        ofctl(lab, "del-groups", "leaf0", "group_id=77")


def test_frames_of_a_host_that_changes_its_address_constantly_are_ignored(network):
    """The controller still receives probes of links, and frames of another new host."""
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
        wait_for_log(controller, "frames a second from hosts that are not known; ignored for 10 s")
        ignoring = re.compile(r"priority=10,in_port=[^ ]* actions=(resubmit|goto_table)")
        process.wait_until("the rule", lambda: ignoring.search(flows(lab, "leaf0")), SOON)
        before = controller.client.get("/v1/status")["counts"]["packet_in"]
        send(lab, "node1", "ff:ff:ff:ff:ff:ff", 1, 0, "02:00:00:00:bb:01")
        process.wait_until(
            "the other host to be known",
            lambda: "02:00:00:00:bb:01" in flows(lab, "leaf1"),
            SOON,
        )
        status = controller.client.get("/v1/status")
        assert status["links"] == 2
        assert status["counts"]["packet_in"] - before < 1000, "the switch still reports the frames"


def test_invalid_openflow_messages_end_only_their_connection(network):
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
    """Makes a CA in @place, and for each name a key and a certificate signed by that CA."""

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
        certificates(place, ["controller", "switch", "rogue"])
    with Lab.up(wire="ovs", switches=LINE, name=lab_name("sdn-tls")) as lab:
        options = ["--certificate", "controller.pem", "--key", "controller.key", "--ca", "ca.pem"]
        options = [str(ours / o) if not o.startswith("--") else o for o in options]
        options += ["--rest-tls"]
        controller = LabController(lab, *options)
        try:
            controller.start()

            def use_certificates(place: Path, name: str = "switch") -> None:
                files = (f"{name}.key", f"{name}.pem", "ca.pem")
                ovs.set_ssl(lab.topology, *(place / f for f in files))

            use_certificates(theirs)
            ovs.set_controllers(lab.topology, [f"ssl:127.0.0.1:{ovs.OPENFLOW_PORT}"])
            log = ovs.directory(lab.topology) / "ovs-vswitchd.log"
            refused = "stream_ssl|WARN|SSL_connect: error"
            process.wait_until("the switch to be refused", lambda: refused in log.read_text(), SOON)
            assert controller.client.get("/v1/status")["switches"] == {}
            use_certificates(ours)
            controller.wait_links(2)
            assert controller.client.address.startswith("https://")
            assert register(lab, controller.client, ["node0", "node1"]) == 1
            pinned = controller.state / "rest.pem"
            right = pinned.read_text()
            pinned.write_text((theirs / "controller.pem").read_text())
            with pytest.raises(HikyakuError, match="CERTIFICATE_VERIFY_FAILED"):
                controller.client.get("/v1/status")
            pinned.write_text(right)
            use_certificates(ours, "rogue")  # the CA has signed it, for another switch
            ovs.set_controllers(lab.topology, ["ssl:127.0.0.1:1"])  # ends the connections
            ovs.set_controllers(lab.topology, [f"ssl:127.0.0.1:{ovs.OPENFLOW_PORT}"])
            wait_for_log(controller, "its certificate is that of 'rogue', and datapath ")
            assert controller.client.get("/v1/status")["switches"] == {}
        finally:
            controller.stop()


def test_incomplete_or_broken_certificates_are_refused(hikyaku, tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate")
    for options, text in (
        (["--ca", bad], "TLS needs --certificate, --key and --ca"),
        (["--ca", bad, "--key", bad, "--certificate", bad], "cannot read the certificates"),
    ):
        done = execute([*hikyaku, "sdn", "run", "--state", tmp_path / "s", *options], code=1)
        assert text in done.stderr
