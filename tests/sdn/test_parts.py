# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a network without a path between them, and the links that join them again."""

import random

import networks
import pytest

from hikyaku.sdn.parts import NAMED, Interface, Lost, separation

AB = [Interface("a", "e0", 1), Interface("b", "e0", 2)]


def test_nodes_that_reach_each_other_are_not_separated():
    assert separation([], []) is None
    assert separation(AB, [(1, 3), (3, 2)]) is None
    # two networks by design: each has an interface of every node
    assert separation([*AB, Interface("a", "e1", 8), Interface("b", "e1", 9)], [(1, 2)]) is None


def test_the_parts_and_the_links_between_them_are_named():
    lost = [Lost(1, 3, "far"), Lost(3, 2, "away"), Lost(1, 2, "near")]
    found = separation(AB, [], lost)
    assert str(found) == "a cannot reach b"
    assert found.links == ("near",), "one repair is enough, though it is the last by name"
    assert found.fix("hikyaku lab repair") == "hikyaku lab repair near"
    assert found.fix("") == "repair the link near"
    assert separation(AB, [], lost[:2]).links == ("away", "far")
    assert separation(AB, []).fix("hikyaku lab repair") == "add a link between their switches"


def test_a_node_in_two_parts_is_called_by_its_interfaces():
    found = separation([*AB, Interface("a", "e1", 2)], [])
    assert found is None, "b and a meet at switch 2"
    found = separation([*AB, Interface("a", "e1", 2), Interface("c", "e0", 1)], [])
    assert str(found) == "a e0, c cannot reach a e1, b"


@pytest.mark.parametrize(("nodes", "parts"), [(300, 2), (300, 40)])
def test_a_sentence_names_few(nodes, parts):
    found = separation([Interface(f"n{i}", "e0", i % parts) for i in range(nodes)], [])
    assert len(found.parts) == parts
    assert str(found).count("n") < 4 * NAMED * NAMED
    assert "others" in str(found) or "other parts" in str(found)
    assert "n2, n4, n6" in str(found) or parts > 2, "by number"


@pytest.mark.parametrize("seed", range(20))
def test_the_repair_joins_all(seed):
    """After any cuts, a repair of the named links, and of nothing else, joins all nodes."""
    rng, graph = random.Random(seed), networks.at_random(seed).graph
    hosts = [Interface(f"{mac:x}", "e0", at[0]) for mac, at in graph.hosts.items()]
    cables = sorted({tuple(sorted((a, b))) for a, b in graph.links.items()})
    named = [Lost(a[0], b[0], f"{a}-{b}") for a, b in cables]
    lost = rng.sample(named, rng.randrange(1, len(named) + 1))
    for a, b in cables:
        if any(x.name == f"{a}-{b}" for x in lost):
            graph.remove_link(a)
    joined = all(each.at in graph.distances(hosts[0].at) for each in hosts)
    up = [(x.a, x.b) for x in named if x not in lost]
    found = separation(hosts, up, lost)
    assert (found is None) == joined
    if found:
        repaired = [(x.a, x.b) for x in lost if x.name in found.links]
        assert separation(hosts, up + repaired) is None
