# SPDX-License-Identifier: BSD-3-Clause
"""Goals: what a figure is to be, whether it is, and the table that says so."""

import operator
from collections.abc import Callable

from rich import box
from rich.table import Table

from .report import number

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}


def judged(goal: dict, value: float, relation: str, limit: float) -> dict:
    """@goal says what of, the result also whether it is met."""
    met = RELATIONS[relation](value, limit)
    return {**goal, "value": value, "relation": relation, "limit": limit, "met": met}


def value_text(value: float) -> str:
    return number(value) if value >= 0 else "−" + number(-value)


def table(goals: list[dict], column: str | None = None) -> Table:
    """@column: a field of the goals that gets a column of its own."""
    made = Table(title="Goals", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    made.add_column("")
    for name in (*((column,) if column else ()), "median", "goal", ""):
        made.add_column(name, justify="right", no_wrap=True)
    for goal in goals:
        made.add_row(
            goal["goal"],
            *((goal[column],) if column else ()),
            value_text(goal["value"]),
            f"{goal['relation']} {number(goal['limit'])}",
            "[green]met[/]" if goal["met"] else "[red]not met[/]",
        )
    return made
