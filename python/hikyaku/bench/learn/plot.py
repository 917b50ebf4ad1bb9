# SPDX-License-Identifier: BSD-3-Clause
"""The plot of `bench learn`: for each model the time to its target, and the rate of iterations. A
case that missed its target is a gap in its line, and has no bar."""

import math
from typing import TYPE_CHECKING

from ..common.figure import Panel, looks, machine_note, plot
from .report import TITLES
from .run import ALONE, BACKENDS, ITERATIONS, NO_FIGURES, TIME, nodes_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ONE = "one node"
_LOOKS = looks(["tcp", "dpdk", *BACKENDS, _ONE])
_PANELS = {
    TIME: ("time until {target:g} times the least loss", "time, s"),
    ITERATIONS: ("iterations of all nodes", "iterations/s"),
}


def _backend(row: dict) -> str:
    return _ONE if row["backend"] == ALONE else row["backend"]


def _lines(panel: Panel, rows: list[dict]) -> None:
    series: dict[str, dict[float, dict]] = {}
    for row in rows:
        gap = dict.fromkeys(NO_FIGURES, math.nan) if "missed" in row else {}
        series.setdefault(_backend(row), {})[row["nodes"]] = row | gap
    panel.along = "nodes"
    panel.lines(series, _LOOKS)


def _bars(panel: Panel, rows: list[dict]) -> None:
    named = {
        _ONE if _backend(r) == _ONE else f"{nodes_text(r['nodes'])}, {r['backend']}": r
        for r in rows
        if "missed" not in r
    }
    panel.bars(named, {name: _LOOKS[_backend(row)] for name, row in named.items()})


def draw(document: dict) -> "Figure":
    measured = {r["model"] for r in document["rows"] if "missed" not in r}
    models = [model for model in TITLES if model in measured]
    wanted = [(model, metric) for model in models for metric in _PANELS]
    note = machine_note(document["machine"])
    with plot(len(wanted), "Nodes that train a model by gossip", note) as (figure, panels):
        for panel, (model, metric) in zip(panels, wanted, strict=True):
            of_model = [r for r in document["rows"] if r["model"] == model]
            rows = [r for r in of_model if r["metric"] == metric or "missed" in r]
            title, panel.unit = _PANELS[metric]
            target = document["machine"]["targets"][model]
            panel.title = f"{TITLES[model]}: {title.format(target=target)}"
            many = len({r["nodes"] for r in rows if r["backend"] != ALONE}) > 1
            (_lines if many else _bars)(panel, rows)
    return figure
