# SPDX-License-Identifier: BSD-3-Clause
"""The entries that jobs need in each switch of a leaf-spine network, computed without switches by
the code that the controller installs from: `hikyaku sdn entries`.

Pure. Ranks fill one node after the other, and a job has at most as many ranks as a tag can name.
"""

from collections.abc import Iterable

from ..errors import HikyakuError
from . import exact
from .algorithms.allreduce import steps
from .exact import Entries
from .network import Job, Network
from .program import compute
from .tag import RANKS, Function, Tag
from .wired import of_wiring

MASKED, EXACT = "masked", "exact"
MOST_RANKS = 16_384  # about a minute of computing
MOST_TAGS = (
    1 << 18
)  # in use by a job, for the exact form; each has an entry in two or more switches
PER_NODE, PER_LEAF, SPINES = 16, 32, 8  # at most


def shape(ranks: int) -> tuple[str, int]:
    """The network for @ranks, and the ranks on each node. It has at least 8 nodes and 2 leaves."""
    per_node = max(1, min(PER_NODE, ranks // 8))
    nodes = -(-ranks // per_node)
    per_leaf = max(1, min(PER_LEAF, -(-nodes // 2)))
    spines = max(2, min(SPINES, per_leaf // 4))
    return f"leaf-spine:{spines}x{-(-nodes // per_leaf)}x{per_leaf}", per_node


def jobs_on(network: Network, ranks: int, per_node: int) -> list[Job]:
    hosts = sorted(network.graph.hosts)
    found = []
    for first in range(0, ranks, RANKS):
        own = range(first, min(first + RANKS, ranks))
        places = {rank - first: hosts[rank // per_node] for rank in own}
        found.append(Job(len(found) + 1, ranks=places))
    return found


def used(job: Job, functions: Iterable[Function]) -> set[int]:
    """The tags that @job has in use after collectives of all its ranks. Acknowledgements take the
    same pairs in the other direction. A Bcast has its root at rank 0, and the others answer it."""
    ranks = sorted(job.ranks)
    found: set[int] = set()
    for function in functions:
        if function == Function.BCAST:
            found.add(int(Tag(job.number, function, 0, 0, group=True)))
            pairs = {(0, rank) for rank in ranks[1:]}
        elif function == Function.ALLREDUCE:
            pairs = {pair for step in steps(ranks) for pair in step.items()}
        else:
            pairs = {(a, b) for a in ranks for b in ranks if a < b}
        ways = pairs | {(b, a) for a, b in pairs}
        found |= {int(Tag(job.number, function, a, b)) for a, b in ways}
    return found


def planned(
    network: Network, jobs: list[Job], functions: Iterable[Function]
) -> dict[str, dict[int, Entries]]:
    """The entries of each switch, by form. The exact form is made of the masked one."""
    _check(jobs, functions)
    masked = compute(network, jobs)
    tags = {job.number: used(job, functions) for job in jobs}
    by_form = {MASKED: masked, EXACT: exact.compiled(network, jobs, masked, tags)}
    return {
        form: {switch: exact.count(program) for switch, program in programs.items()}
        for form, programs in by_form.items()
    }


def _check(jobs: list[Job], functions: Iterable[Function]) -> None:
    most = max(len(job.ranks) for job in jobs)
    if most * (most - 1) > MOST_TAGS and set(functions) - {Function.BCAST, Function.ALLREDUCE}:
        raise HikyakuError(
            f"all pairs of {most} ranks are {most * (most - 1)} tags, and each has an entry of its "
            f"own in two or more switches; the most that are computed are {MOST_TAGS}",
            "fewer --ranks, or --functions allreduce,bcast",
        )


def table(ranks: Iterable[int], functions: list[Function]) -> list[dict]:
    """A row for each number of ranks and form: the most that a leaf and a spine need."""
    rows = []
    for each in ranks:
        text, per_node = shape(each)
        network = of_wiring(text)
        jobs = jobs_on(network, each, per_node)
        edge = {s for s in network.graph.ports if network.graph.host_ports(s)}
        for form, found in planned(network, jobs, functions).items():
            row = {"ranks": each, "topology": text, "jobs": len(jobs), "rules": form}
            for name, some in (("leaf", edge), ("spine", found.keys() - edge)):
                columns = zip(*(found[s] for s in some), strict=True)
                row[name] = Entries(*map(max, columns))._asdict()
            rows.append(row)
    return rows
