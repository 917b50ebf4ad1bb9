# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the benchmarks in a terminal of 80 columns: nothing is cut, and goals say which
value they judge."""

import io
import re
import sys
from collections.abc import Callable

import documents
import pytest
from rich.console import Console
from rich.table import Table

from hikyaku.bench.common import busy, goals, tables
from hikyaku.bench.halo import report as halo
from hikyaku.bench.learn import report as learn
from hikyaku.bench.mpi import report as mpi
from hikyaku.bench.router import report as router
from hikyaku.bench.rtc import report as rtc
from hikyaku.bench.scale import report as scale
from hikyaku.bench.sdn import report as sdn

METRICS = ["latency_us", "bandwidth_MBps", "bibandwidth_MBps", "messages_per_s"]
CASES: dict[str, tuple[Callable[[dict, Console], None], dict]] = {
    "mpi": (mpi.show, documents.mpi(["memif", "veth"], METRICS, documents.DEMO_SIZES)),
    "mpi, protected": (
        mpi.show,
        documents.mpi(["memif"], METRICS, [8, 65536], ("off", "auth", "seal", "tls")),
    ),
    "halo": (halo.show, documents.halo_exchange([1, 4])),
    "scale": (scale.show, documents.scale([6, 192])),
    "rtc": (rtc.show, documents.run_to_completion()),
    "learn": (learn.show, documents.learning([1, 2, 16])),
    "sdn": (sdn.show, documents.network()),
    "router": (router.show, documents.routers()),
}


@pytest.mark.parametrize("name", CASES)
def test_no_column_is_cut(name):
    show, document = CASES[name]
    out = io.StringIO()
    show({"goals": [], **document}, Console(file=out, width=80))
    text = out.getvalue()
    assert text.count("\n") > 10
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_halo_explains_its_columns_before_the_first_of_them():
    out = io.StringIO()
    halo.show({"goals": [], **CASES["halo"][1]}, Console(file=out, width=80))
    assert out.getvalue().startswith("mpi-tcp, mpi-btl: Isend and Irecv over TCP, over Hikyaku;")


def test_protected_frames_are_compared_with_bare_ones():
    out = io.StringIO()
    document = documents.mpi(["memif"], ["latency_us"], [8], ("off", "auth"))
    mpi.show({"goals": [], **document}, Console(file=out, width=80))
    assert re.search(r"8 B +off +0\.701 +\S+ +1\.00\s", out.getvalue()), out.getvalue()
    assert re.search(r"8 B +auth +0\.761 +\S+ +1\.09\s", out.getvalue()), out.getvalue()
    assert "seal" not in out.getvalue()


def test_tls_is_shown_without_frames_that_are_not_protected():
    out = io.StringIO()
    document = documents.mpi(["memif"], ["latency_us"], [8], ("tls",))
    mpi.show({"goals": [], **document}, Console(file=out, width=80))
    assert re.search(r"8 B +tls +8 +\S+\s", out.getvalue()), out.getvalue()
    assert "of off" not in out.getvalue()


def test_goals_of_routers():
    document = documents.routers()
    met = {goal["goal"]: (round(goal["value"], 3), goal["met"]) for goal in router.judge(document)}
    assert met["emulated NICs, 1→1, times l3fwd on memif, worst variant"] == (1.269, True)
    assert met["Pktpit of emulated NICs, times Wr"] == (0.939, True)
    document["nics"][2]["rate"] = 13.0  # Bn
    document["nics"][3]["rate"] = 16.0  # Pktpit
    failed = {goal["goal"] for goal in router.judge(document) if not goal["met"]}
    assert failed == {
        "emulated NICs, 1→1, times l3fwd on memif, worst variant",
        "Pktpit of emulated NICs, times Wr",
    }


def said(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    return out.getvalue()


def test_a_goal_for_several_values_says_that_it_shows_the_worst():
    for relation, shown in (("≤", 3), (">", 1)):
        (goal,) = goals.worst("of TCP", [2, 3, 1], relation, 2, "size")
        lines = said(goals.table([goal])).splitlines()
        assert f"of TCP, worst size {shown} {relation} 2 not met" in {
            " ".join(line.split()) for line in lines
        }
        assert "median" not in "".join(lines)


@pytest.mark.parametrize(
    ("value", "relation", "limit", "shown"),
    [
        (29.96, "≥", 30, "29.96 ≥ 30 not met"),
        (29.9999, "≥", 30, "29.9999 ≥ 30 not met"),
        (30, "≥", 30, "30 ≥ 30 met"),
        (1.4999999999999998, "≥", 1.5, "1.5 ≥ 1.5 met"),
        (31.234, "≥", 30, "31.2 ≥ 30 met"),
        (0.8004, "≤", 0.8, "0.8004 ≤ 0.8 not met"),
        (1000.4, "<", 1000, "1000.4 < 1000 not met"),
        (2_000_001, "≤", 2_000_000, "2.000001M ≤ 2M not met"),
        (-0.5, ">", 0, "−0.5 > 0 not met"),
    ],
)
def test_a_value_that_misses_its_goal_does_not_look_equal_to_it(value, relation, limit, shown):
    lines = said(goals.table([goals.judged("it", value, relation, limit)])).splitlines()
    assert f"it {shown}" in [" ".join(line.split()) for line in lines]


BUSY = documents.ABOUT | {"load_at_start": 15.33, "cpu_share_at_start": 0.9}
QUIET = [
    documents.ABOUT | {"load_at_start": 1.0},
    documents.ABOUT | {"load_at_start": 9.0, "cpu_share_at_start": 0.1},  # a build has just ended
]


@pytest.mark.parametrize(("load", "share"), [(9, 0.9), (0.1, 0.0)])
def test_work_that_rests_for_a_moment_is_noticed(load, share, monkeypatch):
    """With a high load, a sample that finds nothing is not believed at once."""
    found = iter([0.0, 0.1, 0.9, 0.2, 0.0])
    monkeypatch.setattr(busy, "_cpu_share", lambda: next(found))
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (load, 0, 0))
    assert busy.state()["cpu_share_at_start"] == share


def test_a_busy_machine_judges_only_what_is_exact():
    def met(machine: dict) -> list[bool | None]:
        found = [goals.judged("ratio", 9, "≤", 1), goals.judged("bytes", 9, "≤", 1, exact=True)]
        document = {
            "machine": machine,
            "goals": [*found, *goals.worst("time", [1], "≤", 2, "size")],
        }
        goals.withhold(document)
        return [goal["met"] for goal in document["goals"]]

    assert met(BUSY) == [None, False, None]
    for machine in QUIET:
        assert met(machine) == [False, False, True]


def test_a_goal_that_is_not_judged_says_why():
    unjudged = goals.judged("ratio", 9, "≤", 1) | {"met": None}
    text = said(goals.table([unjudged]))
    assert "ratio 9 ≤ 1 not judged" in [" ".join(line.split()) for line in text.splitlines()]
    assert "the machine was busy" in text
    assert "not a fault of this machine" not in text


@pytest.mark.parametrize("name", ["mpi", "halo", "rtc", "sdn", "scale", "router"])
def test_figures_of_a_busy_machine_are_not_to_be_trusted(name, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["hikyaku", "bench", name, "--repeats", "1"])
    monkeypatch.delenv("HIKYAKU_COMMAND", raising=False)
    show, document = CASES[name]
    for machine, wanted in ((BUSY, True), *((quiet, False) for quiet in QUIET)):
        out = io.StringIO()
        show({"goals": [], **document, "machine": machine}, Console(file=out, width=80))
        text = " ".join(out.getvalue().split())
        assert ("do not trust times or ratios; run it again on a quiet machine:" in text) == wanted
        assert (f"hikyaku bench {name} --repeats 1" in text) == wanted
        assert "more reliable" not in text


@pytest.mark.parametrize(
    ("usual", "near", "shown"),
    [
        (60.04, False, "60.04 ns from core to core: far cores (near ones take at most 60 ns"),
        (60.0, True, "60 ns from core to core: near cores"),
        (181.27, False, "181 ns from core to core: far cores"),
    ],
)
def test_far_cores_do_not_look_as_near_as_the_limit(usual, near, shown):
    apart = {"usual_ns": usual, "near": near, "min_ns": 30, "max_ns": 190}
    apart |= {"left_out": 1, "samples": 9}
    out = io.StringIO()
    tables.show_core_distance({"cores_apart": apart}, Console(file=out, width=200))
    assert f"A cache line took {shown}" in out.getvalue()


@pytest.mark.parametrize(
    ("experiment", "about"),
    [
        ("sum", "window of sum"),
        ("hold_64B", "window of hold"),
        ("drops_lost", "drops:"),
        ("collapse_10_delivered", "overload:"),
    ],
)
def test_rtc_tells_the_settings_of_what_ran_and_of_nothing_else(experiment, about):
    document = documents.run_to_completion()
    rows = [r for r in document["rows"] if r["experiment"] == experiment]
    out = io.StringIO()
    rtc.show({**document, "rows": rows, "goals": []}, Console(file=out, width=500))
    settings = ("window of sum", "window of hold", "window of echo", "drops:")
    settings += ("overload:",)
    assert [text for text in settings if text in out.getvalue()] == [about]
