# SPDX-License-Identifier: BSD-3-Clause
"""What hk_rtc_open() says when it cannot: each error names the thing and the fix."""

import subprocess

import pytest


@pytest.fixture
def gossip(program):
    """gossip(options …) runs a node by itself and gives what it complained of."""

    def run(*options, env=None):
        done = subprocess.run(
            [program("examples/gossip"), *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=env,
        )
        assert done.returncode in (1, 2), done.stdout
        assert "fix: " in done.stderr, done.stderr
        return done.stderr

    return run


def peers(tmp_path, *lines: str) -> str:
    path = tmp_path / "peers"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


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


def test_wrong_line(gossip, tmp_path):
    file = peers(tmp_path, "0 memif:dir=/tmp", "one memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", "memif:dir=/tmp", "--peers", file)
    assert f"{file}:2" in said
    assert "'one'" in said


def test_interface_that_does_not_exist(gossip, tmp_path):
    file = peers(tmp_path, "0 02:00:00:00:00:01")
    said = gossip("--backend", "af_xdp", "--address", "nosuch0", "--peers", file)
    assert "nosuch0" in said


def test_wrong_spec(gossip, tmp_path):
    said = gossip(
        "--backend", "dpdk", "--address", "memif:dri=/tmp", "--peers", peers(tmp_path, "0 x")
    )
    assert "dri" in said


def test_peer_elsewhere(gossip, tmp_path):
    """A wire has both its ends in one place."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", "1 memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file)
    assert "node 1 is at memif:dir=/tmp" in said


def test_own_line_of_another(gossip, tmp_path):
    """Two nodes with one number: one of them is not where the file says."""
    file = peers(tmp_path, "0 memif:dir=/tmp", "1 memif:dir=/tmp")
    said = gossip("--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file)
    assert "says that node 0 is at memif:dir=/tmp" in said


def test_peer_that_does_not_come(program, tmp_path):
    """Names whom it waited for."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", f"1 memif:dir={tmp_path}")
    where = ["--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file]
    done = subprocess.run(
        [program("examples/gossip"), *where, "--timeout", "500"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "no wire to node 1" in done.stderr


def test_two_nodes_with_one_number(program, gossip, tmp_path):
    """On wires of one directory the second one finds the first at its place."""
    file = peers(tmp_path, f"0 memif:dir={tmp_path}", f"1 memif:dir={tmp_path}")
    where = ["--backend", "dpdk", "--address", f"memif:dir={tmp_path}", "--peers", file]
    first = subprocess.Popen([program("examples/gossip"), *where, "--timeout", "30000"])
    try:
        while not list(tmp_path.glob("*.sock")):
            assert first.poll() is None
        said = gossip(*where)
        assert "another process serves" in said
    finally:
        first.kill()
        first.wait()


@pytest.mark.parametrize(
    ("name", "backend", "text"),
    [
        ("gossip", "udp", "this program is for 2 nodes or more; fix: mpirun -np 2"),
        ("gossip", "dpdk", "one node has nobody at its other end; fix: start two nodes"),
    ],
)
def test_one_node_alone(get_lab, program, name, backend, text):
    result = get_lab(2, "memif", 1).mpirun(
        1, [program(f"examples/{name}")], env={"HIKYAKU_RTC_BACKEND": backend}, timeout=30
    )
    assert result.returncode == 1
    assert text in result.stderr
