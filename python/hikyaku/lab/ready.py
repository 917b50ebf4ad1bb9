# SPDX-License-Identifier: BSD-3-Clause
"""Do the switches of a lab on wire ovs carry packets? Waits for those that connect just now.

Without a controller a new switch forwards nothing, and a job in that lab would wait for ever. A
switch that lost its controller keeps its rules, and carries packets as before.
"""

import sys
import time
from pathlib import Path

from ..errors import HikyakuError
from ..sdn.client import Client, Unreachable
from . import ovs
from .topology import Topology

LIMIT_S = 30.0
_REPORT_AFTER_S = 1.0
_AGAIN_S = 0.1


def start_command(lab: str) -> str:
    """The command that starts the controller of @lab."""
    return f"hikyaku sdn run --background --lab {lab}"


def require_packets(lab: str, topology: Topology, state: Path, limit: float = LIMIT_S) -> None:
    """Returns when the switches of @lab carry packets, and raises an error if they will not.

    @state: the directory of its controller.
    """
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


def wait_for_switches(topology: Topology, client: Client, limit: float = LIMIT_S) -> None:
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
