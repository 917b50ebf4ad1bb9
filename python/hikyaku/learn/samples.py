# SPDX-License-Identifier: BSD-3-Clause
"""The data sets that `hikyaku learn` runs on when it is given none, as the lines of CSV files.

They are made from a seed, so they belong to nobody and are the same everywhere.

    line      a number from six features: linear, with noise and with an idle feature
    classes   one of three classes from five features, overlapping
"""

import math
import random
from collections.abc import Iterator

ROWS = 1200


def line() -> Iterator[str]:
    slope = [1.5, -2.0, 0.7, 0.0, 3.1, -0.4]
    offset = [20.0, 3.5, -1.0, 100.0, 0.2, 50.0]
    spread = [4.0, 1.0, 0.5, 25.0, 0.1, 9.0]
    rng = random.Random(20)
    yield "depth,width,angle,noise,gap,load,force"
    for _ in range(ROWS):
        z = [rng.gauss(0, 1) for _ in slope]
        y = 12 + sum(a * b for a, b in zip(slope, z, strict=True)) + rng.gauss(0, 1.2)
        x = [o + s * v for o, s, v in zip(offset, spread, z, strict=True)]
        yield ",".join(f"{v:.5g}" for v in [*x, y])


def classes() -> Iterator[str]:
    middles = {
        "maple": [0, 0, 0, 0, 0],
        "cedar": [1.6, 1.2, 0, -0.8, 0],
        "pine": [-1, 2.2, 1, 0, 0],
    }
    rng = random.Random(20)
    yield "height,girth,leaf,bark,age,kind"
    for i in range(ROWS):
        kind = list(middles)[i % 3]
        turn = rng.gauss(0, 1)
        x = [m + math.sqrt(0.6) * rng.gauss(0, 1) + 0.5 * turn for m in middles[kind]]
        yield ",".join([*(f"{v:.5g}" for v in x), kind])
