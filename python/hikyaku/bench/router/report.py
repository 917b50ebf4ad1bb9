# SPDX-License-Identifier: BSD-3-Clause
"""The tables and goals of `bench router`."""

from rich.console import Console
from rich.table import Table

from ..common import goals
from ..common.busy import warn_if_busy
from ..common.tables import left_titled, number

NAMES = {"wr": "Wr", "rd": "Rd", "bn": "Bn", "pktpit": "Pktpit"}


def nic_rate(result: dict, variant: str, pairs: int = 1) -> float:
    """Million frames a second through @pairs pairs of NICs."""
    rows = result["nics"]
    return next(r["rate"] for r in rows if (r["variant"], r["pairs"]) == (variant, pairs))


def judge(result: dict) -> list[dict]:
    """The goals of the routers, and of a table of a million prefixes (fib_bench)."""
    table = result["fib"]
    lookups = min(table[kind]["mlps"] for kind in ("any_address", "routed_address"))
    load = max(table[form]["load_s"] for form in ("text", "mrt"))
    update = max(each["worst"] for each in table["update_us"].values())
    of_l3fwd = [nic_rate(result, variant) / result["l3fwd"] for variant in NAMES]
    asked = (
        ("bounce, times l3fwd", result["share"], "≥", 0.8),
        (
            "Pktpit of emulated NICs, times Wr",
            nic_rate(result, "pktpit") / nic_rate(result, "wr"),
            "≥",
            0.9,
        ),
        ("lookups, slower kind of address, million a second", lookups, "≥", 30),
        ("load of a million prefixes, slower form, seconds", load, "<", 3),
        ("the slowest update, µs", update, "<", 1000),
    )
    return [
        *(goals.judged(*goal) for goal in asked[:1]),
        *goals.worst("emulated NICs, 1→1, times l3fwd on memif", of_l3fwd, ">", 1, "variant"),
        *(goals.judged(*goal) for goal in asked[1:]),
    ]


def _table(title: str, *columns: str) -> Table:
    made = left_titled(title)
    made.add_column("")
    for name in columns:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def _routers(result: dict) -> Table:
    made = _table("64-byte frames", "million/s", "p50 µs", "p99 µs", "refused")
    for router, name in (("l3fwd", "l3fwd, memif"), ("bounce", "bounce, memif")):
        delay = [number(result["delay"][router][q]) for q in ("p50_us", "p99_us")]
        refused = number(result["refused"][router])
        made.add_row(name, number(result[router]), *delay, refused)
    for pairs, rate in result["l3fwd_alone"].items():
        made.add_row(f"l3fwd without wires, {pairs}→{pairs}", number(rate), "–", "–", "–")
    for row in result["nics"]:
        name = f"emulated NICs, {NAMES[row['variant']]}, {row['pairs']}→{row['pairs']}"
        delay = [number(row[q]) for q in ("p50_us", "p99_us")]
        made.add_row(name, number(row["rate"]), *delay, "–")
    return made


def _stages(result: dict) -> Table:
    """CPU time of each process, and bytes of each link, of one pair."""
    columns = ("receiver", "sender", "host", "link in", "link out", "headers")
    made = _table("Emulated NICs, 1→1: ns and link bytes a frame", *columns)
    for row in (row for row in result["nics"] if row["pairs"] == 1):
        times = [number(row[f"{who}_ns"]) for who in ("receiver", "sender", "host")]
        carried = [number(link["bytes_a_frame"]) for link in row["links"]]
        payload = sum(link["payload_a_frame"] for link in row["links"])
        share = 1 - payload / sum(link["bytes_a_frame"] for link in row["links"])
        made.add_row(NAMES[row["variant"]], *times, *carried, f"{share:.0%}")
    return made


def show(result: dict, console: Console) -> None:
    console.print(_routers(result))
    console.print(f"bounce is {result['share']:.0%} of l3fwd", highlight=False)
    console.print(_stages(result))
    console.print(goals.table(result["goals"]))
    warn_if_busy(result["machine"], console)
