# SPDX-License-Identifier: BSD-3-Clause
"""The names of hosts: from the lab, and from their own LLDP, which may hold anything."""

import random
import re

import pytest
from networks import lldp
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from rich.console import Console

from hikyaku.cli.sdn import _show_nodes
from hikyaku.sdn.names import MAX_NAME, MAX_NAMES, Names
from hikyaku.sdn.switch import Switch

HOST = 0x0200_0000_0001


def test_a_host_tells_its_name_and_interface():
    names = Names()
    assert (names.name(HOST), names.interface(HOST)) == (None, None)
    names.learn(lldp(b"alpha.example", b"eth1"))
    assert (names.name(HOST), names.interface(HOST)) == ("alpha.example", "eth1")
    names.learn(lldp(b"beta"))
    assert (names.name(HOST), names.interface(HOST)) == ("beta", None)


def test_the_labs_names_are_certain():
    names = Names({HOST: ("node0", "tcp0")})
    names.learn(lldp(b"another", b"eth1"))
    assert (names.name(HOST), names.interface(HOST)) == ("node0", "tcp0")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"a\n\x1b[31mb", "a[31mb"),
        (b"x" * 200, "x" * MAX_NAME),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"\0\0", None),
        (b"", None),
    ],
)
def test_strange_names_do_no_harm(sent, shown):
    names = Names()
    names.learn(lldp(sent))
    assert names.name(HOST) == shown


@pytest.mark.parametrize(("number", "sent"), [(3, b"p3\x1b[2J\n"), (of.OFPP_LOCAL, b"\x1b]0;s1\a")])
def test_names_from_a_switch_move_no_cursor(number, sent):
    """Its ports' names, and its own, go to the log, REST and a terminal."""
    switch = Switch(7, None)
    switch.port(parser.OFPPort(number, "02:00:00:00:00:09", sent, 0, 0, 0, 0, 0, 0, 0, 0))
    assert all(name.isprintable() for name in [switch.name, *switch.ports.values()])
    assert switch.ports == ({3: "p3[2J"} if number == 3 else {})


def test_names_are_not_without_end():
    names = Names()
    for i in range(MAX_NAMES + 10):
        names.learn(lldp(b"many", source=HOST + i))
    assert names.name(HOST + MAX_NAMES) is None
    names.learn(lldp(b"new"))
    assert names.name(HOST) == "new"


def test_the_nodes_of_a_status_are_in_the_order_of_their_numbers():
    names = ["node10", None, "node2", "rack1-3", "node1"]
    hosts = [
        {"name": n, "interface": "hk0", "address": f"0{i}", "link": None, "switch": 1, "port": i}
        | {"up": True}
        for i, n in enumerate(names)
    ]
    console = Console(width=100)
    with console.capture() as text:
        _show_nodes(console, hosts)
    shown = re.findall(r"│ (\S+) +│ hk0", text.get())
    assert shown == ["node1", "node2", "node10", "rack1-3", "–"]


def test_broken_frames_name_nobody():
    draw = random.Random(5)
    names, whole = Names(), lldp(b"alpha")
    for _ in range(2000):
        cut = bytearray(whole[: draw.randrange(len(whole))])
        if len(cut) > 14:
            cut[draw.randrange(14, len(cut))] = draw.randrange(256)
        names.learn(bytes(cut))
    assert names.name(HOST) in (None, "alpha")
