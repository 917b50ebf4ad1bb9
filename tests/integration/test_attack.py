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

    def ranks_have_talked() -> bool:
        return end.with_suffix(".begun").exists()

    def attack(kinds: list[str], at_start: bool) -> None:
        words = [*hikyaku, "lab", "attack", "node2", "--lab", lab.name, "--json", "--kind"]
        try:
            if at_start:
                process.wait_until("the ranks to open their ports", ports_are_open, SOON)
            else:
                process.wait_until("the first round of the job", ranks_have_talked, SOON)
            found.extend(json.loads(execute([*words, kind]).stdout) for kind in kinds)
        finally:
            end.touch()

    def go(protection: str, *kinds: str, name="bcast", limit=60, at_start=False):
        thread = threading.Thread(target=attack, args=[kinds or ["takeover"], at_start])
        argv = [program(f"tests/mpi/mpi_{name}"), "--mode", f"until:{end}"]
        argv += ["--timeout", str(limit)]
        thread.start()
        mca = {"btl_hikyaku_protection": protection, "btl_hikyaku_verbose": "5"}
        result = lab.mpirun(2, argv, mca=mca, timeout=90)
        thread.join()
        return result, found if kinds else found[0]

    return go


def test_without_keys_a_stranger_ends_the_job(attacked):
    result, found = attacked("off")
    assert found["answers"] > 0
    assert found["frames"] <= (1 << 16) + 1
    assert result.returncode != 0
    assert "rank 1 on node1 was restarted" in result.stderr, result.stderr


@pytest.mark.parametrize("protection", ["auth", "seal"])
def test_with_keys_nothing_answers(attacked, protection):
    result, found = attacked(protection, at_start=True)
    assert_passed(result, "bcast")
    assert found == {"frames": 1 << 16, "answers": 0, "key": None, "epoch": None, "ended": []}


def test_without_keys_a_forger_on_the_path_changes_results(attacked):
    """They end it, or it waits for what does not come any more."""
    result, found = attacked("off", "forge", name="rma_random", limit=5)
    assert found[0]["heard"]["data"] > 0
    assert result.returncode != 0


@pytest.mark.parametrize("protection", ["auth", "seal"])
def test_with_keys_frames_that_were_heard_are_of_no_use(attacked, protection):
    """Messages, puts, gets and atomic operations, and their acknowledgements."""
    kinds = ["replay", "reflect", "forge"]
    result, found = attacked(protection, *kinds, name="rma_random")
    assert_passed(result, "rma_random")
    assert [f["attack"] for f in found] == kinds
    if protection == "auth":  # whose types can be read
        assert all(f["heard"].keys() >= {"data", "put", "ack"} for f in found), found
