# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of hikyaku/rtc.h find each other through mpirun's PMIx, without MPI (rtc/join.h)."""

import re

import pytest

from execute import execute

LINE = re.compile(
    r"node (\d+) of (\d+), local (\d+), key ([0-9a-f]{8}):((?: \S+)+); (\S+) at (\S+)"
)


@pytest.fixture
def probe(program):
    return program("tests/unit/rtc/join_probe")


def lines(out: str) -> list[tuple[int, int, int, str, list[str], str, str]]:
    found = [LINE.fullmatch(line) for line in out.splitlines()]
    assert all(found), out
    return [(int(m[1]), int(m[2]), int(m[3]), m[4], m[5].split(), m[6], m[7]) for m in found if m]


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 1), (4, 2)])
def test_all_learn_all_addresses(get_lab, probe, nodes, per_node):
    """Three times in a row by each process: a process may open several nodes."""
    lab = get_lab(nodes, "veth", per_node)
    size, turns = nodes * per_node, 3
    result = lab.mpirun(size, [probe, "20000", str(turns)], tcp=True, timeout=60)
    assert result.returncode == 0, result.stderr
    seen = lines(result.stdout)
    assert sorted(node for node, *_ in seen) == sorted(list(range(size)) * turns)
    assert {count for _, count, *_ in seen} == {size}
    assert {key for _, _, _, key, *_ in seen} == {seen[0][3]}, "one job, one key"
    for turn in range(turns):
        wanted = [f"at-{n}-{turn}" for n in range(size)]
        assert sum(addresses == wanted for *_, addresses, _, _ in seen) == size
    # consecutive ranks are on different nodes of the lab
    assert all(local == node // nodes for node, _, local, *_ in seen)


def test_a_node_that_does_not_come_is_named(get_lab, probe):
    lab = get_lab(2, "veth", 1)
    result = lab.mpirun(2, [probe, "1500", "1", "1"], tcp=True, timeout=60)
    assert result.returncode != 0
    assert "1 of 2 nodes have not joined in time: node 1 (node1)" in result.stderr


def test_without_launcher_both_ways_are_named(probe):
    alone = execute([probe], code=1, timeout=20)
    assert "mpirun" in alone.stderr
    assert "srun --mpi=pmix" in alone.stderr
    assert "peers_file" in alone.stderr


@pytest.mark.parametrize(
    ("wire", "tcp", "backend", "address"),
    [
        ("veth", False, "af_xdp", "hk{local}"),
        ("veth", True, "tcp", "tcp0"),
        ("memif", False, "dpdk", "memif:dir="),
    ],
)
def test_the_lab_says_where_to_open(get_lab, probe, wire, tcp, backend, address):
    lab = get_lab(2, wire, 1)
    result = lab.mpirun(2, [probe], tcp=tcp, timeout=60)
    assert result.returncode == 0, result.stderr
    for _, _, local, _, _, name, at in lines(result.stdout):
        assert name == backend
        assert at.startswith(address.replace("{local}", str(local)))


def test_the_users_environment_wins(get_lab, probe, monkeypatch):
    monkeypatch.setenv("HIKYAKU_RTC_BACKEND", "udp")
    monkeypatch.setenv("HIKYAKU_RTC_ADDRESS_UDP", "tcp0:47{rank}")
    result = get_lab(2, "veth", 1).mpirun(2, [probe], tcp=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert {(name, at) for *_, name, at in lines(result.stdout)} == {
        ("udp", "tcp0:470"),
        ("udp", "tcp0:471"),
    }
