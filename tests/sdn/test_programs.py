# SPDX-License-Identifier: BSD-3-Clause
"""Frames followed through the computed rules of fixed and random networks, in simulated tables."""

import random
from collections import Counter

import networks
import pytest

from hikyaku.bench.sdn import model as sdn_model
from hikyaku.sdn import cubes
from hikyaku.sdn.algorithms.allreduce import steps
from hikyaku.sdn.follow import Frame, Journey, Tables
from hikyaku.sdn.network import Job, Network, tree
from hikyaku.sdn.program import FLOOD_KEY, compute
from hikyaku.sdn.rules import ADMIT, FORWARD, MULTICAST, Key
from hikyaku.sdn.tag import RANKS, Function, Tag

SEEDS = range(12)
SHAPES = ["leaf-spine:2x2x4", "leaf-spine:4x3x3", "fat-tree:4"]
BROADCAST = (1 << 48) - 1
JOBS = {1: (0, 1, 4, 5), 2: (2, 3, 6, 7)}  # the nodes of two jobs


def every_network() -> list:
    made = [pytest.param(lambda t=t: networks.of_wiring(t), id=t) for t in SHAPES]
    return made + [pytest.param(lambda s=s: networks.at_random(s), id=f"seed{s}") for s in SEEDS]


on_networks = pytest.mark.parametrize("make", every_network())


def send(tables: Tables, network: Network, source: int, dst: int) -> Journey:
    return tables.send(*network.graph.hosts[source], Frame(source, dst))


def cable(network: Network, end: tuple[int, int]) -> set:
    return {end, network.graph.links[end]}


# ---- traffic without tags ------------------------------------------------------------------------


@on_networks
def test_frames_take_a_shortest_path_between_every_pair(make):
    network = make()
    tables = Tables(network.graph, compute(network))
    hosts = network.graph.hosts
    for source in hosts:
        for target in hosts:
            if source == target:
                continue
            journey = send(tables, network, source, target)
            assert journey.delivered == [(*hosts[target], target)]
            assert not journey.looped
            hops = network.graph.distances(hosts[target][0])[hosts[source][0]]
            assert len(journey.crossed) == hops


@on_networks
def test_a_broadcast_reaches_every_host_once(make):
    network = make()
    tables = Tables(network.graph, compute(network))
    hosts = network.graph.hosts
    for source in hosts:
        for dst in (BROADCAST, MULTICAST | 0x5E00_0001, 0x0400_0000_0077):
            journey = send(tables, network, source, dst)
            got = Counter((switch, port) for switch, port, _ in journey.delivered)
            everywhere = {(s, p) for s in network.graph.ports for p in network.graph.host_ports(s)}
            assert got == Counter(everywhere - {hosts[source]})
            assert not journey.looped


def test_equal_paths_are_taken_equally():
    network = networks.of_wiring("leaf-spine:4x4x8")
    compute(network)
    used = Counter((s, p) for (s, mac), p in network.paths.items() if network.graph.host_ports(s))
    assert set(used.values()) == {24 // 4}


def test_paths_avoid_loaded_links_and_stay_when_the_load_ends():
    network = networks.of_wiring("leaf-spine:2x2x4")
    leaf = next(s for s in network.graph.ports if network.graph.host_ports(s))
    network.load = {(leaf, 1): 5e8}
    compute(network)
    before = dict(network.paths)
    assert {p for (s, _), p in before.items() if s == leaf} == {2}
    network.load = {}
    compute(network)
    assert network.paths == before


# ---- repair --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_one_cut_cable_loses_no_frame_if_there_is_a_spare(shape):
    """The switches repair it alone, with the rules from before the cut.

    In a fat tree this holds for cables of the core only. A frame on its way down, between
    aggregation and edge switch, has no other path until the controller writes new rules.
    """
    network = networks.of_wiring(shape)
    job = networks.job_on(network, len(network.graph.hosts))
    programs = compute(network, [job])
    hosts = sorted(network.graph.hosts)
    top = 4 if shape.startswith("fat-tree") else len(network.graph.ports)
    for end in [e for e, other in network.graph.links.items() if e < other and e[0] <= top]:
        tables = Tables(network.graph, programs, cable(network, end))
        for source in hosts:
            target = hosts[(hosts.index(source) + len(hosts) // 2) % len(hosts)]
            ranks = hosts.index(source), hosts.index(target)
            place = network.graph.hosts[target]
            for dst in (
                target,
                int(Tag(1, Function.P2P, *ranks)),
                int(Tag(1, Function.ALLREDUCE, *ranks)),
            ):
                journey = send(tables, network, source, dst)
                assert journey.delivered == [(*place, target)], f"{end} is cut"
                assert not journey.looped


@on_networks
def test_cut_cables_never_cause_a_loop(make):
    network = make()
    job = networks.job_on(network, 16)
    programs = compute(network, [job])
    rng = random.Random(7)
    ends = sorted(network.graph.links)
    for _ in range(10):
        down = set()
        for end in rng.sample(ends, rng.randrange(1, len(ends))):
            down |= cable(network, end)
        tables = Tables(network.graph, programs, down)
        for source, (switch, port) in network.graph.hosts.items():
            rank = next((r for r, mac in job.ranks.items() if mac == source), None)
            targets = list(network.graph.hosts)
            if rank is not None:
                functions = (Function.P2P, Function.ALLREDUCE)
                targets += [int(Tag(1, f, rank, d)) for f in functions for d in job.ranks]
            for dst in targets:
                journey = send(tables, network, source, dst)
                assert not journey.looped
                assert len(journey.delivered) <= 1
                assert (switch, port) not in {d[:2] for d in journey.delivered} or dst in (
                    source,
                    *(int(Tag(1, f, rank or 0, d)) for f in Function for d in job.ranks),
                )


# ---- tags ----------------------------------------------------------------------------------------


@on_networks
@pytest.mark.parametrize("function", [Function.P2P, Function.ALLREDUCE, Function.SCAN])
def test_tags_arrive_with_the_real_address(make, function):
    network = make()
    for seed in (None, 3):
        job = networks.job_on(network, 20, seed=seed)
        tables = Tables(network.graph, compute(network, [job]))
        at = network.graph.hosts
        for source in range(20):
            for target in range(20):
                if at[job.ranks[source]] == at[job.ranks[target]]:
                    continue
                tag = int(Tag(1, function, source, target))
                journey = send(tables, network, job.ranks[source], tag)
                assert journey.delivered == [(*at[job.ranks[target]], job.ranks[target])]
                assert not journey.looped
                assert journey.to_controller == 0


@on_networks
def test_a_bcast_reaches_each_receiver_once_and_each_link_carries_it_once(make):
    network = make()
    job = networks.job_on(network, 12)
    job.groups = {5: frozenset({1, 4, 7, 9})}
    tables = Tables(network.graph, compute(network, [job]))
    for group in (0, 5):
        members = job.members(group)
        for root in members:
            tag = int(Tag(1, Function.BCAST, root, group, group=True))
            journey = send(tables, network, job.ranks[root], tag)
            macs = {job.ranks[r] for r in members} - {job.ranks[root]}
            want = Counter((*network.graph.hosts[mac], mac) for mac in macs)
            assert Counter(journey.delivered) == want
            assert len(journey.crossed) == len(set(journey.crossed))
            assert not journey.looped


def shared_ports(hosts: int) -> tuple[Network, Job]:
    """A network with @hosts ranks of a job at each port, and one more host there; and the job."""
    network = networks.of_wiring("leaf-spine:2x2x2")
    places = [place for _, place in sorted(network.graph.hosts.items())]
    network.graph.hosts = {
        networks.FIRST_HOST + i: places[i % len(places)] for i in range((hosts + 1) * len(places))
    }
    return network, networks.job_on(network, hosts * len(places))


def test_ranks_that_share_a_port_reach_each_other():
    network, job = shared_ports(3)
    job.groups = {5: frozenset({0, 1, 4, 8, 10})}
    tables = Tables(network.graph, compute(network, [job]))
    at = network.graph.hosts
    for source in job.ranks:
        for target in job.ranks.keys() - {source}:
            for function in (Function.P2P, Function.ALLREDUCE):
                tag = int(Tag(1, function, source, target))
                journey = send(tables, network, job.ranks[source], tag)
                assert journey.delivered == [(*at[job.ranks[target]], job.ranks[target])]
        for group in (0, 5):
            tag = int(Tag(1, Function.BCAST, source, group, group=True))
            journey = send(tables, network, job.ranks[source], tag)
            macs = {job.ranks[r] for r in job.members(group) - {source}}
            assert Counter(journey.delivered) == Counter((*at[mac], mac) for mac in macs)
            assert len(journey.crossed) == len(set(journey.crossed))
            assert not journey.looped


def test_entries_for_shared_ports_grow_linearly():
    counts = {}
    for hosts in (2, 4, 16):
        network, job = shared_ports(hosts)
        programs = compute(network, [job])
        counts[hosts] = max(sum(d.job == 1 for d in p.values()) for p in programs.values())
    assert counts[16] <= 4 * counts[4] <= 8 * counts[2]


def test_spoofed_tags_are_dropped_at_the_edge():
    network = networks.of_wiring("leaf-spine:2x2x4")
    hosts = sorted(network.graph.hosts)
    job = Job(1, ranks={r: hosts[r] for r in range(4)})  # all at the first leaf
    other = Job(2, ranks={0: hosts[4], 1: hosts[5]})
    tables = Tables(network.graph, compute(network, [job, other]))
    ours = [int(Tag(1, f, 0, 1)) for f in Function] + [int(Tag(1, Function.BCAST, 0, 0, True))]
    for dst in ours:
        assert send(tables, network, hosts[0], dst).delivered, "sent by the rank itself"
        for spoofer in (hosts[1], hosts[4], hosts[6]):
            journey = send(tables, network, spoofer, dst)
            assert not journey.delivered, "another rank, another job's rank, no rank"
            assert not journey.crossed
            # also with the rank's address as its source
            place = network.graph.hosts[spoofer]
            assert not tables.send(*place, Frame(hosts[0], dst)).delivered
    assert not send(tables, network, hosts[0], int(Tag(3, Function.P2P, 0, 1))).delivered


def test_tags_of_and_to_ranks_that_are_not_located_are_dropped():
    network = networks.of_wiring("leaf-spine:2x2x4")
    hosts = sorted(network.graph.hosts)
    job = networks.job_on(network, 16)
    job.ranks |= {r: 0x0400_0000_0000 + r for r in (3, 5, 9, 14)}
    tables = Tables(network.graph, compute(network, [job]))
    unlocated = set(job.ranks) - network.located(job).keys()
    assert len(unlocated) == 4
    for function in (Function.P2P, Function.ALLREDUCE):
        for rank in unlocated:
            for source in network.located(job):
                spoofed = int(Tag(1, function, rank, 0))
                assert not send(tables, network, job.ranks[source], spoofed).crossed
                tag = int(Tag(1, function, source, rank))
                assert not send(tables, network, job.ranks[source], tag).delivered
    assert send(tables, network, hosts[0], int(Tag(1, Function.P2P, 0, 1))).delivered


def test_flow_entries_grow_linearly_with_ranks_at_the_edge_and_not_inside():
    counts = {}
    for per_host in (1, 4, 16):
        network = networks.of_wiring("leaf-spine:2x2x4")
        job = networks.job_on(network, 8 * per_host)
        programs = compute(network, [job])
        own = {s: sum(d.job == 1 for d in p.values()) for s, p in programs.items()}
        edge = [n for s, n in own.items() if network.graph.host_ports(s)]
        inside = [n for s, n in own.items() if not network.graph.host_ports(s)]
        counts[per_host] = max(edge), max(inside)
    assert counts[1][1] == counts[4][1] == counts[16][1]
    assert counts[16][0] <= 16 * counts[1][0]
    assert counts[16][0] <= counts[4][0] * 4


def test_no_rule_of_a_job_stays_after_its_end():
    network = networks.of_wiring("leaf-spine:2x2x4")
    before = compute(network)
    job = networks.job_on(network, 8)
    during = compute(network, [job])
    assert compute(network) == before
    assert all(
        d.job == 1
        for p, b in zip(during.values(), before.values(), strict=True)
        for k, d in p.items()
        if k not in b
    )


# ---- the parts of the computation ----------------------------------------------------------------


def test_trees_span_their_members():
    for seed in SEEDS:
        network = networks.at_random(seed, switches=20)
        rng = random.Random(seed)
        members = set(rng.sample(sorted(network.graph.ports), 6))
        ports = tree(network, members, FLOOD_KEY)
        assert all(network.graph.links[p] in ports for p in ports)
        inside = {s for s, _ in ports} | {min(members)}
        assert members <= inside
        assert len(ports) == 2 * (len(inside) - 1), "a tree has one link less than switches"


def test_trees_of_several_jobs_take_different_spines():
    network = networks.of_wiring("leaf-spine:4x2x4")
    jobs = [networks.job_on(network, 8, number=n) for n in (1, 2, 3)]
    compute(network, jobs)
    spines = [s for s in network.graph.ports if not network.graph.host_ports(s)]
    used = {s: sum(n for (at, _), n in network.trees.items() if at == s) for s in spines}
    assert sorted(used.values()) == [0, 2, 2, 2]


def test_cubes_cover_exactly_the_wanted_ranks():
    rng = random.Random(5)
    for _ in range(200):
        everyone = rng.sample(range(RANKS), rng.randrange(1, 60))
        wanted = rng.sample(everyone, rng.randrange(0, len(everyone) + 1))
        made = cubes.cover(wanted, everyone)
        covered = {n for n in everyone if any(n & m == v for v, m in made)}
        assert covered == set(wanted)


@pytest.mark.parametrize("ranks", [64, 512, 2048])
def test_ranks_by_slot_or_by_node_are_one_cube_a_node(ranks):
    everyone = range(ranks)
    for node in range(8):
        by_node = [r for r in everyone if r % 8 == node]
        by_slot = [r for r in everyone if r // (ranks // 8) == node]
        assert len(cubes.cover(by_node, everyone)) == 1
        assert len(cubes.cover(by_slot, everyone)) == 1


def test_allreduce_is_spread_as_well_as_possible():
    """On leaf-spine, a link has at most half of the flows that its leaf sends or receives."""
    rng = random.Random(11)
    for _ in range(30):
        network = networks.of_wiring(sdn_model.SHAPE)
        hosts = rng.sample(sorted(network.graph.hosts), sdn_model.RANKS)
        job = Job(1, ranks=dict(enumerate(hosts)))
        assert sdn_model.spread_load(network, job) == sdn_model.least_load(network, job)


def test_steps_are_those_of_open_mpi_for_any_number_of_ranks():
    """coll_base_allreduce.c: a sum by these steps has each rank's data once."""
    assert steps([0]) == []
    for n in range(2, 33):
        ring, *doubling = steps([10 * rank for rank in range(n)])
        assert ring == {10 * rank: 10 * ((rank + 1) % n) for rank in range(n)}
        known = {10 * rank: Counter([rank]) for rank in range(n)}
        for number, step in enumerate(doubling):
            before = {rank: Counter(data) for rank, data in known.items()}
            last = n & (n - 1) and number == len(doubling) - 1
            for source, to in step.items():
                known[to] = Counter(before[source]) if last else known[to] + before[source]
        assert all(data == Counter(range(n)) for data in known.values())


def _by_step(network: Network, jobs: list[Job], ranks: list[int]) -> list[int]:
    """The flows on the busiest link in each step of the first of @jobs among @ranks. Other jobs are
    in the same step, among all of their ranks."""
    tables = Tables(network.graph, compute(network, jobs))
    busiest = []
    for number, step in enumerate(steps(ranks)):
        used: Counter = Counter()
        each = [(jobs[0], step)]
        each += [(job, steps(sorted(job.ranks))[number]) for job in jobs[1:]]
        for job, pairs in each:
            for source, target in pairs.items():
                tag = int(Tag(job.number, Function.ALLREDUCE, source, target))
                used.update(send(tables, network, job.ranks[source], tag).crossed)
        busiest.append(max(used.values(), default=0))
    return busiest


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 8])
def test_no_step_of_any_number_of_ranks_shares_a_link_without_need(ranks):
    network = networks.of_wiring("leaf-spine:2x2x4")
    hosts = sorted(network.graph.hosts)
    job = Job(1, ranks={rank: hosts[rank * 8 // ranks] for rank in range(ranks)})
    leaf = {rank: network.graph.hosts[mac][0] for rank, mac in job.ranks.items()}
    for number, found in enumerate(_by_step(network, [job], sorted(job.ranks))):
        step = steps(sorted(job.ranks))[number]
        crossing = Counter(leaf[a] for a, b in step.items() if leaf[a] != leaf[b])
        into = Counter(leaf[b] for a, b in step.items() if leaf[a] != leaf[b])
        assert found <= -(-max([*crossing.values(), *into.values()], default=0) // 2)


def test_a_communicator_of_some_ranks_is_spread_too():
    """Even ranks alone: spread by rank in turn, they would all take one spine."""
    network = networks.of_wiring("leaf-spine:2x2x4")
    job = networks.job_on(network, 8)
    even = [0, 2, 4, 6]
    assert max(_by_step(network, [job], even)) == 2
    job.groups = {1: frozenset(even)}
    assert max(_by_step(network, [job], even)) == 1
    assert max(_by_step(network, [job], sorted(job.ranks))) == 2, "as before"


def test_two_jobs_take_different_spines():
    """Each has one flow between the leaves in a step of the ring, and two in a step of doubling."""
    network = networks.of_wiring("leaf-spine:2x2x4")
    hosts = sorted(network.graph.hosts)
    jobs = [Job(n, ranks=dict(enumerate(hosts[i] for i in at))) for n, at in JOBS.items()]
    assert _by_step(network, jobs, [0, 1, 2, 3]) == [1, 0, 2]


def test_a_job_moves_no_other():
    network = networks.of_wiring("leaf-spine:2x2x4")
    hosts = sorted(network.graph.hosts)
    jobs = [Job(n, ranks=dict(enumerate(hosts[i] for i in at))) for n, at in JOBS.items()]
    alone = compute(network, [jobs[0]])
    both = compute(network, jobs)
    rest = compute(network, [jobs[1]])
    for switch in alone:
        assert alone[switch].items() <= both[switch].items()
        assert {k: d for k, d in both[switch].items() if d.job == 2}.items() <= rest[switch].items()
    assert {number for _, number in network.kept} == {2}, "what is kept of a job ends with it"


@pytest.mark.parametrize("shape", ["fat-tree:4", "leaf-spine:4x4x4"])
def test_allreduce_is_never_worse_than_hashing_on_average(shape):
    rng = random.Random(3)
    for _ in range(3):
        network = networks.of_wiring(shape)
        hosts = rng.sample(sorted(network.graph.hosts), 16)
        job = Job(1, ranks=dict(enumerate(hosts)))
        hashed = [sdn_model.hashed_load(network, job, rng) for _ in range(20)]
        assert sdn_model.spread_load(network, job) <= sum(hashed) / len(hashed)


def test_no_two_algorithms_write_different_actions_for_a_rule():
    """Otherwise their order would decide what happens to a frame."""
    from hikyaku.sdn import algorithms

    network = networks.of_wiring("fat-tree:4")
    job = networks.job_on(network, 16, seed=1)
    compute(network)
    seen: dict[tuple[int, Key], object] = {}
    for algorithm in algorithms.ALL:
        for switch, key, does in algorithm.rules(network, job):
            assert key.table == FORWARD != ADMIT
            assert seen.setdefault((switch, key), does) == does


def test_a_hundred_switches_and_a_thousand_hosts():
    """Every switch gets a rule for every host. `hikyaku bench sdn` measures the time."""
    network = networks.hundred_switches()
    programs = compute(network)
    assert len(programs) == 100
    hosts = set(network.graph.hosts)
    for program in programs.values():
        assert hosts <= {k.match.dst for k in program if k.table == FORWARD}
    used = Counter(port for (switch, _), port in network.paths.items() if switch == 11)
    assert max(used.values()) - min(used.values()) <= 1
