# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench scale`: messages that are computed, counted and simulated."""

import itertools
import json
from collections import defaultdict

import pytest

from execute import execute
from hikyaku.bench.scale.run import counted, messages


@pytest.mark.one_core
def test_document_of_a_tiny_run(lab_name, hikyaku, tmp_path):
    file, picture = tmp_path / "s.json", tmp_path / "s.png"
    argv = [*hikyaku, "bench", "scale", "--processes", "3,9", "--counted", "4", "-n", "8"]
    argv += ["--rounds", "1", "--json", str(file), "--plot", str(picture)]
    done = execute(argv, timeout=100)
    assert "SIMULATED" in done.stdout
    assert "not equal" not in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(file.read_text())
    of = {(row["experiment"], row["processes"]): row for row in document["counts"]}
    assert of.keys() == {(e, n) for e in "BC" for n in (2, 3, 4, 9)}
    assert {key for key, row in of.items() if row["counted"]} == {("B", 4), ("C", 4)}
    # blocks of rows: two neighbours, to each a plane of 8 x 8 points, a row and a point
    assert (of["B", 4]["neighbours"], of["B", 4]["bytes"]) == (2, 2 * 8 * 64)
    found = {
        (t["experiment"], t["processes"], t["method"], t["ports"], t["exchange_us"] > 0)
        for t in document["times"]
    }
    variants = (("mpi", 1), ("halo", 1), ("halo", 4))
    assert found == {(e, n, *v, True) for e in "BC" for n in (3, 9) for v in variants}
    assert {(m["experiment"], m["method"]) for m in document["measured"]} == {
        (e, m) for e in "BC" for m in ("mpi", "halo")
    }


def by_hand(n: int, parts: int) -> dict[tuple[int, int], int]:
    """Bytes from each rank to each other one, with blocks of rows."""
    points = itertools.product(range(n), repeat=3)
    part = {(x, y, z): ((z * n + y) * n + x) * parts // n**3 for x, y, z in points}
    needs = defaultdict(set)
    for (x, y, z), mine in part.items():
        for dx, dy, dz in itertools.product((-1, 0, 1), repeat=3):
            other = part.get((x + dx, y + dy, z + dz), mine)
            if other != mine:
                needs[other, mine].add((x + dx, y + dy, z + dz))
    return {pair: 8 * len(points) for pair, points in needs.items()}


@pytest.mark.parametrize("parts", [2, 3, 7, 40])
def test_messages_against_brute_force(parts):
    found = {(a, b): size for a, b, size in messages(6, "B", parts).messages}
    assert found == by_hand(6, parts)


def line(one: int, other: int, out: int, into: int, exchanges: int = 1) -> str:
    pair, sizes = f"rank {one} with rank {other}", f"{out} bytes out, {into} in"
    return f"hk_halo: {pair}: {sizes}, {exchanges} exchanges, …\n"


def test_reports_of_real_ranks():
    found = counted(line(0, 1, 80, 16) + "noise\n" + line(1, 0, 16, 80))
    assert found.messages == [(0, 1, 80), (1, 0, 16)]
    assert counted(line(0, 1, 80, 16) + line(1, 0, 16, 72)) is None  # they disagree
    assert counted(line(0, 1, 80, 16)) is None  # one is missing
    assert counted(line(0, 1, 8, 8, 0) + line(1, 0, 8, 8, 0)) is None
    assert counted("") is None
