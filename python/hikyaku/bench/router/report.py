# SPDX-License-Identifier: BSD-3-Clause
"""The table and goals of `bench router`."""

from rich.console import Console

from ..common import goals


def judge(best: dict[str, float], table: dict) -> list[dict]:
    """The goals of the router, and of a table of a million prefixes (fib_bench)."""
    lookups = min(table[kind]["mlps"] for kind in ("any_address", "routed_address"))
    load = max(table[form]["load_s"] for form in ("text", "mrt"))
    update = max(each["worst"] for each in table["update_us"].values())
    asked = (
        ("bounce, times l3fwd", best["bounce"] / best["l3fwd"], "≥", 0.8),
        ("lookups, slower kind of address, million a second", lookups, "≥", 30),
        ("load of a million prefixes, slower form, seconds", load, "<", 3),
        ("the slowest update, µs", update, "<", 1000),
    )
    return [goals.judged(*goal) for goal in asked]


def show(result: dict, console: Console) -> None:
    console.print(f"{'64-byte frames, memif':24} {'million/s':>10} {'refused':>8}", highlight=False)
    for router in ("l3fwd", "bounce"):
        rate, refused = result[router], result["refused"][router]
        console.print(f"{router:24} {rate:10.2f} {refused:8.2f}", highlight=False)
    console.print(f"bounce is {result['share']:.0%} of l3fwd", highlight=False)
    console.print(goals.table(result["goals"]))
