# SPDX-License-Identifier: BSD-3-Clause
"""Goals of the benchmarks: limits of figures, whether they are met, and their table.

A busy machine makes times and ratios worthless, so their goals are not judged then. Exact goals,
such as of counted bytes, do not depend on time, and are always judged.
"""

import math
import operator
from collections.abc import Callable

from rich.table import Table

from .busy import busy
from .tables import left_titled, number, number_beside

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}


def judged(
    text: str, value: float, relation: str, limit: float, *, exact: bool = False, **more: str
) -> dict:
    """The goal @text, with @value, @limit, whether it is met, and @more.

    @exact: other work on the machine cannot change the value."""
    if math.isclose(value, limit, rel_tol=1e-9):
        value = limit  # a ratio is rounded in its last digits
    met = RELATIONS[relation](value, limit)
    goal = {"goal": text, **more, "value": value, "relation": relation, "limit": limit}
    return goal | {"exact": exact, "met": met}


def withhold(document: dict) -> None:
    """If the machine of @document was busy, its goals that are not exact are neither met nor missed
    (None)."""
    if busy(document["machine"]):
        for goal in document["goals"]:
            if not goal["exact"]:
                goal["met"] = None


def worst(
    text: str, values: list[float], relation: str, limit: float, each: str, *, exact: bool = False
) -> list[dict]:
    """The goal @text for the worst of @values, which its text says; none without values.

    @each: the thing that has a value, such as a size."""
    if not values:
        return []
    value = min(values) if relation in ">≥" else max(values)
    return [judged(f"{text}, worst {each}", value, relation, limit, exact=exact)]


def value_text(value: float, limit: float | None = None) -> str:
    """@value, which does not look equal to @limit unless it is."""
    size = abs(value)
    text = number(size) if limit is None else number_beside(size, abs(limit))
    return text if value >= 0 else "−" + text


_TEXTS = {True: "[green]met[/]", False: "[red]not met[/]", None: "[yellow]not judged[/]"}
_CAPTIONS = {
    None: "not judged: the machine was busy, and this goal is of times or ratios.",
    False: "A goal that is not met is not a fault of this machine's set-up: goals are for quiet "
    "cores that are near each other. docs/performance.md has those that we miss.",
}


def table(goals: list[dict], column: str | None = None) -> Table:
    """The table of @goals. @column: a field of the goals to show as a column."""
    made = left_titled("Goals")
    made.add_column("")
    for name in (*((column,) if column else ()), "value", "goal", ""):
        made.add_column(name, justify="right", no_wrap=True)
    for goal in goals:
        made.add_row(
            goal["goal"],
            *((goal[column],) if column else ()),
            value_text(goal["value"], goal["limit"]),
            f"{goal['relation']} {number(goal['limit'])}",
            _TEXTS[goal["met"]],
        )
    found = {goal["met"] for goal in goals}
    made.caption = "\n".join(text for met, text in _CAPTIONS.items() if met in found) or None
    made.caption_justify = "left"
    return made
