# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, experiments on the controller's own data structures.

They compute rules as for switches, and follow frames through them (sdn/follow.py). The results are
exact, whatever else the machine does.

    spread   Allreduce by recursive doubling, 8 ranks on leaf-spine:2x2x4, 20 placements: flows on
             the busiest link. Compared with static hashing, where each pair of hosts has a random
             one of the equal paths, and with the minimum of any routing.
    entries  The entries of one job in the switch that has most of them.
    scale    The time to compute all default paths of 100 switches and 1000 hosts.
"""

import random
import statistics
import time
from collections import Counter

from ...sdn.algorithms.allreduce import steps
from ...sdn.follow import Frame, Tables
from ...sdn.network import Job, Network
from ...sdn.program import compute
from ...sdn.tag import Function, Tag
from ...sdn.wired import hundred_switches, job_on, of_wiring
from ..common.goals import judged
from .run import Experiment, Plan, Progress, Row, row

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
PLACEMENTS = 20
HASHINGS = 20
SPREAD_BY_RANK, LEAST = "spread", "least possible"
WORST, MEAN = "hashing's worst", "hashing's mean"
FLOWS = "flows on the busiest link"
ENTRIES = "entries of a job in a switch"
SECONDS = "s of CPU time"
PER_HOST = (1, 2, 4, 16, 64)


# ---- spread --------------------------------------------------------------------------------------


def doubling(ranks: int) -> list[tuple[int, int]]:
    """All flows of an Allreduce by recursive doubling."""
    return [pair for step in steps(list(range(ranks)))[1:] for pair in step.items()]


def spread_load(network: Network, job: Job) -> int:
    tables = Tables(network.graph, compute(network, [job]))
    used: Counter = Counter()
    for source, target in doubling(len(job.ranks)):
        tag = int(Tag(job.number, Function.ALLREDUCE, source, target))
        at = network.graph.hosts[job.ranks[source]]
        used.update(tables.send(*at, Frame(job.ranks[source], tag)).crossed)
    return max(used.values(), default=0)


def hashed_load(network: Network, job: Job, rng: random.Random) -> int:
    used: Counter = Counter()
    chosen: dict[tuple[int, int, int], int] = {}
    for source, target in doubling(len(job.ranks)):
        at, end = (network.graph.hosts[job.ranks[r]][0] for r in (source, target))
        while at != end:
            ports = network.graph.next_ports(at, end)
            port = chosen.setdefault((at, source, target), rng.choice(ports))
            used[at, port] += 1
            at = network.graph.links[at, port][0]
    return max(used.values(), default=0)


def least_load(network: Network, job: Job) -> int:
    """The minimum load of a link between two tiers of @SHAPE: half of the flows of a leaf."""
    crossing: Counter = Counter()
    for pair in doubling(len(job.ranks)):
        a, b = (network.graph.hosts[job.ranks[r]][0] for r in pair)
        crossing.update({("from", a): a != b, ("to", b): a != b})
    return -(-max(crossing.values()) // 2)


def _spread(plan: Plan, progress: Progress) -> list[Row]:
    rng = random.Random(plan.seed)
    values: dict[str, list[float]] = {name: [] for name in (SPREAD_BY_RANK, LEAST, WORST, MEAN)}
    for i in range(PLACEMENTS):
        progress(f"spread: placement {i + 1} of {PLACEMENTS}", i, PLACEMENTS)
        network = of_wiring(SHAPE)
        hosts = sorted(network.graph.hosts)
        # the first one is as mpirun would have it
        job = Job(1, ranks=dict(enumerate(rng.sample(hosts, RANKS) if i else hosts)))
        hashed = [hashed_load(network, job, rng) for _ in range(HASHINGS)]
        values[SPREAD_BY_RANK].append(spread_load(network, job))
        values[LEAST].append(least_load(network, job))
        values[WORST].append(max(hashed))
        values[MEAN].append(statistics.mean(hashed))
    rows = [row("spread", name, RANKS, 0, FLOWS, found) for name, found in values.items()]
    of = {f"of {other}": (SPREAD_BY_RANK, other) for other in (WORST, MEAN, LEAST)}
    for name, (one, other) in (of | {f"{LEAST} of {WORST}": (LEAST, WORST)}).items():
        ratios = [a / b for a, b in zip(values[one], values[other], strict=True)]
        rows.append(row("spread", name, RANKS, 0, "ratio", ratios))
    return rows


def _spread_goals(rows: list[Row]) -> list[dict]:
    of = {r["method"]: r for r in rows}
    least = f"the same, of the {LEAST} by any routing; worst placement"
    return [
        judged(text, value, "≤", limit, exact=True)
        for text, value, limit in (
            (f"Allreduce's busiest link, of the {WORST}", of[f"of {WORST}"]["median"], 0.6),
            (f"the same, of the {MEAN}; worst placement", of[f"of {MEAN}"]["max"], 1.0),
            (least, of[f"of {LEAST}"]["max"], 1.0),
        )
    ]


# ---- entries -------------------------------------------------------------------------------------


def _entries(_: Plan, progress: Progress) -> list[Row]:
    rows = []
    for i, per_host in enumerate(PER_HOST):
        ranks = RANKS * per_host
        progress(f"entries: {ranks} ranks", i, len(PER_HOST))
        network = of_wiring(SHAPE)
        programs = compute(network, [job_on(network, ranks)])
        edge, inside = [], []
        for switch, program in programs.items():
            own = sum(does.job == 1 for does in program.values())
            (edge if network.graph.host_ports(switch) else inside).append(own)
        rows.append(row("entries", "edge", ranks, 0, ENTRIES, [max(edge)]))
        rows.append(row("entries", "inside", ranks, 0, ENTRIES, [max(inside)]))
    return rows


def _entries_goals(rows: list[Row]) -> list[dict]:
    def growth(method: str) -> float:
        counts = [r for r in rows if r["method"] == method]
        return counts[-1]["median"] / counts[0]["median"]

    ranks = rows[-1]["ranks"] / rows[0]["ranks"]
    edge = f"entries at the edge with {ranks:.0f} times the ranks"
    return [
        judged(edge, growth("edge"), "≤", ranks, exact=True),
        judged("entries inside, the same", growth("inside"), "≤", 1, exact=True),
    ]


# ---- scale ---------------------------------------------------------------------------------------


def _scale(plan: Plan, progress: Progress) -> list[Row]:
    times = []
    for i in range(plan.repeats):
        progress(f"scale: repeat {i + 1} of {plan.repeats}", i, plan.repeats)
        start = time.process_time()
        compute(hundred_switches())
        times.append(time.process_time() - start)
    return [row("scale", "1000 hosts", 0, 0, SECONDS, times)]


def _scale_goals(rows: list[Row]) -> list[dict]:
    text = "s of CPU time for all paths of 100 switches and 1000 hosts"
    return [judged(text, rows[0]["median"], "≤", 2)]


SPREAD_TITLE = f"Allreduce on {SHAPE}, {PLACEMENTS} placements"
SPREAD = Experiment(_spread, _spread_goals, SPREAD_TITLE, computed=True)
ENTRIES_USED = Experiment(_entries, _entries_goals, f"flow entries on {SHAPE}", computed=True)
SCALE = Experiment(_scale, _scale_goals, "computing the network")
