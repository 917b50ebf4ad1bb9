# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, allreduce_time: the cases that it chooses, the rules that it writes, and how it
judges. Nothing is sent here."""

import json
import re

import pytest

from hikyaku.bench.sdn import times
from hikyaku.bench.sdn.run import row
from hikyaku.lab.wiring import parse
from hikyaku.sdn.tag import Function, Tag, from_mac


@pytest.fixture
def wiring(tmp_path):
    file = tmp_path / "limited.json"
    file.write_text(json.dumps(times.topology()))
    return parse(str(file))


def test_only_links_between_switches_are_limited(wiring):
    assert {link.mbit for link in wiring.links} == {times.RATE_MBIT}
    assert {link.mbit for link in wiring.access} == {0}
    assert len(wiring.links) == times.SPINES * times.LEAVES


def test_load_counts_the_flows_of_each_step():
    blocks = times.IN_BLOCKS
    for spines, doubling, ring in (((0, 0), 4, 14), ((0, 1), 2, 14)):
        routing = {pair: spines[pair[0] % 2] for pair in times.crossing(blocks)}
        case = times.Case(blocks, routing)
        # in blocks, one step of three crosses, with four pairs each way; of the ring one pair
        assert times.load(times.DOUBLING, case) == doubling
        assert times.load(times.RING, case) == ring


@pytest.mark.parametrize("algorithm", times.ALGORITHM)
def test_cases_are_ordered_and_repeat(algorithm):
    cases = times.cases(algorithm, 7)
    loads = [times.load(algorithm, case) for case in cases.values()]
    assert loads == sorted(loads, reverse=True)
    assert loads[0] > loads[-1]
    assert cases == times.cases(algorithm, 7)
    for case in cases.values():
        assert sorted(case.nodes) == list(range(times.RANKS))
        assert set(case.routing) == set(times.crossing(case.nodes))


def test_rules_lead_each_pair_to_its_spine(wiring):
    case = times.cases(times.DOUBLING, 1)["worst"]
    ends = {(x.a, x.port_a): x.b for x in wiring.links}
    seen = {}
    for leaf, lines in times.flows(wiring, case.nodes, case.routing).items():
        for line in lines:
            found = re.search(r"dl_dst=(\S+)/(\S+),actions=output:(\d+)$", line)
            value, mask = from_mac(found[1]), from_mac(found[2])
            for pair in case.routing:
                tag = int(Tag(9, Function.ALLREDUCE, *pair))
                if tag & mask == value:
                    assert pair not in seen
                    assert case.nodes[pair[0]] // times.NODES == int(leaf[-1])
                    seen[pair] = ends[leaf, int(found[3])]
            assert int(Tag(9, Function.BCAST, 0, 5)) & mask != value
    assert seen == {pair: f"spine{spine}" for pair, spine in case.routing.items()}


def test_goals_of_times():
    rows = []
    for algorithm in times.ALGORITHM:
        for carrier, values in (("hikyaku", (0.5, 0.9, 1.01)), ("tcp", (0.7, 0.8, 1.03))):
            for case, ratio in zip(times.CASES, values, strict=True):
                method = f"{times.SPREAD}, {algorithm} {case}, {carrier}"
                rows.append(row("allreduce_time", method, 8, 1, times.RATIO, [ratio]))
    met = [goal["met"] for goal in times.ALLREDUCE_TIME.goals(rows)]
    assert met == 2 * [True, True, False, False]
    bcast = [row("bcast_time", m, 8, 1, times.OF_OWN, [v]) for m, v in (("a", 0.9), ("b", 1.1))]
    assert [goal["met"] for goal in times.BCAST_TIME.goals(bcast)] == [True, False]
