# SPDX-License-Identifier: BSD-3-Clause
"""Do the switches of a lab on wire ovs carry packets? Waits for those that connect just now.

Without a controller a new switch forwards nothing, and a job in that lab would wait for ever. A
switch that lost its controller keeps its rules, and carries packets as before.
"""

import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HikyakuError
from ..netns import inside
from . import network, ovs
from .topology import Topology

if TYPE_CHECKING:  # most labs have no switches
    from ..sdn.client import Client

LIMIT_S = 30.0
_REPORT_AFTER_S = 1.0
_AGAIN_S = 0.1
_KNOWN_S = 3.0
# EtherType 0x9000, a test of the link: switches send it as a sign of life, and receivers ignore it
_INTRODUCTION = b"\xff" * 6 + b"%b" + b"\x90\x00" + bytes(46)


def start_command(lab: str) -> str:
    """The command that starts the controller of @lab."""
    return f"hikyaku sdn run --background --lab {lab}"


def require_packets(lab: str, topology: Topology, state: Path, limit: float = LIMIT_S) -> None:
    """Returns when the switches of @lab carry packets, and raises an error if they will not.

    @state: the directory of its controller.
    """
    from ..sdn.client import Client, Unreachable

    try:
        client = Client(state, start=start_command(lab))
    except Unreachable:
        _require_rules(lab, topology)
    else:
        wait_for_switches(topology, client, limit)


def _require_rules(lab: str, topology: Topology) -> None:
    """No controller of ours runs: another one may, or an earlier one has left its rules."""
    silent = [s for s in ovs.without_rules(topology) if not ovs.is_connected(topology, s)]
    if silent:
        raise HikyakuError(
            f"lab '{lab}' has no controller, and its switches {', '.join(silent)} forward nothing",
            start_command(lab),
        )


def wait_for_switches(topology: Topology, client: "Client", limit: float = LIMIT_S) -> None:
    """Waits until all switches are connected, or known from before, and have their rules."""
    switches = topology.wiring.switches
    start = time.monotonic()
    reported = ""
    while True:
        status = client.get("/v1/status")
        there = {int(number) for number in status["switches"]} | set(status["disconnected"])
        missing = [name for i, name in enumerate(switches) if i + 1 not in there]
        if not missing and status["settled"]:
            return
        text = f"{len(switches) - len(missing)} of {len(switches)} switches are connected"
        passed = time.monotonic() - start
        if passed > limit:
            raise _late(topology.lab, text, missing, status["refused_switches"], limit)
        if passed > _REPORT_AFTER_S and text != reported:
            print(f"hikyaku: {text}", file=sys.stderr, flush=True)
            reported = text
        time.sleep(_AGAIN_S)


def introduce_nodes(topology: Topology, client: "Client") -> None:
    """Each node sends a frame from each interface that is up, so that status and page show it. A
    node that the controller does not know after some seconds appears when it sends something
    itself."""
    end = time.monotonic() + _KNOWN_S
    while True:
        known = {host["address"] for host in client.get("/v1/topology")["hosts"]}
        silent = [
            (node.netns, link)
            for node in topology.nodes
            for link in network.links(node.netns)
            if link["name"] in ovs.node_links(topology) and link["up"] and link["mac"] not in known
        ]
        if not silent or time.monotonic() > end:
            return
        for netns, link in silent:
            with inside(network.NETNS_DIR / netns):
                raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            with raw, suppress(OSError):  # the interface has gone down
                raw.bind((link["name"], 0))
                raw.send(_INTRODUCTION % bytes.fromhex(link["mac"].replace(":", "")))
        time.sleep(_AGAIN_S)


def _late(
    lab: str, text: str, missing: list[str], refused: dict[str, str], limit: float
) -> HikyakuError:
    if not missing:
        what = f"the switches have not confirmed their rules within {limit:g} s"
    else:
        what = f"{text} after {limit:g} s; missing: {', '.join(missing)}"
    reasons = "".join(f"; {reason}" for reason in refused.values())
    return HikyakuError(
        what + reasons, f"see what the controller reports: hikyaku sdn status --lab {lab}"
    )
