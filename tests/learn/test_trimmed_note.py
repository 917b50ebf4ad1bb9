# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku learn --merge trimmed` says if it is the mean, since nodes have too few neighbours."""

import re

import pytest

from hikyaku.checkout import ROOT
from hikyaku.cli.learn import TRIMMED_MIN, _too_few_to_trim


@pytest.mark.parametrize(
    ("topology", "nodes", "said"),
    [
        ("all", 4, None),
        ("all", 3, "has 2 neighbours, .* fix: --nodes 4$"),
        ("all", 2, "has 1 neighbour, .* fix: --nodes 4$"),
        ("ring", 2, "has 1 neighbour, .* fix: --topology all --nodes 4$"),
        ("ring", 9, "has 2 neighbours, .* fix: --topology all$"),
        ("exponential", 4, "has 2 neighbours, .* fix: --nodes 5$"),
        ("exponential", 5, None),
        ("random", 3, "has 2 neighbours, .* fix: --degree 4 --nodes 4$"),
        ("random", 9, "has 2 neighbours, .* fix: --degree 4$"),
        ("file", 4, None),
    ],
)
def test_too_few_neighbours(topology, nodes, said):
    note = _too_few_to_trim(topology, nodes)
    assert note is None if said is None else re.search(said, note)


def test_a_random_topology_has_neighbours_by_its_degree():
    assert _too_few_to_trim("random", 9, 3) is None
    assert re.search("fix: --nodes 4$", _too_few_to_trim("random", 3, 3))


def test_the_limit_is_that_of_the_nodes():
    source = (ROOT / "systems/learn/gossip_take.c").read_text()
    assert f"#define TRIMMED_MIN {TRIMMED_MIN}\n" in source
