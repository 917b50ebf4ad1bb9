# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on wire ovs whose nodes no path joins: refused at their start, explained while they wait.

A rank knows that a peer does not answer, but not why: the lab knows which links are cut.
"""

from collections.abc import Callable

from ..called import as_typed
from ..errors import HikyakuError
from . import openmpi
from .job import Job
from .links import repair_command, separated
from .topology import Topology

# options by which mpirun places ranks in another way than the lab's default
_PLACED = openmpi.HOSTS - openmpi.HOST | {"map-by", "npernode", "N", "byslot", "ppr"}


def _nodes(topology: Topology, options: list[str]) -> list[str]:
    """The nodes that have ranks; none if another option than --host or -np decides."""
    mapped = any(name.startswith("rmaps_") for name in openmpi.parameters(options))
    if mapped or openmpi.names(options) & _PLACED:
        return []
    if hosts := openmpi.option(options, openmpi.HOST):
        return [each.partition(":")[0] for each in hosts.split(",")]
    return [node.name for node in topology.nodes][: openmpi.rank_count(options)]


def check(topology: Topology, job: Job, options: list[str]) -> None:
    """Raises an error if @job has ranks on nodes that do not reach each other. @options: those of
    mpirun."""
    if not topology.wiring:
        return
    data = [f"hk{k}" for k in range(topology.data_ports)]
    owns = ["tcp0"] if job.tcp or not data else data
    if apart := separated(topology, _nodes(topology, options), owns):
        raise HikyakuError(
            f"links are cut, and ranks would wait for each other: {apart}",
            apart.fix(repair_command(topology.lab)),
        )


class Watch:
    """Says once that nodes cannot reach each other. @note: writes to the job's stderr."""

    def __init__(self, topology: Topology, note: Callable[[str], None]):
        self._topology, self._note = topology, note
        self._done = not topology.wiring

    def look(self) -> None:
        if self._done:
            return
        if apart := separated(self._topology):
            fix = apart.fix(repair_command(self._topology.lab))
            self._note(as_typed(f"hikyaku: links are cut: {apart}; fix: {fix}\n"))
            self._done = True
