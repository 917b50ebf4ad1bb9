# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku learn` in the lab, and nodes that are killed and come back over UDP on this machine."""

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from execute import execute
from hikyaku.errors import HikyakuError
from hikyaku.learn import shard
from hikyaku.learn.data import Scaling, split
from hikyaku.learn.job import free_ports
from hikyaku.learn.native import Model
from hikyaku.process import wait_until

SECONDS = 60


def learn(
    hikyaku: list[str], lab: str, out: Path, *words: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    argv = [*hikyaku, "learn", "--lab", lab, "--out", str(out), *words]
    done = execute(argv, code=code, timeout=180)
    return done


def events(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "learn.jsonl").read_text().splitlines()]


def many_rows(path: Path) -> Path:
    """Two classes in so many rows that the training takes many time slices. On a busy machine a
    shorter one ends before a faulty node has run, so nobody could name it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20000, 4))
    y = x @ [1, -2, 0.5, 1] + 0.3 * rng.normal(size=len(x)) > 0
    np.save(path, np.column_stack([x, y]))
    return path


@pytest.mark.parametrize(
    ("nodes", "wire", "words"),
    [
        (2, "memif", ["--backend", "dpdk"]),
        (2, "memif", ["--backend", "udp", "--model", "logistic"]),
        (2, "memif", ["--backend", "tcp", "--model", "svm", "--merge", "push-sum"]),
        (
            4,
            "veth",
            ["--backend", "af_xdp", "--topology", "ring", "--merge", "age", "--protection", "seal"],
        ),
        (8, "veth", ["--backend", "udp", "--merge", "trimmed", "--fault", "3:nan,5:outlier=50"]),
        (4, "memif", ["--merge", "trimmed", "--fault", "2:outlier=50"]),
    ],
)
def test_learn(
    hikyaku: list[str],
    get_lab: Callable,
    tmp_path: Path,
    nodes: int,
    wire: str,
    words: list[str],
) -> None:
    lab = get_lab(nodes, wire)
    faulty = [int(each.partition(":")[0]) for each in words[-1].split(",") if ":" in each]
    if faulty:
        words = [*words, "--data", str(many_rows(tmp_path / "rows.npy")), "--model", "logistic"]
    done = learn(hikyaku, lab.name, tmp_path / "out", "--nodes", str(nodes), *words)
    summary = events(tmp_path / "out")[-1]
    assert summary["event"] == "summary"
    assert summary["stop"] == "converged", done.stdout
    assert summary.get("R²", 0) > 0.9 or summary.get("accuracy", 0) > 0.87
    assert summary["messages"] > 0
    ends = [e for e in events(tmp_path / "out") if e["event"] == "end"]
    assert {e["node"] for e in ends} == set(range(nodes))
    assert all(0 < e["trained"] < e["time"] for e in ends)  # the last gossip comes after training
    said = " ".join(done.stdout.split())
    if faulty:
        assert summary["rejects"] > 0
        assert summary["node"] not in faulty
        best = f"the best of {nodes - len(faulty)} that others accept)"
        assert f"(node {summary['node']}'s model, {best}" in said, done.stdout
    for node in faulty:
        assert f"note: node {node} sent false parameters: " in said, done.stdout
    assert said.count("sent false parameters") == len(faulty), done.stdout
    assert "hardly better" not in said
    given = dict(zip(words[::2], words[1::2], strict=True))
    backend = given.get("--backend", "dpdk")
    kept = given.get("--protection", "off" if backend == "dpdk" else "auth")
    assert f", over {backend} with protection {kept}; " in said, done.stdout
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "learn.jsonl",
        "learn.png",
        "model.npz",
    ]
    assert (tmp_path / "out/learn.png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "out/model.npz", allow_pickle=False) as model:
        assert np.isfinite(model["weight"]).all()


@pytest.mark.parametrize("nodes", ["2", "34"])
def test_it_brings_a_lab_up_and_takes_it_down(
    hikyaku: list[str], tmp_path: Path, nodes: str
) -> None:
    """34 nodes are more than wires of memif can join."""
    learn(hikyaku, "no-such-lab", tmp_path / "out", "--target-loss", "0.1", "--nodes", nodes)
    assert events(tmp_path / "out")[-1]["stop"] == "target"
    status = execute(["ip", "netns"], timeout=30)
    done = execute([*hikyaku, "lab", "status", "--lab", "no-such-lab"], code=None)
    assert done.returncode == 1, status.stdout


@pytest.mark.parametrize(
    ("words", "backend"), [([], "udp"), (["--backend", "tcp:batch=1"], "tcp:batch=1")]
)
def test_nodes_that_lack_ports_share_an_interface(
    hikyaku: list[str], get_lab: Callable, tmp_path: Path, words: list[str], backend: str
) -> None:
    lab = get_lab(2, "veth")
    words = ["--target-loss", "0.1", "--nodes", "3", *words]
    done = learn(hikyaku, lab.name, tmp_path / "out", *words)
    assert f", over {backend} with protection auth; " in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("p,q\n1,2\n2,\n", [], "row 3, column 2 (q): the value is missing"),
        ("p,q\n1,2.5\n2,3.5\n", ["--nodes", "3"], "3 nodes, and the data has 2 rows"),
        ("p,k\n1,a\n2,b\n", [], "--model logistic, svm or mlp"),
        ("p,q\n1,2.5\n2,3.5\n", ["--topology", "file"], "needs --topology-file FILE"),
        ("p,q\n1,2.5\n2,3.5\n", ["--address", "x"], "--address needs --launch or"),
    ],
)
def test_bad_input_leaves_nothing(
    hikyaku: list[str], tmp_path: Path, text: str, words: list[str], said: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    done = learn(hikyaku, "unused", tmp_path / "out", "--data", str(path), *words, code=1)
    assert said in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_nodes_that_fail_are_told_and_leave_nothing(
    hikyaku: list[str], get_lab: Callable, tmp_path: Path, program: Callable
) -> None:
    # refused before it looks for its data or for other nodes
    for fault in ("1:outlier=", "1:outlier=far"):
        words = ["--fault", fault]
        node = [program("systems/learn/hk_learn"), "--shard", "/dev/null", *words]
        assert "NODE:outlier=LENGTH" in execute(node, code=2).stderr
    done = learn(hikyaku, get_lab(2).name, tmp_path / "out", *words, code=1)
    assert "NODE:nan or NODE:outlier=LENGTH" in done.stderr
    assert not list((tmp_path / "out").iterdir())


def test_interrupted_it_leaves_nothing(
    hikyaku: list[str], get_lab: Callable, tmp_path: Path
) -> None:
    lab = get_lab(2)
    argv = [*hikyaku, "learn", "--lab", lab.name, "--out", str(tmp_path / "out"), "--schedule"]
    argv += ["constant", "--max-epochs", "100000000", "--backend", "udp"]
    child = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_until(
            "nodes train",
            lambda: any((tmp_path / "out").glob(".learn-*/log-*")) or child.poll() is not None,
            SECONDS,
        )
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
    assert child.returncode == 130, err
    assert not list((tmp_path / "out").iterdir())
    assert not lab.status()["processes"]


# ---- killed, and back ----------------------------------------------------------------------------


class Nodes:
    """hk_learn without a launcher, one process a node, on UDP ports of this machine."""

    def __init__(self, directory: Path, program: str, nodes: int):
        rng = np.random.default_rng(3)
        x = rng.normal(size=(1200, 5))
        y = x @ rng.normal(size=5) + rng.normal(size=1200)
        scaling = Scaling.of(x, y, regression=True)
        self.x, self.y = scaling.x(x), scaling.y(y)
        self.model = Model("linear", 5, l2=0.01)
        self.directory, self.program, self.nodes = directory, program, nodes
        self.child: dict[int, subprocess.Popen] = {}
        for i, rows in enumerate(split(1200, nodes, 1)):
            path = directory / f"shard-{i}"
            shard.write(
                path, self.x[rows], self.y[rows], classes=0, node=i, nodes=nodes, total=1200
            )
        lines = [f"{i} 127.0.0.1:{port}\n" for i, port in enumerate(free_ports(nodes))]
        (directory / "peers").write_text("".join(lines))

    def least(self) -> float:
        """The least loss on all rows."""
        x, y = self.x, self.y
        best = np.linalg.solve(x.T @ x / 1200 + 0.01 * np.eye(5), x.T @ y / 1200)
        return self.model.loss(np.append(best, 0.0), x, y)

    def start(self, node: int, *words: str) -> None:
        d = self.directory
        argv = [self.program, "--shard", f"{d}/shard-{{node}}", "--log", f"{d}/log-{{node}}"]
        argv += ["--output", f"{d}/end-{{node}}", "--peers", f"{d}/peers", "--backend", "udp"]
        argv += ["--node", str(node), "--key", "77", "--l2", "0.01", "--alive-ms", "50", "--yield"]
        argv += ["--timeout-ms", "20000", "--max-seconds", "100", *words]
        self.child[node] = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)

    def lines(self, node: int) -> list[dict]:
        path = self.directory / f"log-{node}"
        if not path.exists():
            return []
        whole = path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def wait_for(self, what: str, node: int, condition: Callable[[dict], bool], after: int = 0):
        def there() -> bool:
            for i, child in self.child.items():
                if child.poll() not in (None, 0, -signal.SIGKILL):
                    raise AssertionError(f"node {i}: {child.stderr.read()}")
            return any(condition(line) for line in self.lines(node)[after:])

        try:
            wait_until(what, there, SECONDS)
        except HikyakuError as late:
            last = {i: self.lines(i)[-3:] for i in self.child}
            raise AssertionError(f"{late}; the last lines of each node: {last}") from late

    def end(self) -> None:
        for child in self.child.values():
            child.kill()
            child.wait(timeout=10)


@pytest.fixture
def nodes(tmp_path: Path, program: Callable[[str], str]) -> Iterator[Nodes]:
    started = Nodes(tmp_path, program("systems/learn/hk_learn"), 3)
    try:
        yield started
    finally:
        started.end()


def trained(epochs: int) -> Callable[[dict], bool]:
    return lambda line: line["event"] == "progress" and line["epochs"] > epochs


@pytest.mark.parametrize(("merge", "keys"), [("mean", True), ("push-sum", False)])
def test_killed_and_back(nodes: Nodes, merge: str, keys: bool) -> None:
    words = ["--merge", merge, "--schedule", "inverse", "--max-epochs", "100000000"]
    if keys:
        secret = nodes.directory / "secret"
        secret.touch(mode=0o600)
        secret.write_text("5e" * 32)
        words += ["--secret", str(secret)]
    for i in range(3):
        nodes.start(i, *words)
    nodes.wait_for("node 0 trains", 0, trained(20))
    nodes.wait_for("node 1 trains", 1, trained(20))
    nodes.child[1].kill()
    nodes.child[1].wait(timeout=10)
    nodes.wait_for(
        "node 0 misses node 1",
        0,
        lambda line: line["event"] == "member" and line["peer"] == 1 and not line["joined"],
    )
    assert not [line for line in nodes.lines(0) if line.get("left")], "it was killed"
    before = len(nodes.lines(1))
    nodes.start(1, *words)
    nodes.wait_for(
        "node 1 takes over what the others know",
        1,
        lambda line: line["event"] == "progress" and line["copied"] > 0,
        before,
    )
    nodes.wait_for("node 1 trains again", 1, trained(20), before)
    # one is asked to end; the others learn it from each other, and end as well
    nodes.child[2].terminate()
    assert nodes.child[2].wait(timeout=SECONDS) == 0
    gone = [line for line in nodes.lines(0) if line["event"] == "member" and line["peer"] == 2]
    assert all(line["joined"] or line["left"] for line in gone), "it told that it leaves"
    decided = nodes.lines(2)[-1]["stop_loss"]
    assert decided > 0
    for i, child in nodes.child.items():
        assert child.wait(timeout=SECONDS) == 0, f"node {i}: {child.stderr.read()}"
        last = nodes.lines(i)[-1]
        assert (last["event"], last["stop"], last["decider"]) == ("end", "asked", 2)
        assert last["stop_loss"] == decided
    least = nodes.least()
    for i in range(3):
        w, _ = shard.read_parameters(nodes.directory / f"end-{i}", 6)
        assert nodes.model.loss(w, nodes.x, nodes.y) < least * 1.02


def test_left_with_the_liar(tmp_path: Path, program: Callable[[str], str]) -> None:
    """Two of four nodes stop, as on a busy machine, and node 0 sees node 2 alone, which lies."""
    nodes = Nodes(tmp_path, program("systems/learn/hk_learn"), 4)
    words = ["--merge", "trimmed", "--fault", "2:outlier=50", "--schedule", "inverse"]
    words += ["--max-epochs", "100000000", "--report-seconds", "0.05"]
    stopped = ()
    try:
        for i in range(4):
            nodes.start(i, *words)
        for i in range(4):
            nodes.wait_for(f"node {i} trains", i, trained(20))
        stopped = nodes.child[1], nodes.child[3]
        for child in stopped:
            child.send_signal(signal.SIGSTOP)
        nodes.wait_for("node 0 misses both", 0, lambda line: line.get("members") == 2)
        before = len(nodes.lines(0))
        alone = next(line for line in nodes.lines(0) if line.get("members") == 2)["epochs"]
        nodes.wait_for("node 0 trains alone", 0, trained(alone + 200), before)
        lines = [line for line in nodes.lines(0)[before:] if line["event"] == "progress"]
        assert all(line["loss"] < 1 for line in lines), "without a model it is 0.5"
        assert lines[-1]["refused"]["few"] > 0
        for child in stopped:
            child.send_signal(signal.SIGCONT)
        nodes.wait_for("all are back", 0, lambda line: line.get("members") == 4, before)
        nodes.child[0].terminate()
        for i, child in nodes.child.items():
            assert child.wait(timeout=SECONDS) == 0, f"node {i}: {child.stderr.read()}"
        best = nodes.least()
        for i in (0, 1, 3):
            w, _ = shard.read_parameters(nodes.directory / f"end-{i}", 6)
            assert nodes.model.loss(w, nodes.x, nodes.y) < best * 1.1, f"node {i}"
    finally:
        for child in stopped:
            child.send_signal(signal.SIGCONT)
        nodes.end()


def fill_socket(nodes: Nodes, node: int) -> None:
    """Sends zeros to a stopped node, until its socket has no space."""
    host, _, port = (
        (nodes.directory / "peers").read_text().splitlines()[node].split()[1].partition(":")
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:

        def full() -> bool:
            for _ in range(1000):
                sender.sendto(bytes(1000), (host, int(port)))
            lines = map(str.split, Path("/proc/net/udp").read_text().splitlines())
            return any(int(x[-1]) for x in lines if x[1].endswith(f":{int(port):04X}"))

        wait_until(f"the socket of node {node} is full", full, SECONDS)


def test_a_node_that_hears_nothing_learns_of_the_end(
    tmp_path: Path, program: Callable[[str], str]
) -> None:
    """A node stops, as on a busy machine, until its socket is full. Then training ends."""
    nodes = Nodes(tmp_path, program("systems/learn/hk_learn"), 2)
    words = ["--schedule", "inverse", "--max-epochs", "100000000", "--report-seconds", "0.01"]
    words += ["--alive-ms", "1000"]  # it is lost after ten times as long
    try:
        for i in range(2):
            nodes.start(i, *words)
        for i in range(2):
            nodes.wait_for(f"node {i} trains", i, trained(20))
        nodes.child[1].send_signal(signal.SIGSTOP)
        fill_socket(nodes, 1)
        nodes.child[0].terminate()
        nodes.wait_for(
            "node 0 ends",
            0,
            lambda line: line["event"] == "end" or line.get("state") == "settling",
        )
        nodes.child[1].send_signal(signal.SIGCONT)
        for i, child in nodes.child.items():
            assert child.wait(timeout=SECONDS) == 0, f"node {i}: {child.stderr.read()}"
            assert (nodes.lines(i)[-1]["event"], nodes.lines(i)[-1]["stop"]) == ("end", "asked")
    finally:
        nodes.end()


def test_another_model_is_refused_and_named(nodes: Nodes) -> None:
    words = ["--schedule", "constant", "--max-epochs", "100000000"]
    nodes.start(0, *words)
    nodes.start(1, *words)
    nodes.start(2, *words, "--l2", "0.5")
    nodes.wait_for(
        "node 0 says who trains another model",
        0,
        lambda line: (line["event"], line.get("peer"), line.get("why")) == ("refused", 2, "model"),
    )


def test_a_shard_that_is_not_this_nodes(nodes: Nodes) -> None:
    (nodes.directory / "shard-0").write_bytes((nodes.directory / "shard-1").read_bytes())
    nodes.start(0)
    assert nodes.child[0].wait(timeout=SECONDS) == 1
    assert "shard-0 is for node 1 of 3, and this is node 0 of 3" in nodes.child[0].stderr.read()


def test_alone_it_waits_and_goes_on(nodes: Nodes) -> None:
    nodes.start(0, "--timeout-ms", "50", "--max-epochs", "50")
    start = time.monotonic()
    assert nodes.child[0].wait(timeout=SECONDS) == 0
    assert time.monotonic() - start < SECONDS
    kinds = {line["event"]: line for line in nodes.lines(0)}
    assert kinds["absent"]["nodes"] == [1, 2]
    assert kinds["end"]["stop"] == "epochs"
    _, first, second = (nodes.directory / "peers").read_text().splitlines()
    others = ", ".join("{} ({})".format(*line.split()) for line in (first, second))
    said = nodes.child[0].stderr.read()
    assert (
        f"node 0 trains without 2 of 3 nodes, which have not answered for 50 ms: {others}" in said
    )
    assert "fix: start them" in said


def test_the_start_says_if_there_is_no_secret(nodes: Nodes) -> None:
    for words in ([], ["--protection", "off"]):
        nodes.start(0, "--timeout-ms", "50", "--max-epochs", "5", *words)
        assert nodes.child[0].wait(timeout=SECONDS) == 0
        said = nodes.child[0].stderr.read().splitlines()[0]
        assert ", protection off" in said
        no_secret = said.endswith("off: there is no secret (HIKYAKU_RTC_SECRET; docs/rtc.md)")
        assert no_secret == (words == [])
    nodes.start(0, "--protection", "auth")
    assert nodes.child[0].wait(timeout=SECONDS) == 1
    assert nodes.child[0].stderr.read().endswith("give its path by HIKYAKU_RTC_SECRET\n")


def test_shards_that_nodes_are_started_on_by_hand(hikyaku, nodes, tmp_path):
    """With the command that `--shards` prints, and addresses in a file (docs/learn.md)."""
    place = tmp_path / "shards"
    words = ["--nodes", "3", "--shards", str(place), "--backend", "udp"]
    said = execute([*hikyaku, "learn", *words], timeout=60).stdout
    first, command = said.splitlines()
    assert first == f"wrote {place}/shard-0 to shard-2; each node runs"
    common = [*shlex.split(command), "--key", "77"]
    common += ["--peers", str(nodes.directory / "peers")]
    running = [subprocess.Popen([*common, "--node", str(i)]) for i in range(3)]
    assert [each.wait(timeout=SECONDS) for each in running] == [0, 0, 0]
    for i in range(3):
        lines = list(map(json.loads, (place / f"log-{i}").read_text().splitlines()))
        assert lines[-1]["stop"] == "converged"
        assert "absent" not in [line["event"] for line in lines]  # they wait for each other
