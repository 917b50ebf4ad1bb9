# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab attack --kind`: strangers against the controller."""

import json

import pytest

from execute import execute
from hikyaku.lab.controller import controlled
from hikyaku.lab.frames import address, register


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("attack-sdn"), "leaf-spine:1x2x1") as (lab, controller):
        number = register(lab, controller.client, ["node0", "node1"])  # so that both are known
        controller.client.delete(f"/v1/jobs/{number}")
        yield lab, controller


@pytest.mark.parametrize(
    ("kind", "got"),
    [
        ("lldp", "no link was made of them"),
        ("rebind", "by status 421"),
        ("idle", "a new switch and REST are served"),
        ("claim", "was heard at leaf"),
    ],
)
def test_attacks_that_fail(network, hikyaku, kind, got):
    lab, controller = network
    argv = [*hikyaku, "lab", "attack", "node1", "--kind", kind, "--lab", lab.name, "--json"]
    result = json.loads(execute(argv).stdout)
    assert not result["succeeded"], result
    assert got in result["got"]
    # untagged frames find it, also if the controller is stopped now
    hosts = controller.client.get("/v1/topology")["hosts"]
    links = {host["address"]: host["link"] for host in hosts}
    assert links[address(lab, "node0")] == "node0:tcp0-leaf0"


def test_without_tls_anybody_is_a_switch(network, hikyaku):
    """docs/sdn.md says so; test_sdn_trouble.py has the same with TLS."""
    lab, controller = network
    argv = [*hikyaku, "lab", "attack", "node1", "--kind", "switch", "--lab", lab.name]
    assert execute(argv).stdout.startswith("the attack succeeded: the controller takes it for ")
    assert controller.ended() is None
