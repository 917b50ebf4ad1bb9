# SPDX-License-Identifier: BSD-3-Clause
"""The controller with a real Open vSwitch: discovery, tags, trees, repair, restart."""

import os
import random
import re
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from execute import execute
from hikyaku import process
from hikyaku.bench.sdn import failover as sdn_fabric
from hikyaku.lab import Job, RunResult, links, ovs
from hikyaku.lab.controller import LabController, controlled
from hikyaku.lab.frames import address, receivers, register, send, send_argv, started
from hikyaku.sdn.store import Store
from hikyaku.sdn.tag import Function, Tag

NODES = [f"node{i}" for i in range(8)]
SOON = 60  # seconds, on a machine that does much else


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn"), "leaf-spine:2x2x4") as (lab, controller):
        yield lab, controller


@pytest.fixture
def job(network):
    lab, controller = network
    number = register(lab, controller.client, NODES, groups={"3": [0, 2, 5]})
    yield number
    controller.client.delete(f"/v1/jobs/{number}")


def rules(lab, switch: str) -> str:
    socket = ovs.directory(lab.topology) / "run" / f"{switch}.mgmt"
    return process.run(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", f"unix:{socket}"])


def test_mpirun_over_tcp_between_the_leaves(network, program):
    lab, controller = network
    result = lab.mpirun(
        2, [program("tests/mpi/mpi_digest")], tcp=True, options=["--host", "node0,node7"]
    )
    assert result.returncode == 0, result.stderr
    hosts = {h["address"] for h in controller.client.get("/v1/topology")["hosts"]}
    assert {address(lab, "node0"), address(lab, "node7")} <= hosts


def test_a_tagged_job_is_routed_by_its_tags_and_forgotten_after_it(network, program):
    """The real mpirun, kernel TCP, nothing restored at the receiver: only switches do that."""
    lab, controller = network
    before = controller.client.get("/v1/status")["counts"]["updates"]
    job = Job(
        ["-np", "4", "--host", "node0,node1,node5,node7", program("tests/mpi/mpi_digest")],
        tcp=True,
        tag=True,
        timeout=100,
    )
    result = lab.launch(job)
    assert result.returncode == 0, result.stderr
    assert "PASS" in result.stdout
    assert controller.client.get("/v1/status")["counts"]["updates"] > before
    assert controller.client.get("/v1/jobs") == []
    assert not any(
        "cookie=0x68696b7900000001" in rules(lab, s) for s in lab.topology.wiring.switches
    )


# A rank that looks for the secret in the command lines of all processes.
SECRET = """
import glob, os
secret = os.environ["OMPI_HIKYAKU_SECRET"].encode()
assert len(secret) == 64
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        assert secret not in open(path, "rb").read(), path
    except (FileNotFoundError, ProcessLookupError):
        pass
print("not there")
"""


@pytest.mark.parametrize("tcp", [True, False])
def test_ranks_have_their_jobs_secret_and_no_command_line_has_it(network, tcp):
    """All users of a node can read the command lines of its processes."""
    lab, _ = network
    result = lab.mpirun(2, ["/usr/bin/python3", "-c", SECRET], tcp=tcp, tag=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("not there") == 2


def test_tags_arrive_at_their_rank_with_its_own_address(network, job, tmp_path):
    lab, _ = network
    with receivers(lab, tmp_path) as received:
        for function in (Function.P2P, Function.ALLREDUCE, Function.BARRIER):
            send(lab, "node1", Tag(job, function, 1, 6).mac, 10)
            send(lab, "node1", Tag(job, function, 1, 2).mac, 10)
        process.wait_until("all frames", lambda: len(received["node6"].received()) >= 30, SOON)
        process.wait_until("all frames", lambda: len(received["node2"].received()) >= 30, SOON)
        for node in NODES:
            assert len(received[node].received()) == (30 if node in ("node2", "node6") else 0)
        for node in ("node2", "node6"):
            assert {mac for mac, _ in received[node].received()} == {address(lab, node)}


def test_a_bcast_crosses_each_link_once(network, job, tmp_path):
    lab, _ = network
    frames = 50
    with receivers(lab, tmp_path) as received:
        before = {row["link"]: row for row in links.counters(lab.topology)}
        send(lab, "node2", Tag(job, Function.BCAST, 2, 0, group=True).mac, frames)
        for node in set(NODES) - {"node2"}:
            process.wait_until(
                "all frames", lambda n=node: len(received[n].received()) >= frames, SOON
            )
            assert Counter(n for _, n in received[node].received()) == dict.fromkeys(
                range(frames), 1
            )
            assert {mac for mac, _ in received[node].received()} == {address(lab, node)}
        assert not received["node2"].received()
        for row in links.counters(lab.topology):
            for way in ("a_to_b", "b_to_a"):
                carried = row[way]["bytes"] - before[row["link"]][way]["bytes"]
                assert carried <= 1.1 * frames * 1014, f"{row['link']} {way}"

        send(lab, "node5", Tag(job, Function.BCAST, 5, 3, group=True).mac, 5)
        for node in ("node0", "node2"):
            have = frames * (node == "node0") + 5
            process.wait_until("all", lambda n=node, h=have: len(received[n].received()) >= h, SOON)
        assert len(received["node1"].received()) == frames


def test_ranks_that_share_a_port_reach_each_other(network, tmp_path):
    """A second address at a node's port, as that of a virtual machine there."""
    lab, controller = network
    client, second = controller.client, "02:00:00:00:bb:01"
    ranks = [("node0", address(lab, "node0")), ("node0", second), ("node5", address(lab, "node5"))]

    def known() -> bool:
        hosts = {h["address"] for h in client.get("/v1/topology")["hosts"]}
        missing = [rank for rank in ranks if rank[1] not in hosts]
        for node, mac in missing:
            send(lab, node, "ff:ff:ff:ff:ff:ff", 1, 0, mac)
        return not missing

    process.wait_until("all hosts to be known", known, SOON)
    addresses = {str(i): mac for i, (_, mac) in enumerate(ranks)}
    number = client.post("/v1/jobs", {"name": "shared", "ranks": addresses})["job"]
    try:
        with receivers(lab, tmp_path) as received:
            send(lab, "node0", Tag(number, Function.P2P, 0, 1).mac, 1)
            send(lab, "node0", Tag(number, Function.ALLREDUCE, 1, 0).mac, 1, 0, second)
            send(lab, "node0", Tag(number, Function.BCAST, 0, 0, group=True).mac, 1)
            process.wait_until("all frames", lambda: len(received["node0"].received()) >= 3, SOON)
            process.wait_until("the Bcast", lambda: bool(received["node5"].received()), SOON)
            got = [mac for mac, _ in received["node0"].received()]
            assert got == [second, address(lab, "node0"), second]
    finally:
        client.delete(f"/v1/jobs/{number}")


def test_busy_hosts_of_one_port_part_and_stay(network):
    """Other traffic, in Open vSwitch: two streams share a port while the other one is idle."""
    lab, controller = network
    client = controller.client
    client.delete(f"/v1/jobs/{register(lab, client, NODES)}")  # so that all hosts are known
    source = address(lab, "node0")

    def first_port(node: str) -> int:
        path = client.get(f"/v1/path?source={source}&destination={address(lab, node)}")
        return path["links"][0]["a"]["port"]

    far = sorted(NODES[4:], key=first_port)
    busy = [node for node in far if first_port(node) == first_port(far[1])][:2]
    assert len(busy) == 2

    def loads() -> list[float]:
        links = client.get("/v1/topology")["links"]
        return [link["bits_b_to_a"] for link in links if link["name"].startswith("leaf0-")]

    process.wait_until("the end of what was sent before", lambda: max(loads()) < 1e5, SOON)
    before = client.get("/v1/status")["counts"].get("balanced", 0)
    with ExitStack() as stack:
        for node, sender in zip(busy, ("node0", "node1"), strict=True):
            argv = send_argv(lab, sender, address(lab, node), 100_000, 1 / 500)
            stack.enter_context(started(argv))

        process.wait_until("a load on both links", lambda: min(loads()) > 2e6, SOON)
        assert len({first_port(node) for node in busy}) == 2
        assert client.get("/v1/status")["counts"]["balanced"] == before + 1


def test_spoofed_tags_and_strangers_are_dropped_at_the_edge(network, job, tmp_path):
    lab, _ = network
    with receivers(lab, tmp_path) as received:
        tag = Tag(job, Function.P2P, 1, 6).mac
        send(lab, "node0", tag, 5)  # a rank, but not this one
        send(lab, "node0", tag, 5, 0, address(lab, "node1"))
        send(lab, "node1", Tag(job + 1, Function.P2P, 1, 6).mac, 5)
        send(lab, "node1", tag, 1)
        process.wait_until("the right one", lambda: bool(received["node6"].received()), SOON)
        assert [len(received[n].received()) for n in NODES] == [0, 0, 0, 0, 0, 0, 1, 0]


def test_a_tagged_job_says_so(network, hikyaku):
    lab, _ = network
    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "--tag", "-np", "2", "hostname"]
    said = execute(argv)
    assert "hikyaku: the frames of this job have tags, as job " in said.stderr


def test_a_busy_switch_leaves_the_controller_its_core(network):
    """The switch has a real-time priority. A controller without one got 40 ms in 5 s."""
    lab, controller = network
    switch = int((ovs.directory(lab.topology) / "run" / "ovs-vswitchd.pid").read_text())
    own = Store(controller.state).owner()
    how = [(os.sched_getscheduler(p), os.sched_getparam(p).sched_priority) for p in (switch, own)]
    assert how[0] == how[1]


def test_rules_go_with_their_job(network):
    lab, controller = network
    number = register(lab, controller.client, NODES)
    cookie = f"cookie={0x68696B79 << 32 | number:#x}"
    assert all(cookie in rules(lab, s) for s in lab.topology.wiring.switches)
    controller.client.delete(f"/v1/jobs/{number}")
    assert not any(cookie in rules(lab, s) for s in lab.topology.wiring.switches)


def reported(controller: LabController, begin: str) -> bool:
    """Does an event that begins so say how many rules changed, and in which time?"""
    rest = r"\d+ rules of \d switches changed, in \d+ ms$"
    texts = [event["text"] for event in controller.client.get("/v1/status")["events"]]
    return any(re.match(re.escape(begin) + rest, text) for text in texts)


def test_cut_cables_are_passed_by_and_come_back(network, job, tmp_path, hikyaku):
    """Nothing is lost of what is sent after the switches know. The status and the log name the
    cable as the command that cut it."""
    lab, controller = network
    with receivers(lab, tmp_path) as received:
        for link in ("leaf0-spine0", "leaf1-spine1"):
            got = len(received["node4"].received())
            links.set_link(lab.topology, link, up=False)
            try:
                controller.wait_links(3)
                shown = execute([*hikyaku, "sdn", "status", "--lab", lab.name]).stdout
                assert re.search(rf"{link} +│ +cut", shown), shown
                assert shown.count(f"│ {link} ") == 1, shown
                assert f"({link}) is down" in controller.log.read_text()
                send(lab, "node0", Tag(job, Function.P2P, 0, 4).mac, 20)
                process.wait_until(
                    "all", lambda g=got: len(received["node4"].received()) == g + 20, SOON
                )
            finally:  # the next tests need all links
                links.set_link(lab.topology, link, up=True)
            controller.wait_links(4)
            for text in (f"traffic avoids {link}: ", f"traffic may use {link}: "):
                process.wait_until(
                    f"an event '{text}'", lambda t=text: reported(controller, t), SOON
                )
    shown = execute([*hikyaku, "sdn", "status", "--lab", lab.name]).stdout
    assert re.search(r"^\d\d:\d\d:\d\d traffic may use leaf1-spine1: ", shown, re.MULTILINE), shown


def test_a_killed_controller_leaves_the_network_as_it_is_and_the_next_one_takes_it(
    network, job, tmp_path
):
    lab, controller = network
    before = [rules(lab, s) for s in lab.topology.wiring.switches]
    controller.stop(kill=True)
    with receivers(lab, tmp_path) as received:
        tag = Tag(job, Function.P2P, 0, 4).mac
        send(lab, "node0", tag, 20)
        process.wait_until("all", lambda: len(received["node4"].received()) == 20, SOON)
        controller.start()
        controller.wait_links(4)
        assert [j["job"] for j in controller.client.get("/v1/jobs")] == [job]
        send(lab, "node0", tag, 20)
        process.wait_until("all", lambda: len(received["node4"].received()) == 40, SOON)
    after = [rules(lab, s) for s in lab.topology.wiring.switches]

    def entries(text: str) -> list[str]:
        """Without counters and times."""
        drop = ("duration", "n_packets", "n_bytes", "idle_age")
        return sorted(
            ",".join(w for w in line.replace(" ", "").split(",") if not w.startswith(drop))
            for line in text.splitlines()
        )

    assert list(map(entries, after)) == list(map(entries, before)), "it changed what was right"


@pytest.mark.parametrize("far", [False, True])
def test_a_cut_cable_loses_few_frames(network, job, far):
    """The switches pass it by themselves. At 100 a second, so that what 300 ms lose is few: two
    cores that do much else take longer to see that a port is down."""
    lab, controller = network
    assert sdn_fabric.cut(lab, controller, job, far=far, rate=100) <= 30


def test_an_mpi_program_finishes_right_while_cables_are_cut(network, program):
    """Never both spines at once, so there is always a way."""
    lab, _ = network
    rng = random.Random(5)
    names = [link.name for link in lab.topology.wiring.links]
    done: list[RunResult] = []
    job = Job(
        ["-np", "2", "--host", "node0,node6", program("tests/mpi/mpi_p2p_random")],
        tcp=True,
        tag=True,
        timeout=150,
    )
    runner = threading.Thread(target=lambda: done.append(lab.launch(job)))
    runner.start()
    cuts = 0
    try:
        while runner.is_alive():
            link = rng.choice(names)
            links.set_link(lab.topology, link, up=False)
            runner.join(timeout=0.4)
            links.set_link(lab.topology, link, up=True)
            runner.join(timeout=0.4)
            cuts += 1
    finally:
        runner.join(timeout=160)
    assert done, "mpirun was ended"
    assert done[0].returncode == 0, done[0].stderr
    assert "PASS" in done[0].stdout
    assert cuts > 1


@pytest.mark.usefixtures("job")  # the controller knows all nodes
def test_nodes_that_no_path_joins_are_named(network, hikyaku, program):
    """By the command that cuts, the status, the log and mpirun, each with a fix that works."""
    lab, controller = network
    cut = execute([*hikyaku, "lab", "cut", "--lab", lab.name, "leaf0-spine0", "leaf0-spine1"])
    fix = r"fix: \S+ lab repair --lab \S+ leaf0-spine0$"
    apart = rf"node0, node1, node2, node3 cannot reach node4, node5, node6, node7; {fix}"
    # the controller may know further addresses of a node, from the tests above
    known = rf"(node0, node1, node2, node3|node4, node5, node6, node7) cannot reach .*; {fix}"
    try:
        assert re.search(apart, cut.stdout, re.MULTILINE), cut.stdout
        again = execute([*hikyaku, "lab", "cut", "--lab", lab.name, "spine1-leaf0"])
        assert "leaf0-spine1 was cut already" in again.stdout

        def separated() -> str:
            return (controller.client.get("/v1/status")["separated"] or {}).get("text", "")

        process.wait_until("the parts", lambda: re.search(known, separated()), SOON)
        assert separated() in controller.log.read_text()
        assert "no path replaces leaf0-spine" in controller.log.read_text()
        wide = {**os.environ, "COLUMNS": "200"}
        shown = execute([*hikyaku, "sdn", "status", "--lab", lab.name], env=wide)
        assert re.match(known, shown.stdout.splitlines()[0]), shown.stdout
        job = ["-np", "8", program("tests/mpi/mpi_digest")]
        run = execute([*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", *job], code=1)
        assert "ranks would wait for each other: node0, node1" in run.stderr, run.stderr
        assert re.search(fix, run.stderr.strip()), run.stderr
        job[1] = "4"  # these have all that they need
        execute([*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", *job])
        repair = re.search(r"lab repair.*$", cut.stdout.splitlines()[-1])[0].split()
        execute([*hikyaku, *repair])
        process.wait_until("all to be well", lambda: not separated(), SOON)
        assert "all nodes reach each other again" in controller.log.read_text()
    finally:
        for link in ("leaf0-spine0", "leaf0-spine1"):
            links.set_link(lab.topology, link, up=True)
        controller.wait_links(4)


def test_a_job_whose_nodes_are_cut_off_says_so_while_it_waits(network, program):
    """The ranks know only that nobody answers."""
    lab, controller = network
    arguments = ["--map-by", "node", "-np", "8", program("tests/mpi/mpi_digest")]
    cut = [link.name for link in lab.topology.wiring.links if link.a == "leaf0"]
    for link in cut:
        links.set_link(lab.topology, link, up=False)
    try:
        env = {"OMPI_MCA_btl_hikyaku_peer_timeout_ms": "1500"}
        result = lab.launch(Job(arguments, env=env, timeout=100))
    finally:
        for link in cut:
            links.set_link(lab.topology, link, up=True)
        controller.wait_links(4)
    assert result.returncode != 0
    assert result.stderr.count("hikyaku: links are cut: node0, node1, node2, node3 cannot") == 1
