# SPDX-License-Identifier: BSD-3-Clause
"""Several ports between two ranks share what is long, and a port that dies is survived."""

import re

import pytest

from mpi_programs import assert_passed, counters, preloaded

pytestmark = pytest.mark.one_core

PAIR = ("memif", 2, 1)
VARIABLE = "OMPI_MCA_btl_hikyaku_port"


def rewrite(sed: str, argv: list[str]) -> list[str]:
    """Wraps the program: the list of ports that the lab gave is edited in each rank."""
    script = f'export {VARIABLE}="$(echo "${VARIABLE}" | sed "{sed}")"; exec "$@"'
    return ["sh", "-c", script, "sh", *argv]


@pytest.fixture
def edited(get_lab, program):
    """Runs a program of tests/mpi with the list of ports edited by sed."""

    def go(sed, command, ports=2, mca=None):
        name, *options = command.split()
        argv = rewrite(sed, [program(f"tests/mpi/mpi_{name}"), *options, "--timeout", "60"])
        mca = {"btl_hikyaku_verbose": "5", **(mca or {})}
        return get_lab(ports=ports).mpirun(2, argv, mca=mca, timeout=90)

    return go


@pytest.mark.parametrize(("wire", "ports"), [("memif", 2), ("memif", 4), ("veth", 2)])
def test_puts_over_paths(run, wire, ports):
    assert_passed(run((wire, 2, 1), "halo_random --mode worker", ports=ports), "halo_random")


def test_reports_say_how_many_ports(get_lab, program):
    spmv = [program("examples/spmv/spmv"), "-n", "16"]
    lab = get_lab(ports=2)
    halo = ["env", "HK_HALO_REPORT=1", *spmv, "--exchange", "halo"]
    result = lab.mpirun(2, halo, timeout=60)
    assert len(re.findall(r"transport worker: puts to .* by 2 ports;", result.stderr)) == 2, (
        result.stderr
    )
    result = lab.mpirun(2, preloaded([*spmv, "--exchange", "mpi"]), timeout=60)
    assert len(re.findall(r"period 1, by 2 ports;", result.stderr)) == 2, result.stderr


def test_ranks_of_two_nodes_with_several_ports_each(run):
    """Four ranks, two on a node, and a network for the first ports and one for the second."""
    command = "halo_random --rounds 12"
    assert_passed(run(("veth", 2, 2), command, ports=2), command)


@pytest.mark.parametrize("command", ["p2p_random", "datatypes", "rma_random"])
def test_messages_over_paths(assert_passes, command):
    assert_passes(PAIR, command, ports=2)


@pytest.mark.parametrize("methods", ["halo", "mpi"])
def test_each_port_carries_its_share(get_lab, program, methods):
    """Puts of the library, and messages that the receiver gets."""
    argv = [program("bench/halo_bench"), "--experiment", "A", "--doubles", "100000"]
    argv += ["--methods", methods, "--rounds", "2", "--sample-ms", "15"]
    mca = {"btl_hikyaku_verbose": "5"}
    result = get_lab(ports=4).mpirun(2, argv, mca=mca, timeout=90)
    assert result.returncode == 0, result.stderr
    by_path = [counters(result.stderr, f"path{i}_bytes") for i in range(4)]
    for rank in range(2):
        shares = [of_ranks[rank] for of_ranks in by_path]
        assert min(shares) > 0.8 * sum(shares) / 4, by_path


def test_short_puts_go_by_the_first_port(get_lab, program):
    argv = [program("bench/halo_bench"), "--experiment", "A", "--doubles", "1000"]
    argv += ["--methods", "halo", "--rounds", "1", "--sample-ms", "5"]
    for least, spread in (("8001", False), ("8000", True)):
        mca = {"btl_hikyaku_verbose": "5", "btl_hikyaku_stripe_min": least}
        result = get_lab(ports=4).mpirun(2, argv, mca=mca, timeout=90)
        assert result.returncode == 0, result.stderr
        puts = sum(counters(result.stderr, "put_bytes"))
        others = sum(sum(counters(result.stderr, f"path{i}_bytes")) for i in (1, 2, 3))
        assert others > puts / 2 if spread else others < puts / 10


@pytest.mark.parametrize("path", [0, 1])
def test_loss_on_one_path(edited, path):
    faults = "faults=drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01,seed=7"
    sed = f"s/+/;{faults}+/" if path == 0 else f"s/$/;{faults}/"
    crc = {"btl_hikyaku_protection": "crc"}
    result = edited(sed, "halo_random --seed 2 --mode worker", mca=crc)
    assert_passed(result, "halo_random")
    assert sum(counters(result.stderr, f"path{path}_lost")) > 0


@pytest.mark.parametrize("command", ["halo_random --mode worker --rounds 20", "p2p_random"])
@pytest.mark.parametrize("path", [0, 1])
def test_a_dead_path_is_survived_and_named(edited, path, command):
    sed = "s/+/;faults=drop=1+/" if path == 0 else "s/$/;faults=drop=1/"
    result = edited(sed, command)
    assert_passed(result, command)
    assert sum(counters(result.stderr, f"path{path}_pauses")) > 0
    assert re.search(
        rf"port {path} \(memif:\S+\) delivers nothing to rank \d on node\d", result.stderr
    )


def test_ends_with_different_numbers_use_the_smaller(edited):
    """Rank 1 has one port of the two."""
    sed = "$([ $OMPI_COMM_WORLD_RANK = 0 ] || echo s/+.*//)"
    result = edited(sed, "halo_random --mode worker --rounds 20")
    assert_passed(result, "halo_random")
    assert counters(result.stderr, "path0_bytes") == []


def test_frames_are_those_of_the_smallest_port(edited):
    result = edited("s/$/,frame=3000/", "halo_random --mode worker --rounds 20")
    assert_passed(result, "halo_random")
    frames, sent = counters(result.stderr, "path0_frames"), counters(result.stderr, "path0_bytes")
    assert all(b <= 3000 * f for f, b in zip(frames, sent, strict=True))


@pytest.mark.parametrize(
    ("sed", "mca", "text"),
    [
        ("s/+.*/&&&&&&&&&/", {}, "there are more than 8 ports"),
        (r"s/\\(.*\\)+.*/\\1+\\1/", {}, "names memif:dir=\\S+ twice; fix: name each port once"),
        ("s/+.*/+af_packet:iface=hk0/", {}, "one is a set of wires .* and one is not"),
        ("s/x/x/", {"btl_hikyaku_mode": "hybrid"}, "names 2 ports, and in mode hybrid"),
    ],
)
def test_lists_that_cannot_be(edited, sed, mca, text):
    result = edited(sed, "halo_random --rounds 1", mca={"btl": "hikyaku,self", **mca})
    assert result.returncode != 0
    assert re.search(rf"hikyaku: node\d: .*{text}", result.stderr), result.stderr
