# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku demo`: each of its pictures, as typed, with the sentence that it prints."""

import re
from pathlib import Path

import pytest

from execute import execute

LIMIT_S = 100

SENTENCES = {
    "halo": r"8000 steps on 128 x 128 points, 4 nodes: \d+\.\d{3} s by MPI, \d+\.\d{3} s by halo, "
    r"same bits",
    "learn": r"nodes 0, 1, 3 and 4 learnt in \d+\.\d\d s, accuracy 0\.8\d+ \(node [0134]'s "
    r"model\); node 2 sent false parameters: [34] of 4 other nodes refused \d+% of its slices",
    "p2p": r"a packet of 1518 bytes, computed: .* device to device 0 and \d+$",
    "sdn": r"[1-9]\d* Bcasts of 1 MiB to 7 nodes by multicast.*, every byte compared; "
    r"(leaf\d-spine\d) was cut meanwhile, and the tree now crosses (?!.*\1)leaf\d-spine\d, ",
}


@pytest.mark.parametrize(
    "name",
    [
        *("learn", "p2p"),
        pytest.param("halo", marks=pytest.mark.one_core),
        pytest.param("sdn", marks=pytest.mark.alone),
    ],
)
def test_a_picture_and_a_sentence(hikyaku: list[str], tmp_path: Path, name: str) -> None:
    done = execute([*hikyaku, "demo", name, "--out", str(tmp_path)], timeout=LIMIT_S)
    sentence, saved = done.stdout.splitlines()
    assert re.match(SENTENCES[name], sentence), sentence
    files = sorted(tmp_path.iterdir())
    assert saved == f"saved {', '.join(map(str, reversed(files)))}"
    assert (tmp_path / f"demo-{name}.png").read_bytes().startswith(b"\x89PNG")
    if name == "halo":
        assert (tmp_path / "demo-halo.gif").read_bytes().startswith(b"GIF89a")
