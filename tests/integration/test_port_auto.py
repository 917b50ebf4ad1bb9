# SPDX-License-Identifier: BSD-3-Clause
"""Ports that nobody names (btl_hikyaku_port=auto), optional ones, and ports of several kinds.

tests/unit/port/test_auto.c has the choice among NICs, which a lab does not have.
"""

import re

import pytest

from mpi_programs import assert_passed

pytestmark = pytest.mark.one_core

UDP, ROUTED = ("udp", 2, 1), ("routed", 2, 1)
COMMAND = "hand_over --rounds 4"
BOTH = "af_xdp:iface=tcp0+udp:addr=tcp0"


def ports_of_the_job(text: str) -> str:
    (said,) = re.findall(r"hikyaku: 2 ranks on 2 nodes, port (\S+), mode inline", text)
    return said


@pytest.mark.parametrize(
    ("lists", "port"),
    [
        ({"if_include": "tcp0"}, "udp:addr=tcp0"),
        ({"if_include": "nope,10.78.0.0/24"}, "udp:addr=tcp0"),
        ({"if_exclude": "tcp0"}, "udp:addr=ctl0"),
        ({"if_exclude": "10.77.0.0/16"}, "udp:addr=tcp0"),
    ],
)
@pytest.mark.parametrize("word", ["auto", ""])
def test_a_port_that_nobody_names(run, lists, port, word):
    mca = {f"btl_hikyaku_{name}": value for name, value in lists.items()}
    result = run(UDP, COMMAND, mca=mca | {"btl_hikyaku_port": word})
    assert_passed(result, COMMAND)
    assert ports_of_the_job(result.stderr) == port


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        ({"if_include": "nope"}, 'is in "nope"; fix: use one of: ctl0, tcp0'),
        ({"if_exclude": "ctl0,tcp0"}, "all interfaces are excluded: ctl0, tcp0; fix: "),
        ({"if_include": "10.78.0.0/33"}, '"10.78.0.0/33" is not a network; fix: '),
        ({"if_include": "a", "if_exclude": "b"}, "both included and excluded; fix: "),
    ],
)
def test_wrong_lists_of_interfaces(run, lists, says):
    mca = {f"btl_hikyaku_{name}": value for name, value in lists.items()}
    result = run(UDP, COMMAND, mca=mca | {"btl_hikyaku_port": "auto"})
    assert result.returncode != 0
    assert says in result.stderr


@pytest.mark.parametrize(
    ("parameter", "value", "says"),
    [
        (
            "if_include",
            "nope",
            "all 2 ranks are on one node: they talk by Open MPI's shared memory\n",
        ),
        ("mode", "hybrd", 'btl_hikyaku_mode: there is no mode "hybrd"; fix: inline, hybrid'),
    ],
)
def test_ranks_of_one_node_need_none(get_lab, program, parameter, value, says):
    """So nobody looks for that interface. A misspelt mode is named all the same."""
    lab = get_lab(2, "udp", 2)
    mca = {"btl_hikyaku_port": "auto", f"btl_hikyaku_{parameter}": value}
    command = [program("tests/mpi/mpi_hand_over"), "--rounds", "4"]
    result = lab.mpirun(2, command, mca=mca, options=["--host", "node0:2"])
    assert_passed(result, COMMAND)
    assert says in result.stderr


def frames_by_path(text: str) -> list[int]:
    """Of both ranks together, by the first and the second port."""
    found = re.findall(r"hikyaku: path([01])_frames (\d+)", text)
    return [sum(int(n) for path, n in found if path == which) for which in "01"]


@pytest.mark.parametrize(
    ("ports", "command"),
    [
        (BOTH, COMMAND),
        (BOTH, "p2p_random --rounds 10"),
        (BOTH, "rma_random --rounds 8"),
        ("udp:addr=tcp0,xdp=1+udp:addr=tcp0", "p2p_random --rounds 10"),
    ],
)
def test_ports_of_two_kinds(run, ports, command):
    """AF_XDP for what is short, UDP for bulk."""
    result = run(UDP, command, mca={"btl_hikyaku_port": ports, "btl_hikyaku_verbose": "5"})
    assert_passed(result, command)
    short, long = frames_by_path(result.stderr)
    assert short > 0
    assert long > 0 or command == COMMAND


def test_a_port_that_one_rank_lacks(run):
    """Its node has no interface of that name. The UDP sockets find each other all the same."""
    mca = {"btl_hikyaku_port": "af_xdp:iface=tcp{rank}?+udp:addr=tcp0", "btl_hikyaku_verbose": "1"}
    result = run(UDP, COMMAND, mca=mca)
    assert_passed(result, COMMAND)
    assert "without an optional port: port af_xdp:iface=tcp1: there is no" in result.stderr


def test_an_optional_port_that_is_the_only_one(run):
    result = run(UDP, COMMAND, mca={"btl_hikyaku_port": "udp:addr=tcp9?"})
    assert result.returncode != 0
    assert "there is no interface 'tcp9'" in result.stderr


@pytest.mark.parametrize("mark", ["", "?"])
def test_a_network_that_does_not_carry_our_frames(run, mark):
    """All that AF_XDP sends is lost. UDP carries it; of an optional port nobody hears."""
    port = f"af_xdp:iface=tcp0;faults=drop=1{mark}+udp:addr=tcp0"
    result = run(UDP, "p2p_random --rounds 10", mca={"btl_hikyaku_port": port})
    assert_passed(result, "p2p_random --rounds 10")
    said = "port 0 (af_xdp:iface=tcp0;faults=drop=1) delivers nothing" in result.stderr
    assert said == (mark == "")


def test_several_flows(run):
    """Both carry bulk, and one that delivers nothing is left out."""
    mca = {"btl_hikyaku_port": "udp:addr=tcp0+udp:addr=tcp0", "btl_hikyaku_verbose": "5"}
    result = run(ROUTED, "rma_random --rounds 8", mca=mca)
    assert_passed(result, "rma_random --rounds 8")
    assert all(frames_by_path(result.stderr))
    mca = {"btl_hikyaku_port": "udp:addr=tcp0;faults=drop=1+udp:addr=tcp0"}
    result = run(ROUTED, "rma_random --rounds 8", mca=mca)
    assert_passed(result, "rma_random --rounds 8")
    assert "port 0 (udp:addr=tcp0;faults=drop=1) delivers nothing" in result.stderr


@pytest.mark.parametrize("port", ["udp:addr=tcp0,port=7007", "af_packet:iface=tcp0"])
def test_what_cannot_be_repeated(run, port):
    result = run(UDP, COMMAND, mca={"btl_hikyaku_port": f"{port}+{port}"})
    assert result.returncode != 0
    assert f"names {port} twice; fix: " in result.stderr


def test_nodes_in_different_networks(run):
    """Their Ethernet frames cannot reach each other, so none is sent."""
    mca = {"btl_hikyaku_port": BOTH, "btl_hikyaku_verbose": "5"}
    result = run(ROUTED, COMMAND, mca=mca)
    assert_passed(result, COMMAND)
    assert frames_by_path(result.stderr) == [0, 0], "one path has no counters of its own"
    assert "delivers nothing" not in result.stderr
