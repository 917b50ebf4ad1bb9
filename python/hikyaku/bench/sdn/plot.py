# SPDX-License-Identifier: BSD-3-Clause
"""The picture of `bench sdn`: a panel for each experiment and unit."""

from typing import TYPE_CHECKING

from ..common.figure import looks, machine_note, plot
from .run import experiments, in_cases

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COMPUTED = "computed, no packet was sent; medians, and whiskers from minimum to maximum"


def note(document: dict) -> str:
    """The line below the figure: the origin of its numbers."""
    computed = {r["experiment"]: experiments()[r["experiment"]].computed for r in document["rows"]}
    return _COMPUTED if all(computed.values()) else machine_note(document["machine"])


def draw(document: dict) -> "Figure":
    rows, known = document["rows"], experiments()
    pairs = list(dict.fromkeys((r["experiment"], r["unit"]) for r in rows))
    with plot(len(pairs), "Tags and the network", note(document)) as (figure, panels):
        for panel, (experiment, unit) in zip(panels, pairs, strict=True):
            own = [r for r in rows if (r["experiment"], r["unit"]) == (experiment, unit)]
            methods = list(dict.fromkeys(r["method"] for r in own))
            how = "computed, " if known[experiment].computed else ""
            panel.title, panel.unit = f"{experiment}: {how}{known[experiment].about}", unit
            if cases := in_cases(own):
                panel.grouped_bars(
                    cases, looks(list(dict.fromkeys(n for c in cases.values() for n in c)))
                )
                continue
            key = next((k for k in ("bytes", "ranks") if len({r[k] for r in own}) > 1), None)
            if key is None:
                panel.bars({r["method"]: r for r in own})
                continue
            series = {m: {r[key]: r for r in own if r["method"] == m} for m in methods}
            if key == "bytes":
                panel.sizes(series, looks(methods))
            else:
                panel.along = key
                panel.lines(series, looks(methods))
    return figure
