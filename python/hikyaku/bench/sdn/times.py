# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, allreduce_time and bcast_time: collectives of stock Open MPI on links of a limited
rate, in time.

Eight ranks on two spines, two leaves and four nodes on each leaf. Links between leaves and spines
carry RATE_MBIT in each direction, and all others have no limit. Frames have tags, and the
controller runs. Three routings are compared in the same lab:

    spread   the controller's own rules for Allreduce
    hashing  each pair of ranks has a random one of the equal paths, as by ECMP
    one path all frames go through the first spine

The bench writes the rules of the last two itself, with a priority above the controller's.
Hashing is random, so three cases of 400 are measured. A model of the steps says in which of them
hashing takes longest, a middling time, and shortest.

Bcast is compared with Open MPI's own, for ranks that fill one leaf after the other, and for ranks
that alternate between the leaves.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...checkout import built
from ...lab import Job, Lab, links, ovs
from ...lab.wiring import Wiring
from ...process import option_words, run
from ...sdn.algorithms.allreduce import steps
from ...sdn.rules import FORWARD
from ...sdn.tag import Function, pattern
from ..common.goals import judged
from ..common.sample import printed
from .model import HASHINGS, PLACEMENTS
from .network import network
from .run import Experiment, Plan, Progress, Row, row

SPINES, LEAVES, NODES = 2, 2, 4  # NODES on each leaf
RANKS = LEAVES * NODES
RATE_MBIT = 20
SIZE = 256 << 10
ROUNDS = 3
LIMIT_S = 120.0
PRIORITY = 69  # the highest that sdn/priorities.py leaves to algorithms; none of ours has it
COOKIE = 0x62656E6368  # "bench": not the controller's, which leaves rules of others alone

SPREAD, HASHING, ONE_PATH = "spread", "hashing", "one path"
DOUBLING, RING = "doubling", "ring"
ALGORITHM = {DOUBLING: 3, RING: 4}  # coll_tuned_allreduce_algorithm
CARRIERS = {"hikyaku": False, "tcp": True}
WORST = "worst"
CASES = (WORST, "middle", "best")  # for hashing
MS = "ms, the slowest rank"
CARRIED = "bytes on the busiest trunk, of the payload"
RATIO = "time, of hashing's"

Pair = tuple[int, int]  # of ranks: source, destination
Routing = dict[Pair, int]  # the number of the spine


# ---- the model -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """@nodes: the node of each rank. @routing: hashing's choices for pairs on two leaves."""

    nodes: tuple[int, ...]
    routing: Routing


def crossing(nodes: tuple[int, ...]) -> list[Pair]:
    """The pairs of ranks on different leaves."""
    leaf = [node // NODES for node in nodes]
    return [(s, d) for s in range(RANKS) for d in range(RANKS) if leaf[s] != leaf[d]]


def phases(algorithm: str) -> list[dict[int, int]]:
    ring, *doubling = steps(list(range(RANKS)))
    return [ring] * 2 * (RANKS - 1) if algorithm == RING else doubling


def load(algorithm: str, case: Case) -> int:
    """The flows on the busiest link, added up over all steps."""
    total = 0
    for phase in phases(algorithm):
        used = Counter(
            (case.nodes[source] // NODES, case.routing[source, target])
            for source, target in phase.items()
            if (source, target) in case.routing
        )
        total += max(used.values(), default=0)
    return total


def cases(algorithm: str, seed: int) -> dict[str, Case]:
    """The worst, the middle and the best case for hashing, of random placements and hashings."""
    rng = random.Random(seed)
    drawn = []
    for i in range(PLACEMENTS):
        # the first placement is as mpirun would have it
        nodes = tuple(rng.sample(range(RANKS), RANKS) if i else range(RANKS))
        for _ in range(HASHINGS):
            drawn.append(Case(nodes, {pair: rng.randrange(SPINES) for pair in crossing(nodes)}))
    drawn.sort(key=lambda case: load(algorithm, case))
    found = (drawn[-1], drawn[len(drawn) // 2], drawn[0])
    return dict(zip(CASES, found, strict=True))


# ---- the lab -------------------------------------------------------------------------------------


def topology() -> dict:
    """The file of a lab with limited links between leaves and spines."""
    leaves = [f"leaf{i}" for i in range(LEAVES)]
    spines = [f"spine{i}" for i in range(SPINES)]
    links = [{"ends": [leaf, spine], "mbit": RATE_MBIT} for leaf in leaves for spine in spines]
    nodes = [{"switch": leaf} for leaf in leaves for _ in range(NODES)]
    return {"switches": leaves + spines, "links": links, "nodes": nodes}


def _spine_ports(wiring: Wiring, leaf: str) -> list[int]:
    ports = {link.b: link.port_a for link in wiring.links if link.a == leaf}
    return [ports[f"spine{i}"] for i in range(SPINES)]


def flows(
    wiring: Wiring,
    nodes: tuple[int, ...],
    routing: Routing,
    function: Function = Function.ALLREDUCE,
    job: int | None = None,
) -> dict[str, list[str]]:
    """The rules of @routing for each leaf, as ovs-ofctl reads them. @job: None for any."""
    ports = {f"leaf{i}": _spine_ports(wiring, f"leaf{i}") for i in range(LEAVES)}
    found: dict[str, list[str]] = {leaf: [] for leaf in ports}
    for (source, target), spine in sorted(routing.items()):
        leaf = f"leaf{nodes[source] // NODES}"
        value, mask = pattern(job=job, function=function, source=source, destination=target)
        found[leaf].append(
            f"cookie={COOKIE:#x},table={FORWARD},priority={PRIORITY},"
            f"dl_dst={value}/{mask},actions=output:{ports[leaf][spine]}"
        )
    return found


def _ofctl(lab: Lab, *words: str, text_in: str | None = None) -> None:
    run(ovs.inside(lab.topology, ["ovs-ofctl", "-O", "OpenFlow13", *words]), text_in=text_in)


@contextmanager
def routed(lab: Lab, rules: dict[str, list[str]]) -> Iterator[None]:
    """The switches have @rules while this lasts."""
    try:
        for switch, lines in rules.items():
            _ofctl(lab, "add-flows", switch, "-", text_in="".join(f"{line}\n" for line in lines))
        yield
    finally:
        for switch in rules:
            _ofctl(lab, "del-flows", switch, f"cookie={COOKIE:#x}/-1")


@dataclass(frozen=True)
class Taken:
    """@ms of a collective. @carried: bytes of the busiest trunk and direction, of its payload."""

    ms: float
    carried: float


def trunks(lab: Lab) -> list[int]:
    names = {link.name for link in lab.topology.wiring.links}
    rows = [each for each in links.counters(lab.topology) if each["link"] in names]
    return [each[way]["bytes"] for each in rows for way in ("a_to_b", "b_to_a")]


def command(
    lab: Lab,
    nodes: tuple[int, ...],
    collective: str,
    mca: dict,
    rounds: int = ROUNDS,
    **more: object,
) -> list[str]:
    """The arguments of an mpirun that calls the collective, with rank i on node nodes[i]. @more:
    options of coll_bench."""
    names = [lab.topology.nodes[node].name for node in nodes]
    cores = lab.topology.cpus(one_core=False)
    slots = [f"{name} slot={','.join(map(str, cores[name]))}" for name in names]
    ranks = lab.directory / f"ranks-{'-'.join(map(str, nodes))}"
    ranks.write_text("".join(f"rank {i}={slot}\n" for i, slot in enumerate(slots)))
    # other nodes may have another job
    argv = ["-np", str(len(nodes)), "--host", ",".join(names), "--rankfile", str(ranks)]
    for name, value in mca.items():
        argv += ["--mca", name, str(value)]
    argv += [str(built("bench/coll_bench"))]
    return argv + option_words(collective=collective, size=SIZE, rounds=rounds, **more)


def launched(lab: Lab, nodes: tuple[int, ...], collective: str, tcp: bool, mca: dict) -> float:
    """Runs the collective, and returns its ms."""
    job = Job(command(lab, nodes, collective, mca), tcp=tcp, tag=True, timeout=LIMIT_S)
    return printed(lab.launch(job), f"the {collective}")[0]["value"]


def measured(lab: Lab, run: Callable[[], float], rounds: int = ROUNDS) -> Taken:
    """@run returns its ms; a first round of it warms up, and @rounds follow."""
    before = trunks(lab)
    ms = run()
    most = max(now - then for now, then in zip(trunks(lab), before, strict=True))
    return Taken(ms, most / SIZE / (rounds + 1))


def _run(lab: Lab, nodes: tuple[int, ...], collective: str, tcp: bool, mca: dict) -> Taken:
    return measured(lab, lambda: launched(lab, nodes, collective, tcp, mca))


def rows_of(
    experiment: str, taken: dict[str, list[Taken]], base: str, case: str, unit: str
) -> list[Row]:
    """@taken of each method. @unit: of times that are divided by those of @base."""
    rows = []
    for name, values in taken.items():
        method = f"{name}, {case}"
        rows.append(row(experiment, method, RANKS, SIZE, MS, [v.ms for v in values]))
        rows.append(row(experiment, method, RANKS, SIZE, CARRIED, [v.carried for v in values]))
        if name != base:
            ratios = [v.ms / b.ms for v, b in zip(values, taken[base], strict=True)]
            rows.append(row(experiment, method, RANKS, SIZE, unit, ratios))
    return rows


# ---- Allreduce -----------------------------------------------------------------------------------


def tuned(algorithm: str) -> dict:
    """The parameters of Open MPI by which Allreduce uses @algorithm."""
    return {
        "coll_tuned_use_dynamic_rules": 1,
        "coll_tuned_allreduce_algorithm": ALGORITHM[algorithm],
    }


def _routings(case: Case) -> dict[str, Routing]:
    return {SPREAD: {}, HASHING: case.routing, ONE_PATH: dict.fromkeys(case.routing, 0)}


def _allreduce(plan: Plan, progress: Progress) -> list[Row]:
    todo = [
        (algorithm, place, case, carrier)
        for algorithm in ALGORITHM
        for place, case in cases(algorithm, plan.seed).items()
        for carrier in CARRIERS
    ]
    rows = []
    with network("allreduce", topology()) as lab:
        for at, (algorithm, place, case, carrier) in enumerate(todo):
            what = f"{algorithm} {place}, {carrier}"
            progress(f"allreduce_time: {what}", at, len(todo))
            mca = {"coll": "^hikyaku", **tuned(algorithm)}
            taken: dict[str, list[Taken]] = {name: [] for name in _routings(case)}
            for _ in range(plan.repeats):
                for name, routing in _routings(case).items():
                    with routed(lab, flows(lab.topology.wiring, case.nodes, routing)):
                        tcp = CARRIERS[carrier]
                        taken[name].append(_run(lab, case.nodes, "allreduce", tcp, mca))
            rows += rows_of("allreduce_time", taken, HASHING, what, RATIO)
    return rows


def _allreduce_goals(rows: list[Row]) -> list[dict]:
    ratios = {r["method"]: r["median"] for r in rows if r["unit"] == RATIO}
    goals = []
    for algorithm in ALGORITHM:
        for carrier in CARRIERS:
            mine = {c: ratios[f"{SPREAD}, {algorithm} {c}, {carrier}"] for c in CASES}
            text = f"Allreduce by {algorithm}, {carrier}: time, of hashing's in its"
            goals.append(judged(f"{text} {WORST} case", mine[WORST], "≤", 1 / 1.5))
            goals.append(judged(f"{text} cases, worst of all", max(mine.values()), "≤", 1 / 0.98))
    return goals


# ---- Bcast ---------------------------------------------------------------------------------------

MULTICAST, OPEN_MPI = "multicast", "Open MPI's own"
IN_BLOCKS = tuple(range(RANKS))
IN_TURN = tuple(i % LEAVES * NODES + i // LEAVES for i in range(RANKS))
PLACES: dict[str, tuple[int, ...]] = {"in blocks": IN_BLOCKS, "in turn": IN_TURN}
OF_OWN = "time, of Open MPI's own"


def _bcast(plan: Plan, progress: Progress) -> list[Row]:
    rows = []
    methods: dict[str, dict] = {MULTICAST: {}, OPEN_MPI: {"coll": "^hikyaku"}}
    with network("bcast", topology()) as lab:
        for at, (place, nodes) in enumerate(PLACES.items()):
            progress(f"bcast_time: ranks {place}", at, len(PLACES))
            taken: dict[str, list[Taken]] = {name: [] for name in methods}
            for _ in range(plan.repeats):
                for name, mca in methods.items():
                    taken[name].append(_run(lab, nodes, "bcast", False, mca))
            rows += rows_of("bcast_time", taken, OPEN_MPI, place, OF_OWN)
    return rows


def _bcast_goals(rows: list[Row]) -> list[dict]:
    return [
        judged(f"Bcast's time by multicast, of Open MPI's own; {r['method']}", r["median"], "≤", 1)
        for r in rows
        if r["unit"] == OF_OWN
    ]


LINKS = f"trunks of {RATE_MBIT} Mbit/s"
ALLREDUCE_TIME = Experiment(_allreduce, _allreduce_goals, f"Allreduce, {LINKS}")
BCAST_TIME = Experiment(_bcast, _bcast_goals, f"Bcast, {LINKS}")
