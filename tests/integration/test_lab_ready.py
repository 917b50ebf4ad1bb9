# SPDX-License-Identifier: BSD-3-Clause
"""A job in a lab of wire ovs starts when the switches carry packets, or is refused at once."""

import re
import shlex
import subprocess

import pytest

from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Job, Lab, ovs, ready
from hikyaku.sdn.client import Client

LINE = "leaf-spine:1x2x1"
SOON = 60


@pytest.fixture
def lab(lab_name):
    with Lab.up(wire="ovs", switches=LINE, name=lab_name("ready")) as made:
        yield made


def hikyaku_fails(hikyaku: list[str], *words: str) -> str:
    done = subprocess.run(
        [*hikyaku, *words], capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 1
    return done.stderr


def test_without_a_controller_it_is_refused_and_the_fix_works(lab, hikyaku):
    """The printed fix is pasted, and then the same job runs."""
    job = ["lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "hostname"]
    said = hikyaku_fails(hikyaku, *job)
    assert f"lab '{lab.name}' has no controller" in said
    fix = re.search(r"; fix: (.*)", said)[1]
    assert shlex.split(fix)[0] == hikyaku[0], "as the user called it"
    try:
        assert "the controller runs" in process.run(shlex.split(fix), timeout=SOON)
        hosts = Client(lab.directory / "sdn").get("/v1/topology")["hosts"]
        assert {host["link"] for host in hosts} == {
            f"node{i}:{own}-leaf{i}" for i in range(2) for own in ("tcp0", "hk0")
        }
        said = hikyaku_fails(hikyaku, "sdn", "run", "--background", "--lab", lab.name)
        assert f"the controller of lab '{lab.name}' runs already" in said
        assert f"sdn status --lab {lab.name}" in said
        assert sorted(process.run([*hikyaku, *job], timeout=SOON).split()) == ["node0", "node1"]
    finally:
        process.run([*hikyaku, "sdn", "stop", "--lab", lab.name], timeout=SOON)
    # the switches have kept their rules
    assert len(process.run([*hikyaku, *job], timeout=SOON).split()) == 2
    said = hikyaku_fails(hikyaku, *job[:4], "--tag", *job[4:])
    assert f"sdn run --background --lab {lab.name}" in said
    assert "nothing to stop" in process.run([*hikyaku, "sdn", "stop", "--lab", lab.name])


def test_a_switch_that_does_not_connect_is_named(lab, hikyaku, capfd):
    ovs.set_controllers(lab.topology, ["tcp:127.0.0.1:6699"], ["leaf1"])
    state = lab.directory / "sdn"
    controller = subprocess.Popen([*hikyaku, "sdn", "run", "--lab", lab.name])
    try:
        process.wait_until("its address", (state / "address").exists, SOON)
        client = Client(state)
        process.wait_until(
            "two switches", lambda: len(client.get("/v1/status")["switches"]) == 2, SOON
        )
        missing = "2 of 3 switches are connected after 3 s; missing: leaf1; fix: see what the"
        with pytest.raises(HikyakuError, match=missing):
            ready.require_packets(lab.name, lab.topology, state, limit=3)
        assert "hikyaku: 2 of 3 switches are connected" in capfd.readouterr().err
        ovs.set_controllers(lab.topology, [ovs.CONTROLLER], ["leaf1"])
        job = Job(["-np", "2", "hostname"], tcp=True, timeout=SOON)
        assert lab.launch(job).returncode == 0, "it waits for the switch"
        assert len(client.get("/v1/status")["switches"]) == 3
    finally:
        process.stop(controller)
