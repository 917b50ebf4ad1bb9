# SPDX-License-Identifier: BSD-3-Clause
"""The picture of `bench sdn`: a panel for each experiment and unit."""

from pathlib import Path

from ..common.figure import figure_file, finish, with_range

_COLOURS = ("#c0392b", "#1f5fa8", "#27915b", "#8e44ad", "#b9770e", "#7f8c8d")


def draw(document: dict, path: Path) -> None:
    rows = document["rows"]
    panels = list(dict.fromkeys((r["experiment"], r["unit"]) for r in rows))
    about = document["machine"]
    title = (
        f"Tags and the network: {about['cpu']}, virtual wires; median and range of "
        f"{about['repeats']} repeats"
    )
    with figure_file(path, len(panels), title) as axes:
        for place, (experiment, unit) in zip(axes, panels, strict=True):
            own = [r for r in rows if (r["experiment"], r["unit"]) == (experiment, unit)]
            along = "bytes" if len({r["bytes"] for r in own}) > 1 else "ranks"
            for i, method in enumerate(dict.fromkeys(r["method"] for r in own)):
                line = [r for r in own if r["method"] == method]
                colour = _COLOURS[i % len(_COLOURS)]
                with_range(place, [r[along] for r in line], line, method, colour, "o-")
            if along == "bytes":
                place.set_xscale("log", base=2)
            if "ratio" not in unit:
                place.set_yscale("log")
            place.set_title(experiment)
            place.set_xlabel(along)
            place.set_ylabel(unit)
            finish(place)
