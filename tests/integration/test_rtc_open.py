# SPDX-License-Identifier: BSD-3-Clause
"""Errors of hk_rtc_open(): each names the thing and the fix."""

import re
import subprocess

import pytest

from execute import execute
from hikyaku import rtc
from hikyaku.learn.job import free_ports
from hikyaku.process import wait_until


@pytest.fixture
def gossip(program):
    """gossip(options …) runs one node, which must fail, and returns its error output."""

    def run(*options, env=None):
        done = execute([program("examples/gossip"), *options], code=None, env=env)
        assert done.returncode in (1, 2), done.stdout
        assert "fix: " in done.stderr, done.stderr
        return done.stderr

    return run


def peers(tmp_path, *lines: str) -> str:
    path = tmp_path / "peers"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_a_client_without_its_server(program, tmp_path):
    """It waits for as long as --timeout says, and no longer than it asks."""
    file = peers(tmp_path, "0 127.0.0.1:7999", "1 127.0.0.1:7998")
    alone = [program("examples/sum"), "--backend", "udp", "--peers", file, "--node", "1"]
    for limit in (["--timeout", "300"], ["--ms", "300"]):
        done = execute([*alone, "--key", "7", *limit], code=1, timeout=30)
        assert "node 0 does not answer; fix: start it, with the same --key" in done.stderr


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_tells_a_server_that_left_from_a_silent_one(program, tmp_path, leaves):
    """Node 0 is of this process. It answers a request, and then leaves, or stops receiving."""
    ports = free_ports(2)
    file = peers(tmp_path, *(f"{node} 127.0.0.1:{port}" for node, port in enumerate(ports)))
    words = ["--backend", "udp", "--peers", file, "--node", "1", "--key", "7", "--timeout", "60000"]
    asked: list[int] = []

    def on_message(message: rtc.Message) -> bytes:
        asked.append(message.number)
        return bytes(4)

    with rtc.Node("udp", peers_file=file, node=0, key=7) as server:
        server.register(1, "sum", on_message=on_message)
        argv = [program("examples/sum"), *words, "--ms", "60000"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as client:

            def answered() -> bool:
                server.poll()
                return bool(asked)

            wait_until("a request of node 1", answered, 30)
            if leaves:
                server.close()
            said = client.communicate(timeout=60)[1]
    assert client.returncode == 1
    why = "has left" if leaves else "was silent for 1000 ms, and counts as gone; a busy machine"
    assert f"node 0 {why}" in said
    assert " requests are answered\n" in said


@pytest.mark.parametrize("name", ["sum", "gossip", "keycount", "spmv/spmv"])
@pytest.mark.parametrize("words", [["--foo"], ["--foo", "1"]])
def test_an_unknown_option_of_an_example_is_named(program, name, words):
    done = execute([program(f"examples/{name}"), *words], code=2)
    assert re.search(r": there is no option '?--foo'?; fix: ", done.stderr), done.stderr


@pytest.mark.parametrize("option", ["--window", "--backend", "--json"])
def test_a_known_option_of_an_example_needs_a_value(program, option):
    done = execute([program("examples/sum"), option], code=2)
    assert f": {option} has no value; fix: " in done.stderr


def test_unknown_backend(gossip, tmp_path):
    said = gossip("--backend", "carrier", "--address", "x", "--peers", peers(tmp_path, "0 x"))
    assert "'carrier'" in said
    assert "dpdk, af_xdp" in said


def test_options_of_a_backend_that_has_none(gossip, tmp_path):
    said = gossip("--backend", "dpdk:fast=1", "--address", "x", "--peers", peers(tmp_path, "0 x"))
    assert "'fast=1'" in said


def test_node_that_does_not_exist(gossip, tmp_path):
    file = peers(tmp_path, "0 memif:dir=/tmp", "1 memif:dir=/tmp")
    said = gossip(
        *("--backend", "dpdk", "--address", "memif:dir=/tmp", "--peers", file, "--node", "2")
    )
    assert "no line for this node, 2" in said


def test_wrong_line_in_the_peers_file(gossip, tmp_path):
    file = peers(tmp_path, "0 memif:dir=/tmp", "one memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", "memif:dir=/tmp", "--peers", file)
    assert f"{file}:2" in said
    assert "'one'" in said


def test_interface_that_does_not_exist(gossip, tmp_path):
    file = peers(tmp_path, "0 02:00:00:00:00:01")
    said = gossip("--backend", "af_xdp", "--address", "nosuch0", "--peers", file)
    assert "nosuch0" in said


def test_wrong_port_spec(gossip, tmp_path):
    said = gossip(
        "--backend", "dpdk", "--address", "memif:dri=/tmp", "--peers", peers(tmp_path, "0 x")
    )
    assert "dri" in said


def test_peer_with_another_wire_directory(gossip, tmp_path):
    """Both ends of a wire must be in the same directory."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", "1 memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file)
    assert "node 1 is at memif:dir=/tmp" in said


def test_own_line_with_another_address(gossip, tmp_path):
    """So may be found if two nodes have the same number: one has another address than the file."""
    file = peers(tmp_path, "0 memif:dir=/tmp", "1 memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file)
    assert "says that node 0 is at memif:dir=/tmp" in said


def test_peer_that_does_not_start(program, tmp_path):
    """The error names the missing peer."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", f"1 memif:dir={tmp_path}")
    where = ["--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file]
    done = execute([program("examples/gossip"), *where, "--timeout", "500"], code=1)
    assert "no wire to node 1" in done.stderr


def test_two_nodes_with_one_number(program, gossip, tmp_path):
    """With wires in one directory, the second process finds that the first one listens."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", f"1 memif:dir={tmp_path}")
    where = ["--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file]
    first = subprocess.Popen([program("examples/gossip"), *where, "--timeout", "30000"])
    try:
        while not list(tmp_path.glob("*.sock")):
            assert first.poll() is None
        said = gossip(*where)
        assert "another process listens" in said
    finally:
        first.kill()
        first.wait()


@pytest.mark.parametrize(
    ("name", "backend", "text"),
    [
        ("gossip", "udp", "this program is for 2 nodes or more; fix: mpirun -np 2"),
        ("gossip", "dpdk", "nobody at its other end; fix: start two nodes: mpirun -np 2; a "),
        ("sum", "udp", "this program is for 2 nodes or more; fix: mpirun -np 2"),
        ("sum", "dpdk", "nobody at its other end; fix: start two nodes: mpirun -np 2; a "),
    ],
)
def test_one_node_alone(get_lab, program, name, backend, text):
    result = get_lab(2, "memif", 1).mpirun(
        1, [program(f"examples/{name}")], env={"HIKYAKU_RTC_BACKEND": backend}, timeout=30
    )
    assert result.returncode == 1
    assert text in result.stderr
