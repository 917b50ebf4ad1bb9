# SPDX-License-Identifier: BSD-3-Clause
"""The examples of run to completion, in the lab: memif, AF_XDP on veth, kernel sockets."""

import json
import re

import pytest

from execute import execute

pytestmark = pytest.mark.alone

# wire of the lab, backend
WIRES = [
    ("memif", "dpdk"),
    ("veth", "af_xdp"),
    ("veth", "dpdk"),
    ("veth", "raw"),
    ("veth", "udp"),
    ("veth", "tcp"),
    ("veth", "tcp:batch=1"),
]
BACKENDS = [backend for wire, backend in WIRES if wire == "veth"]


@pytest.fixture
def run(get_lab, program, monkeypatch):
    """run(wire, backend, nodes, example, …): returns each node's last line and statistics."""

    def each(wire, backend, nodes, name, *options):
        monkeypatch.setenv("HIKYAKU_RTC_BACKEND", backend)
        lab = get_lab(nodes, wire, 1)
        result = lab.mpirun(
            nodes, [program(f"examples/{name}"), *options, "--json", "1"], timeout=100
        )
        assert result.returncode == 0, result.stderr + result.stdout
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        stats = {line["node"]: line for line in lines if "backend" in line}
        assert sorted(stats) == list(range(nodes))
        assert {line["backend"] for line in stats.values()} == {backend.partition(":")[0]}
        assert all(line["bad"] == 0 and line["other_job"] == 0 for line in stats.values())
        return {line["node"]: line for line in lines if "backend" not in line}, stats

    return each


@pytest.mark.parametrize(("wire", "backend"), WIRES)
@pytest.mark.parametrize("repeat", [1, 10])
def test_sum(run, wire, backend, repeat):
    said, stats = run(
        wire, backend, 2, "sum", "--messages", "20000", "--repeat", str(repeat), "--window", "32"
    )
    # each reply was right; what is lost is for a window that found no room
    assert said[1]["wrong"] == 0
    assert said[1]["answered"] + said[1]["lost"] >= 20000
    assert said[1]["answered"] > 10000
    assert stats[0]["types"]["sum"]["messages"] >= said[1]["answered"]


@pytest.mark.parametrize(("wire", "backend"), WIRES)
def test_keycount(run, wire, backend):
    said, _ = run(wire, backend, 2, "keycount", "--keys", "20000")
    assert sum(line["counted"] for line in said.values()) == 40000
    assert all(line["met"] == 20000 and line["given_up"] == 0 for line in said.values())


@pytest.mark.parametrize(("wire", "backend"), [*WIRES, ("four", "dpdk")])
def test_gossip(run, wire, backend):
    """The mean of 0, 100, … is kept exactly, and all come close to it."""
    nodes, wire = (4, "memif") if wire == "four" else (2, wire)
    said, _ = run(wire, backend, nodes, "gossip", "--rounds", "100")
    values = [said[node]["value"] for node in range(nodes)]
    mean = 50.0 * (nodes - 1)
    assert abs(sum(values) / nodes - mean) < 1e-6
    assert max(abs(v - mean) for v in values) < 0.01


@pytest.mark.parametrize("nodes", [4, 8])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_nodes(run, backend, nodes):
    """More nodes than the tcp backend scans one by one, and than a direct veth can join."""
    said, _ = run("veth", backend, nodes, "keycount", "--keys", "2000")
    assert sum(line["counted"] for line in said.values()) == 2000 * nodes
    assert all(line["given_up"] == 0 for line in said.values())


def test_keycount_on_a_bad_wire(run, monkeypatch, short_path):
    """With a tenth of the frames lost, doubled or late, each key is still counted once."""
    faults = "faults=drop=0.1,dup=0.1,reorder=0.1,delay=0.1,seed=7"
    monkeypatch.setenv("HIKYAKU_RTC_ADDRESS_DPDK", f"memif:dir={short_path};{faults}")
    said, stats = run("memif", "dpdk", 2, "keycount", "--keys", "20000")
    assert sum(line["counted"] for line in said.values()) == 40000
    assert all(line["given_up"] == 0 for line in said.values())
    keys = [line["types"]["keys"] for line in stats.values()]
    assert all(k["retries"] > 0 and k["repeated"] > 0 for k in keys), "the wire was not bad"


def test_double(get_lab, program):
    """The program that docs/rtc.md walks through."""
    result = get_lab(2, "memif", 1).mpirun(2, [program("examples/double")], timeout=60)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split("\n")) == sorted(
        ["", "node 0 says 40", "node 0 says 42", "node 0 says 44"]
    )


@pytest.mark.parametrize("wanted, protection", [("1", "auth"), ("1", "seal"), ("0", "seal")])
def test_node_0_says_by_which_backend_the_job_talks(get_lab, program, wanted, protection):
    env = {"HIKYAKU_RTC_BACKEND": "udp", "HIKYAKU_RTC_ANNOUNCE": wanted}
    if protection != "auth":  # auth is the default with a launcher
        env["HIKYAKU_RTC_PROTECTION"] = protection
    lab = get_lab(2, "memif", 1)
    result = lab.mpirun(2, [program("examples/double")], env=env, timeout=60)
    assert result.returncode == 0, result.stderr
    line = f"hikyaku: 2 nodes, backend udp, address tcp0, protection {protection}\n"
    assert result.stderr.count(line) == int(wanted)


def test_sum_ends_by_itself(get_lab, program):
    """Without options, on any backend: a slow one answers fewer requests."""
    lab = get_lab(2, "memif", 1)
    done = lab.mpirun(2, [program("examples/sum"), "--json", "1"], timeout=60)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (said,) = [line for line in lines if "answered" in line]
    assert said["answered"] > 0
    assert said["wrong"] == 0


def test_the_fix_without_a_launcher_starts_the_program(program):
    done = execute([program("examples/sum")], code=None)
    assert done.returncode != 0
    fix = re.search(r"fix: (HIKYAKU_RTC_BACKEND=\S+ .*? PROGRAM)\. ", done.stderr)[1]
    command = fix.replace("PROGRAM", f"{program('examples/sum')} --ms 50")
    assert " 0 wrong" in execute(["sh", "-c", command]).stdout


def test_more_nodes_than_cores(get_lab, program):
    """Nodes that are connected must not keep the core from those that are not: 66 wires."""
    mca, argv = {"mpi_yield_when_idle": "1"}, [program("examples/double")]
    result = get_lab(2, "memif", 1).mpirun(12, argv, mca=mca, timeout=60)
    assert result.returncode == 0, result.stderr + result.stdout
