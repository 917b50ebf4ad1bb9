# SPDX-License-Identifier: BSD-3-Clause
"""The plot of a simulation: the longest queue over time, and how long messages took."""

from typing import TYPE_CHECKING

from ..bench.common.figure import looks, plot
from .report import described

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST, _MEAN, _TIMES, _FAIR = "longest", "mean", "completion times", "a fair share"
_LOOKS = looks([_MOST, _MEAN, _TIMES, _FAIR])


def draw(result: dict) -> "Figure":
    queue, step = result["queue"], result["queue"]["bin_us"] / 1e3
    times = result["quantiles_us"]
    with plot(2, described(result)) as (figure, (left, right)):
        for name, key in ((_MOST, "max"), (_MEAN, "mean")):
            points = [((i + 0.5) * step, value / 1e3) for i, value in enumerate(queue[key])]
            left.curve(points, name, _LOOKS[name], width=1)
            left.values += [value for _, value in points]
        left.title = "queue of the busiest port"
        left.unit, left.along = "KB", "time, ms"
        points = [(100 * i / (len(times) - 1), value) for i, value in enumerate(times)]
        right.curve(points, _TIMES, _LOOKS[_TIMES])
        right.values += times
        if "fair_ms" in result and result["scenario"] != "pingpong":
            fair = 1e3 * result["fair_ms"]
            right.level(fair, _FAIR, _LOOKS[_FAIR])
            right.values.append(fair)
        round_trips = result["scenario"] in ("idle", "pingpong")
        right.title = "round trips" if round_trips else "completion times"
        right.unit, right.along = "µs", "percent that took at most so long"
    return figure
