# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab attack`: what a node that takes no part in a job can do to it."""

import json
import threading

import pytest

from execute import execute
from hikyaku import process
from hikyaku.lab import network
from mpi_programs import assert_passed

pytestmark = pytest.mark.alone

SOON = 30
LAB = (3, "veth", 1)  # the third node attacks


@pytest.fixture
def attacked(get_lab, program, hikyaku, tmp_path):
    """Runs a job of two ranks, and the attack meanwhile. Gives both results."""
    lab = get_lab(*LAB)
    end = tmp_path / "end"
    found = []

    def ports_are_open() -> bool:
        nodes = [lab.node(name).netns for name in ("node0", "node1")]
        return all(any(link["xdp_program"] for link in network.links(netns)) for netns in nodes)

    def attack() -> None:
        try:
            process.wait_until("the ranks to open their ports", ports_are_open, SOON)
            done = execute([*hikyaku, "lab", "attack", "node2", "--lab", lab.name, "--json"])
            found.append(json.loads(done.stdout))
        finally:
            end.touch()

    def go(protection: str):
        thread = threading.Thread(target=attack)
        argv = [program("tests/mpi/mpi_bcast"), "--mode", f"until:{end}", "--timeout", "60"]
        thread.start()
        mca = {"btl_hikyaku_protection": protection, "btl_hikyaku_verbose": "5"}
        result = lab.mpirun(2, argv, mca=mca, timeout=90)
        thread.join()
        return result, found[0]

    return go


def test_without_keys_a_stranger_ends_the_job(attacked):
    result, found = attacked("off")
    assert found["answers"] > 0
    assert found["frames"] <= (1 << 16) + 1
    assert result.returncode != 0
    assert "rank 1 on node1 was restarted" in result.stderr


@pytest.mark.parametrize("protection", ["auth", "seal"])
def test_with_keys_nothing_answers(attacked, protection):
    result, found = attacked(protection)
    assert_passed(result, "bcast")
    assert found == {"frames": 1 << 16, "answers": 0, "key": None, "epoch": None, "ended": []}
