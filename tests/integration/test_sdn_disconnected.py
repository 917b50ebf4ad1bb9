# SPDX-License-Identifier: BSD-3-Clause
"""A network switch that loses its controller and goes on forwarding.

No frame is lost or circulates, and the controller takes no node for a host at a link. This also
holds when the switch has its controller again.
"""

import contextlib
from collections import Counter
from contextlib import contextmanager

import pytest

from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, ovs
from hikyaku.lab.controller import LabController, controlled
from hikyaku.lab.frames import address, receivers, register, send, send_argv, started

SOON = 30
NODES = ["node0", "node1", "node2", "node3"]
EVERYBODY = "ff:ff:ff:ff:ff:ff"


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn-disconnected"), "leaf-spine:2x2x2") as (lab, controller):
        register(lab, controller.client, NODES)
        yield lab, controller


@contextmanager
def cut_off(lab: Lab, controller: LabController, switch: str):
    """In the block, @switch has no connection to its controller."""

    def disconnected() -> list[int]:
        return controller.client.get("/v1/status")["disconnected"]

    # an address where no controller listens: without any address the switch would flush its rules
    ovs.set_controllers(lab.topology, ["tcp:127.0.0.1:1"], [switch])
    try:
        process.wait_until(f"{switch} to be disconnected", lambda: len(disconnected()) == 1, SOON)
        yield
    finally:
        ovs.set_controllers(lab.topology, [ovs.CONTROLLER], [switch])
        process.wait_until(f"{switch} to be back", lambda: not disconnected(), SOON)
        controller.wait_links(4)


def hosts(controller: LabController) -> dict:
    found = controller.client.get("/v1/topology")["hosts"]
    return {h["address"]: (h["switch"], h["port"]) for h in found}


@pytest.mark.parametrize("switch", ["spine0", "leaf0"])
def test_a_switch_without_a_controller_forwards_all_frames(network, switch, tmp_path):
    lab, controller = network
    before = hosts(controller)
    to = address(lab, "node3")
    count = 300
    with (
        receivers(lab, tmp_path) as received,
        started(send_argv(lab, "node0", to, count, 0.02)) as stream,
    ):
        with cut_off(lab, controller, switch):
            assert controller.client.get("/v1/status")["links"] == 4
            send(lab, "node1", EVERYBODY, 5)
            # a new job makes the controller compute routes that need no new rules at @switch
            register(lab, controller.client, [n for n in NODES if switch != "leaf0" or n > "node1"])
            send(lab, "node2", EVERYBODY, 5)
            assert hosts(controller) == before
        controller.client.delete("/v1/jobs/2")
        stream.wait(timeout=SOON)
        expected = {"node0": 10, "node1": 5, "node2": 5, "node3": count + 10}
        for node, frames in expected.items():
            with contextlib.suppress(HikyakuError):  # the assertion names the missing frames
                process.wait_until(
                    f"all frames at {node}",
                    lambda n=node, f=frames: len(received[n].received()) >= f,
                    SOON,
                )
            got = Counter(received[node].received())
            wanted = Counter((EVERYBODY, i) for i in range(5) for _ in range(min(frames, 10) // 5))
            wanted += Counter((to, i) for i in range(count) if node == "node3")
            assert got == wanted, f"{node}: missing {wanted - got}, too many {got - wanted}"
    assert hosts(controller) == before
    assert controller.client.get("/v1/status")["counts"].get("host_port", 0) == 0
