#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make-learn-samples.py: writes the data sets that `hikyaku learn` runs on when it is given none.

They are made here, from a seed, so they belong to nobody. Run it again and git sees no change.

    line.csv      a number from six features: linear, with noise and with an idle feature
    classes.csv   one of three classes from five features, overlapping
"""

import csv
import math
import random
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "python/hikyaku/learn/samples"


def line(rng: random.Random, rows: int) -> list[list[str]]:
    slope = [1.5, -2.0, 0.7, 0.0, 3.1, -0.4]
    offset = [20.0, 3.5, -1.0, 100.0, 0.2, 50.0]
    spread = [4.0, 1.0, 0.5, 25.0, 0.1, 9.0]
    table = [["depth", "width", "angle", "noise", "gap", "load", "force"]]
    for _ in range(rows):
        z = [rng.gauss(0, 1) for _ in slope]
        y = 12 + sum(a * b for a, b in zip(slope, z, strict=True)) + rng.gauss(0, 1.2)
        x = [o + s * v for o, s, v in zip(offset, spread, z, strict=True)]
        table.append([f"{v:.5g}" for v in [*x, y]])
    return table


def classes(rng: random.Random, rows: int) -> list[list[str]]:
    middles = {
        "maple": [0, 0, 0, 0, 0],
        "cedar": [1.6, 1.2, 0, -0.8, 0],
        "pine": [-1, 2.2, 1, 0, 0],
    }
    table = [["height", "girth", "leaf", "bark", "age", "kind"]]
    for i in range(rows):
        kind = list(middles)[i % 3]
        turn = rng.gauss(0, 1)
        x = [m + math.sqrt(0.6) * rng.gauss(0, 1) + 0.5 * turn for m in middles[kind]]
        table.append([*(f"{v:.5g}" for v in x), kind])
    return table


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name, make, rows in (("line", line, 1200), ("classes", classes, 1200)):
        with (OUT / f"{name}.csv").open("w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(make(random.Random(20), rows))


if __name__ == "__main__":
    main()
