# SPDX-License-Identifier: BSD-3-Clause
"""Several ports of a rank, and ports that ranks share, by the libfabric provider."""

import pytest

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
