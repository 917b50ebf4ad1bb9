# SPDX-License-Identifier: BSD-3-Clause
"""Which runs, in which order, and what becomes of their values.

The result is the JSON document that docs/man/hikyaku.1 describes: schema 1, one row for each wire,
metric and size.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median

from ..errors import HikyakuError
from ..lab import WIRES, Lab, down_dead, own_name
from . import machine
from .phases import Phases
from .sample import METRICS, RUNS, TRANSPORTS, Plan, with_lines

MAX_SIZE = 1 << 30
DEFAULT_SIZES = "1..4M"


def _number(text: str, what: str) -> int:
    match = re.fullmatch(r"(\d+)([kKmM]?)", text.strip())
    if not match:
        raise HikyakuError(
            f"'{text}' is no {what}", "write numbers, as in 8,2048,64K,4M, or a range 1..4M"
        )
    size = int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2].lower()]
    if size > MAX_SIZE:
        raise HikyakuError(f"{what} {text} is out of range", "give at most 1024M")
    return size


def parse_sizes(text: str, what: str = "number of bytes") -> list[int]:
    """Numbers from '8,2048,64K' or '1..4M' (powers of two), sorted, each once."""
    sizes = set()
    for part in text.split(","):
        low, dots, high = part.partition("..")
        if dots:
            size, end = max(1, _number(low, what)), _number(high, what)
            while size <= end:
                sizes.add(size)
                size *= 2
        else:
            sizes.add(_number(part, what))
    if not sizes:
        raise HikyakuError(f"no {what} in '{text}'", "give the smaller end of a range first")
    return sorted(sizes)


def parse_names(text: str, known: tuple[str, ...], what: str) -> list[str]:
    """Names with commas between them, each one of @known, in the order of @known."""
    names = [n.strip() for n in text.split(",") if n.strip()]
    for name in names:
        if name not in known:
            raise HikyakuError(f"there is no {what} '{name}'", f"use some of: {', '.join(known)}")
    if not names:
        raise HikyakuError(f"no {what} given", f"use some of: {', '.join(known)}")
    return [k for k in known if k in names]


def summary(values: list[float]) -> dict:
    return {"median": median(values), "min": min(values), "max": max(values)}


def run(
    wires: list[str],
    plan: Plan,
    repeats: int,
    transports: list[str],
    mtu: int,
    progress: Callable[[str, int, int], None],
) -> dict:
    """Measures and returns the document. @progress is told what runs now, and how much is done."""
    about = machine.describe()
    samples = Phases()
    init: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    total = len(wires) * repeats * len(transports)
    done = 0

    def once(lab: Lab, wire: str, transport: str, said: str) -> None:
        progress(f"{wire}: {transport}, {said}", done, total)
        for metric, size, value, line in with_lines(RUNS[transport](lab, plan)):
            if metric == "init_ms":
                init[wire][transport].append(value)
            else:
                samples.add((wire, metric, size), transport, value, line)

    down_dead("bench")
    for wire in wires:
        with Lab.up(2, wire, mtu=mtu, name=own_name("bench", wire)) as lab:
            for repeat in range(repeats):
                turn = repeat % len(transports)
                for transport in transports[turn:] + transports[:turn]:
                    once(lab, wire, transport, f"repeat {repeat + 1} of {repeats}")
                    done += 1
            samples.draw_more(
                transports,
                lambda cell, who, here=wire: who if cell[0] == here else None,
                repeats,
                repeats,
                partial(once, lab, wire),
            )
    progress("done", total, total)
    rows = [
        {
            "wire": wire,
            "metric": metric,
            "size": size,
            **{
                t: summary(v) if (v := samples.kept((wire, metric, size), t)) else None
                for t in TRANSPORTS
            },
        }
        for wire in wires
        for metric in plan.metrics
        for size in plan.sizes
    ]
    about["cores_apart"] = samples.describe()
    about |= {"repeats": repeats, "sample_ms": plan.sample_ms, "mtu": mtu}
    about["init_ms"] = {
        wire: {t: summary(values) for t, values in by.items()} for wire, by in init.items()
    }
    return {"schema": 1, "machine": about, "rows": rows}


__all__ = [
    "DEFAULT_SIZES",
    "METRICS",
    "TRANSPORTS",
    "WIRES",
    "Plan",
    "parse_names",
    "parse_sizes",
    "run",
    "summary",
]
