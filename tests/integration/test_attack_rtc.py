# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab attack --kind rtc-…`: a node that hears a job of rtc nodes without a part in it."""

import json
import sys
import threading

import pytest

from execute import execute

LAB = (3, "veth", 1)  # the third node attacks
FRAMES = 20


# Node 1 sends to node 0, which answers. Both sleep between polls, so a busy machine can run them.
NODE = """
import json, pathlib, sys, time
from hikyaku import rtc

end = pathlib.Path(sys.argv[1])
counted = end.with_name("counted")
with rtc.Node(alive_ms=2000) as node:
    node.register(1, "echo", on_message=lambda m: m.data)
    while not end.exists():
        node.poll()
        if node.id == 1 and node.is_member(0):
            node.send(0, 1, bytes(64))
        time.sleep(0.002)
    quiet = 0
    while node.id == 0 and quiet < 100:
        quiet = 0 if node.poll() else quiet + 1
        time.sleep(0.002)
    print(json.dumps(node.stats()), flush=True)
    if node.id == 0:
        counted.touch()
    while not counted.exists():  # node 0 does not count that node 1 leaves
        node.poll()
        time.sleep(0.002)
"""


@pytest.fixture
def attacked(get_lab, hikyaku, tmp_path):
    """Runs two nodes, and the attack meanwhile. Gives the counters of node 0, and what the attack
    found."""
    lab = get_lab(*LAB)
    found = []
    end = tmp_path / "end"

    def attack(kind: str) -> None:
        words = ["lab", "attack", "node2", "--lab", lab.name, "--kind", kind, "--json"]
        try:
            found.append(json.loads(execute([*hikyaku, *words]).stdout))
        finally:
            end.touch()

    def go(kind: str, backend: str, protection: str):
        thread = threading.Thread(target=attack, args=[kind])
        thread.start()
        env = {"HIKYAKU_RTC_BACKEND": backend, "HIKYAKU_RTC_PROTECTION": protection}
        result = lab.mpirun(2, [sys.executable, "-c", NODE, str(end)], env=env, timeout=90)
        thread.join()
        assert result.returncode == 0, result.stderr
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        return next(line for line in lines if line["node"] == 0), found[0]

    return go


@pytest.mark.parametrize("backend", ["raw", "udp"])
@pytest.mark.parametrize("kind", ["rtc-forge", "rtc-replay"])
def test_without_keys_it_is_answered(attacked, backend, kind):
    node0, found = attacked(kind, backend, "off")
    assert found["answers"] == FRAMES
    assert node0["forged"] == node0["replayed"] == 0


@pytest.mark.parametrize("backend", ["raw", "udp"])
@pytest.mark.parametrize("kind", ["rtc-forge", "rtc-replay"])
def test_with_keys_it_changes_a_counter(attacked, backend, kind):
    node0, found = attacked(kind, backend, "auto")
    assert found == {"attack": kind.removeprefix("rtc-"), "frames": FRAMES, "answers": 0}
    counter = {"rtc-forge": "forged", "rtc-replay": "replayed"}[kind]
    assert node0[counter] == FRAMES
    assert node0["forged"] + node0["replayed"] == FRAMES


@pytest.mark.parametrize(("protection", "forged"), [("off", 0), ("auto", FRAMES)])
def test_nodes_that_learn(get_lab, hikyaku, tmp_path, protection, forged):
    """A slice of parameters in another node's name."""
    lab = get_lab(*LAB)
    out = tmp_path / "out"
    words = ["learn", "--lab", lab.name, "--out", str(out), "--nodes", "2", "--backend", "udp"]
    words += ["--max-seconds", "6", "--target-loss", "0", "--max-epochs", "1000000000"]
    words += ["--schedule", "inverse", "--protection", protection]  # it ends by time
    found = []

    def attack() -> None:
        words = ["lab", "attack", "node2", "--lab", lab.name, "--kind", "rtc-forge", "--json"]
        found.append(json.loads(execute([*hikyaku, *words]).stdout))

    thread = threading.Thread(target=attack)
    thread.start()
    execute([*hikyaku, *words], timeout=90)
    thread.join()
    lines = [json.loads(line) for line in (out / "learn.jsonl").read_text().splitlines()]
    (end,) = [line for line in lines if line["event"] == "end" and line["node"] == 0]
    assert found[0]["frames"] == FRAMES
    assert end["forged"] == forged


def test_without_keys_a_stranger_sends_a_node_away(attacked):
    node0, _ = attacked("rtc-leave", "udp", "off")
    assert (node0["left"], node0["members"]) == (1, 1)


def test_with_keys_only_the_node_itself_leaves(attacked):
    node0, _ = attacked("rtc-leave", "udp", "auto")
    assert (node0["left"], node0["members"]) == (0, 2)
    assert node0["forged"] == FRAMES
