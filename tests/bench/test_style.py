# SPDX-License-Identifier: BSD-3-Clause
"""The style of all plots: the form of ticks, colours, and the files that drawing leaves."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from hikyaku.bench.common.figure import COLOURS, looks, plain, plot, size_tick
from hikyaku.checkout import ROOT


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1 + 0.2, "0.3"),
        (1.025, "1.025"),
        (800, "800"),
        (1000, "1000"),
        (12_500, "12 500"),
        (3e6, "3 000 000"),
        (1e-12, "0.000000000001"),
    ],
)
def test_plain_numbers(value: float, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(8, "8"), (1000, "1 kB"), (1024, "1 KiB"), (105_096, "105096"), (1 << 21, "2 MiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_tick(size) == text


@pytest.mark.parametrize(
    "sizes",
    [
        [8, 2048],
        [0, 8, 1 << 20],
        [1 << i for i in range(23)],
        [8, 64, 512, 1024, 2048, 4096, 8192, 16384, 65536, 1 << 20, 1 << 22],
        [1, 1 << 21, 1 << 22],
    ],
    ids=len,
)
def test_sizes_close_to_each_other_have_no_label_each(sizes: list[int]) -> None:
    """They were printed one over the other. Both ends and all ticks stay."""
    cells = {size: {"median": 2, "min": 1, "max": 3} for size in sizes}
    with plot(1, "sizes") as (figure, (panel,)):
        panel.sizes({"one": cells}, looks(["one"]))
    figure.canvas.draw()
    (axes,) = figure.axes
    assert list(axes.get_xticks()) == sizes
    labels = [label for label in axes.get_xticklabels() if label.get_text()]
    assert [labels[0].get_text(), labels[-1].get_text()] == [
        size_tick(s) for s in sizes[:: len(sizes) - 1]
    ]
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


# Machado, Oliveira and Fernandes 2009, severity 1: protanopia, deuteranopia, tritanopia.
SEEN = {
    "all colours": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def cielab(colour: str, seen: list[list[float]]) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    rgb = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ np.clip(np.array(seen) @ rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("who", SEEN)
def test_colour_blind_readers_tell_the_colours_apart(who: str) -> None:
    """By distance in CIELAB. Without red, blue and purple of earlier plots were 6.8 apart."""
    seen = [cielab(colour, SEEN[who]) for colour in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_nothing_is_left_in_the_home_directory(tmp_path) -> None:
    """matplotlib writes a font cache there, unless it is told otherwise."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MPLCONFIGDIR", "PYTHONPATH")}
    environment = {k: v for k, v in environment.items() if not k.startswith("XDG_")}
    program = (
        "from hikyaku.bench.common.figure import plot\n"
        "with plot(1, 'empty') as (figure, _): pass\n"
        "figure.savefig('empty.svg')\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"HOME": str(home), "PYTHONPATH": str(ROOT / "python")},
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    assert (tmp_path / "empty.svg").exists()
    assert not list(home.iterdir())
