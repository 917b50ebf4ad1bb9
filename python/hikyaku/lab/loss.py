# SPDX-License-Identifier: BSD-3-Clause
"""Links of a lab's switches that lose frames at random, by a seed: hk-lossy (tools/lossy) at their
ends.

A lost frame has left its sender and arrives nowhere. The ports of a switch lose frames that leave
by them, in both directions of a cable between two switches. Frames of a node are lost on arrival at
its switch, since AF_XDP bypasses the place where a node could lose them.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from ..checkout import built
from ..errors import HikyakuError
from ..process import run
from . import ovs
from .topology import Topology

MILLION = 1_000_000


def _file(topology: Topology) -> Path:
    """The file of the interfaces that lose frames; absent while none does."""
    return ovs.directory(topology) / "loss.json"


def losing(topology: Topology) -> dict[str, float]:
    """The interfaces that lose frames, with the lost part."""
    file = _file(topology)
    return json.loads(file.read_text()) if file.exists() else {}


def _lossy(topology: Topology, *arguments: str) -> str:
    return run(ovs.inside(topology, [str(built("tools/lossy/hk-lossy")), *arguments]))


def lose(topology: Topology, ends: Iterable[str], part: float, seed: int) -> None:
    """Makes links lose @part of all frames, independently in each direction; 0 ends this. Resets
    the counters. @ends: their interfaces at switches."""
    if not 0 <= part <= 1:
        raise HikyakuError(f"a link cannot lose {part:g} of its frames", "say 0.01 for 1 %")
    found = losing(topology)
    to_nodes = {end for link in topology.wiring.access for end in ovs.ends(topology, link)}
    ends = list(ends)
    for end in ends:
        found.pop(end, None)
    if part:
        named = [f"{end}/both" if end in to_nodes else end for end in ends]
        _lossy(topology, "set", str(round(part * MILLION)), str(seed), *named)
        found |= dict.fromkeys(ends, part)
    else:
        _lossy(topology, "clear", *ends)
    _file(topology).write_text(json.dumps(found))


def lost(topology: Topology) -> dict[str, tuple[dict, dict]]:
    """By interface that loses frames: the loss of leaving and of arriving frames."""
    names = list(losing(topology))
    lines = _lossy(topology, "show", *names).splitlines() if names else []
    found = {}
    for name, *counts in (line.split() for line in lines):
        out, out_bytes, came, came_bytes = map(int, counts)
        found[name] = (
            {"frames": out, "bytes": out_bytes},
            {"frames": came, "bytes": came_bytes},
        )
    return found
