# SPDX-License-Identifier: BSD-3-Clause
"""Several ports of a rank, ports that ranks share, and wires between the ranks of a node, by the
libfabric provider."""

import tempfile
from pathlib import Path

import pytest

from hikyaku import mpi
from mpi_programs import assert_passed
from test_other_mpis import compiled, launch, run

pytestmark = pytest.mark.one_core

UDP = "udp:addr=tcp0"


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_several_sets_of_wires(get_lab, command):
    run(get_lab(nodes=2, wire="memif", ports=2), 2, command)


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_several_sockets(get_lab, command):
    run(get_lab(nodes=2, wire="udp"), 2, command, env={"FI_HIKYAKU_PORT": f"{UDP}+{UDP}+{UDP}"})


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_one_port_that_ranks_share(get_lab, command):
    env = {"FI_HIKYAKU_PORT": "af_xdp:iface=hk0"}
    run(get_lab(nodes=2, wire="veth", ranks_per_node=2), 4, command, env=env)


def test_another_port_carries_what_one_loses(get_lab):
    """So both are in use: the first one loses everything, which is reported, and the job passes."""
    env = {"FI_HIKYAKU_PORT": f"{UDP};faults=drop=1,seed=1+{UDP}", "FI_LOG_LEVEL": "warn"}
    argv = [compiled("mpich", "p2p_random"), "--rounds", "3", "--timeout", "90"]
    result = launch(get_lab(nodes=2, wire="udp"), 2, argv, env=env)
    assert result.returncode == 0, result.stderr
    assert "PASS" in result.stdout
    assert "delivers nothing to" in result.stderr


def test_optional_port(get_lab):
    port = f"udp:addr=nosuch0?+{UDP}"
    run(get_lab(nodes=2, wire="udp"), 2, "p2p_match", env={"FI_HIKYAKU_PORT": port})


@pytest.mark.parametrize(
    ("port", "says"),
    [
        (f"memif:dir=/tmp+{UDP}", "FI_HIKYAKU_PORT: of memif:dir=/tmp and udp:addr=tcp0 one is a"),
        ("memif:dir=/tmp+memif:dir=/tmp", "FI_HIKYAKU_PORT names memif:dir=/tmp twice"),
        ("memif:dir=/tmp?", "cannot be optional"),
        ("+".join([UDP] * 4), "FI_HIKYAKU_PORT names 4 ports, and the name of an endpoint has"),
        ("udp:addr=nosuch0", "nosuch0"),
    ],
    ids=["kinds", "twice", "optional wires", "too many", "no such interface"],
)
def test_ports_that_are_refused(get_lab, port, says):
    env = {"FI_HIKYAKU_PORT": port, "FI_LOG_LEVEL": "warn"}
    result = launch(get_lab(nodes=2, wire="udp"), 2, [compiled("mpich", "p2p_match")], env=env)
    assert result.returncode != 0
    assert says in result.stderr
    assert "fix:" in result.stderr


def test_several_ports_with_hikyakud_are_refused(get_lab):
    env = {"FI_HIKYAKU_MODE": "hybrid", "FI_LOG_LEVEL": "warn"}
    lab = get_lab(nodes=2, wire="memif", ports=2)
    result = launch(lab, 2, [compiled("mpich", "p2p_match")], env=env)
    assert result.returncode != 0
    said = "FI_HIKYAKU_PORT names 2 ports, and in mode hybrid a rank has one; fix: name one"
    assert said in result.stderr


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "rma_random --rounds 8"])
def test_wires_between_the_ranks_of_a_node(get_lab, command):
    """They carry all, since the sockets lose every frame. The directory of their sockets goes."""
    env = {"FI_HIKYAKU_PORT": f"{UDP};faults=drop=1,seed=1"}
    before = set(Path("/run/hikyaku").glob("wires-*"))
    name, *words = command.split()
    argv = ["--host", "node0:3", compiled(mpi.OPENMPI, name), *words, "--timeout", "90"]
    assert_passed(launch(get_lab(nodes=2, wire="udp"), 3, argv, mpi.OPENMPI, env=env), command)
    assert set(Path("/run/hikyaku").glob("wires-*")) == before


@pytest.mark.parametrize(("wire", "port"), [("udp", UDP), ("veth", "af_xdp:iface=hk0")])
def test_wires_beside_ports(get_lab, wire, port):
    """Two ranks on each of two nodes. Each rank names its wires. A NIC would not bring back what
    its node sends itself."""
    env = {"FI_HIKYAKU_PORT": port, "FI_LOG_LEVEL": "info", "FI_LOG_PROV": "hikyaku"}
    lab = get_lab(nodes=2, wire=wire, ranks_per_node=2)
    argv = [compiled(mpi.OPENMPI, "p2p_random"), "--rounds", "5", "--timeout", "90"]
    result = launch(lab, 4, argv, mpi.OPENMPI, env=env)
    assert result.returncode == 0, result.stderr
    said = "wires to processes of this node: memif:dir=/run/hikyaku/wires-"
    assert result.stderr.count(said) == 4


def test_a_node_without_wires(get_lab):
    """Where their directory is refused, the ports carry all."""
    directory = tempfile.mkdtemp(dir="/tmp")  # a short name, as sockets need
    Path(directory).chmod(0o777)
    lab = get_lab(nodes=2, wire="udp")
    argv = ["--host", "node0:2", compiled(mpi.OPENMPI, "p2p_match")]
    for how, says in (
        (directory, f"others may write to the directory {directory}; fix: chmod 700"),
        ("off", ""),
    ):
        env = {"FI_HIKYAKU_PORT": UDP, "FI_HIKYAKU_NODE_WIRES": how, "FI_LOG_LEVEL": "info"}
        result = launch(lab, 2, argv, mpi.OPENMPI, env=env)
        assert result.returncode == 0, result.stderr
        assert says in result.stderr
        assert "wires to processes of this node: memif" not in result.stderr
    Path(directory).rmdir()
