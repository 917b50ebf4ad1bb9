# SPDX-License-Identifier: BSD-3-Clause
"""Asks all ranks of a node, or of the nodes of a lab, for their counters: by their daemon or by
themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import hostd
from ..errors import HikyakuError
from ..netns import inside
from . import Sample, inline


@dataclass(frozen=True)
class Place:
    """Where the daemons and ranks of a node are."""

    base: Path  # directory of the daemons' run directories
    netns: Path | None  # of the ranks; None: this process's own
    node: str = ""  # of a lab


def places(lab: str | None, node: str | None = None) -> list[Place]:
    """The nodes of lab @lab, or only @node of it. Without both: this node."""
    if lab is None:
        return [Place(hostd.run_base(), None)]
    from ..lab import Lab, network

    found = Lab.find(lab, shown=True)
    nodes = [found.node(node)] if node else found.topology.nodes
    return [
        Place(found.node_directory(each.name) / "run", network.NETNS_DIR / each.netns, each.name)
        for each in nodes
    ]


def take(where: Sequence[Place], name: str | None) -> Sample:
    """The counters of daemon @name; without a name, of all daemons and of ranks without one."""
    sample = Sample()
    for place in where:
        for each in hostd.names(place.base) if name is None or len(where) > 1 else [name]:
            if name not in (None, each):
                continue
            try:
                with hostd.Daemon.connect(place.base, each) as it:
                    sample.daemons.append(it.text(hostd.STATS))
            except HikyakuError as error:
                if name:
                    raise
                sample.complaints.append(str(error))
        if not name:
            with inside(place.netns):
                ranks, complaints = inline.ask_all()
            sample.ranks += ranks
            sample.complaints += complaints
    return sample


def nobody(command: str, where: Sequence[Place], lab: str | None) -> HikyakuError:
    """The error if nobody has answered @command. It says how to start a job, or to ask a lab that
    is up."""
    from ..lab import all_names, other_labs

    if lab is not None:
        at = f"on {where[0].node} of" if len(where) == 1 else "in"
        return HikyakuError(
            f"no hikyakud and no rank of Open MPI runs {at} lab '{lab}'; others have no counters",
            f"start a job in another terminal: hikyaku lab mpirun --lab {lab} -np 2 PROGRAM",
        )
    names = {*all_names(), *(known.name for known in other_labs())}
    return HikyakuError(
        f"no hikyakud runs here (looked in {where[0].base}), and no rank of Open MPI",
        ", or: ".join(
            f"hikyaku {command} --lab {name}" for name in sorted(names) if _has_ranks(name)
        )
        or "start a job, and ask while it runs",
    )


def _has_ranks(lab: str) -> bool:
    try:
        sample = take(places(lab), None)
    except HikyakuError:  # it has ended meanwhile, or another release made it
        return False
    return bool(sample.daemons or sample.ranks)
