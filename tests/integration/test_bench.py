# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench`: the documents it writes have the promised form, and nothing is left.

No figure is judged here: speed is the benchmark's business, not a test's.
"""

import json
import signal
import subprocess

import pytest
from rich.console import Console

from execute import execute
from hikyaku import process
from hikyaku.bench.common.arguments import parse_sizes
from hikyaku.bench.common.phases import Phases
from hikyaku.bench.common.sample import Plan, Values
from hikyaku.bench.common.tables import number
from hikyaku.bench.compare import report as comparison
from hikyaku.bench.modes import hikyakud
from hikyaku.bench.modes import report as modes_report
from hikyaku.bench.modes import run as modes
from hikyaku.bench.mpi import report
from hikyaku.bench.mpi import run as driver
from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult, all_names, lab_id
from hikyaku.lab.openmpi import MODE_PARAMETER


def is_summary(cell: dict) -> bool:
    return (
        set(cell) == {"median", "min", "max"} and 0 < cell["min"] <= cell["median"] <= cell["max"]
    )


def run_bench(
    hikyaku: list[str], *arguments: str, what: str = "mpi"
) -> subprocess.CompletedProcess:
    return execute([*hikyaku, "bench", what, *arguments], code=None, timeout=300)


def bench_labs(pid: int) -> list[str]:
    """Labs of the benchmark that is, or was, process @pid."""
    return [n for n in all_names() if n.startswith(f"bench-{pid}-")]


@pytest.fixture
def root(lab_name):
    """The lab's guard: root, and no labs of killed test runs."""


@pytest.mark.alone
@pytest.mark.parametrize("wire", ["memif", "veth"])
def test_document_of_a_tiny_run(root, hikyaku, tmp_path, wire):
    file, picture = tmp_path / "sub" / "b.json", tmp_path / "b.png"
    done = run_bench(
        hikyaku,
        *("--wire", wire, "--sizes", "8,70000", "--repeats", "2", "--sample-ms", "2"),
        *("--json", str(file), "--plot", str(picture)),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    machine = document["machine"]
    assert {"cpu", "cores", "kernel", "open_mpi", "dpdk", "repeats"} <= set(machine)
    assert machine["repeats"] == 2
    assert is_summary(machine["init_ms"][wire]["hikyaku"])
    apart = machine["cores_apart"]
    assert 0 < apart["min_ns"] <= apart["usual_ns"] <= apart["max_ns"]
    assert apart["samples"] >= 2 * (3 * 2 * len(driver.METRICS) + 1)
    assert f"of {apart['samples']} samples" in done.stdout.replace("\n", " ")

    rows = {(r["wire"], r["metric"], r["size"]): r for r in document["rows"]}
    assert set(rows) == {(wire, m, s) for m in driver.METRICS for s in (8, 70000)}
    for (_, metric, size), row in rows.items():
        assert set(row) == {"wire", "metric", "size", "tcp", "hikyaku", "raw", "shm"}
        assert all(is_summary(row[t]) for t in ("tcp", "hikyaku", "shm"))
        # one frame carries 8 bytes and not 70000; only latency has a floor
        if metric == "latency_us" and size == 8:
            assert is_summary(row["raw"])
        else:
            assert row["raw"] is None
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"{wire} wire: latency" in done.stdout


def test_failing_transport_is_named_and_the_lab_removed(root, hikyaku, monkeypatch, tmp_path):
    """The program over TCP ends with a status and a message."""
    program = tmp_path / "bench" / "mpi_bench"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no wings >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("HIKYAKU_BUILD", str(tmp_path))
    tool = subprocess.Popen(
        [*hikyaku, "bench", "mpi", "--sizes", "8", "--repeats", "1", "--transports", "tcp"],
        stderr=subprocess.PIPE,
        text=True,
    )
    _, said = tool.communicate(timeout=120)
    assert tool.returncode == 1
    assert "the benchmark over TCP failed (status 7)" in said
    assert "no wings" in said
    assert bench_labs(tool.pid) == []


def test_what_is_not_built_is_named(hikyaku, monkeypatch):
    monkeypatch.setenv("HIKYAKU_BUILD", "/nonexistent")
    done = run_bench(hikyaku)
    assert done.returncode == 1
    assert "/nonexistent/bench/mpi_bench is not there" in done.stderr
    assert "run 'make'" in done.stderr


def test_interrupted_benchmark_leaves_nothing(root, hikyaku):
    tool = subprocess.Popen(
        [*hikyaku, "bench", "mpi", "--repeats", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "memif: tcp, repeat 1 of 100" in tool.stderr.readline()
    (name,) = bench_labs(tool.pid)
    process.wait_until(
        "the first run", lambda: bool(process.find(tag=f"HIKYAKU_LAB_ID={lab_id(name)}")), 30
    )
    tool.send_signal(signal.SIGINT)
    tool.communicate(timeout=60)
    assert tool.returncode == 130
    assert bench_labs(tool.pid) == []
    assert process.find(tag=f"HIKYAKU_LAB_ID={lab_id(name)}") == []


# ---- the driver alone ----------------------------------------------------------------------------


class FakeLab:
    """One that is not there, for runs that are not."""

    @staticmethod
    def up(*_args: object, **_named: object) -> "FakeLab":
        return FakeLab()

    def __enter__(self) -> "FakeLab":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def drive(
    monkeypatch, values: dict[str, list[float]], lines: dict[str, list[float]], repeats: int
) -> tuple[dict, list[str], list[int]]:
    """The driver's document, who ran in which order, and what the progress was. @lines: of a cache
    line beside each value; none: not measured."""
    order: list[str] = []
    told: list[int] = []

    def fake(name: str):
        def sample(_lab: FakeLab, _plan: Plan) -> Values:
            n = order.count(name)
            order.append(name)
            beside = {("line_ns of latency_us", 8): lines[name][n]} if lines else {}
            return {("latency_us", 8): values[name][n], **beside}

        return sample

    monkeypatch.setattr(driver, "Lab", FakeLab)
    monkeypatch.setattr(driver, "RUNS", {name: fake(name) for name in values})
    document = driver.run(
        ["memif"],
        Plan(["latency_us"], [8], 1),
        repeats,
        list(values),
        1500,
        lambda _text, done, _total: told.append(done),
    )
    return document, order, told


def test_transports_alternate_and_medians_are_taken(monkeypatch):
    """The order turns with each repeat; each transport runs once a repeat."""
    document, order, told = drive(
        monkeypatch, {"tcp": [9.0, 5.0, 6.0], "hikyaku": [0.5, 0.4, 2.0]}, {}, 3
    )
    assert order == ["tcp", "hikyaku", "hikyaku", "tcp", "tcp", "hikyaku"]
    assert told == [0, 1, 2, 3, 4, 5, 6]
    (row,) = document["rows"]
    assert row["tcp"] == {"median": 6.0, "min": 5.0, "max": 9.0}
    assert row["hikyaku"] == {"median": 0.5, "min": 0.4, "max": 2.0}
    assert row["raw"] is None
    assert report.ratio(row) == pytest.approx(12)
    assert document["machine"]["cores_apart"] is None


def test_samples_while_cores_were_far_apart_are_drawn_again(monkeypatch):
    """One of TCP's; and of the other all that may be: as many again as were asked for."""
    document, order, _ = drive(
        monkeypatch,
        {"tcp": [7.0, 7.1, 9.2, 7.3], "hikyaku": [0.5, 2.1, 2.2, 2.3, 2.4, 2.5]},
        {"tcp": [40.0, 41.0, 170.0, 42.0], "hikyaku": [40.0, 45.0, *[170.0] * 4]},
        3,
    )
    assert order[6:] == ["tcp", "hikyaku", "hikyaku", "hikyaku"]
    (row,) = document["rows"]
    assert row["tcp"] == {"median": 7.1, "min": 7.0, "max": 7.3}
    assert row["hikyaku"] == {"median": 1.3, "min": 0.5, "max": 2.1}
    apart = document["machine"]["cores_apart"]
    assert (apart["samples"], apart["left_out"], apart["max_ns"]) == (10, 5, 170.0)


def test_samples_of_another_phase_are_better_than_none():
    phases = Phases()
    for line in (40.0, 40.0, 40.0):
        phases.add("a", "tcp", 1.0, line)
    phases.add("a", "raw", 9.0, 200.0)
    phases.add("a", "shm", 5.0, None)
    assert phases.kept("a", "raw") == [9.0]
    assert phases.lacking(3) == {("a", "raw"), ("a", "shm")}
    assert phases.kept("a", "shm") == [5.0]
    assert phases.lacking(1) == {("a", "raw")}


def test_ratio_says_how_much_better():
    cell = {"min": 1, "max": 1}
    row = {"tcp": {"median": 2.0, **cell}, "hikyaku": {"median": 8.0, **cell}}
    assert report.ratio({"metric": "bandwidth_MBps", **row}) == 4
    assert report.ratio({"metric": "latency_us", **row}) == 0.25
    assert report.ratio({"metric": "latency_us", "tcp": row["tcp"], "hikyaku": None}) is None


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8", [8]),
        ("2048,8,8", [8, 2048]),
        ("1..16", [1, 2, 4, 8, 16]),
        ("0,1K,1M", [0, 1024, 1 << 20]),
        ("1K..3K,5", [5, 1024, 2048]),
    ],
)
def test_sizes(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "8,", "-1", "1.5", "8..", "4..2", "2G", "1025M"])
def test_bad_sizes(text):
    with pytest.raises(HikyakuError):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.1234, "0.123"),
        (5.6, "5.6"),
        (999.9, "1000"),
        (1541.2, "1541"),
        (9999.7, "10k"),
        (15410, "15.4k"),
        (999_960, "1M"),
        (3e6, "3M"),
        (5.01e9, "5.01G"),
        (1.2e12, "1200G"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


# ---- bench modes ---------------------------------------------------------------------------------


@pytest.mark.alone
def test_modes_document_of_a_tiny_run(root, hikyaku, tmp_path):
    """Every scene of two modes, and two scenes in the other modes."""
    file = tmp_path / "modes.json"
    short = ("--repeats", "1", "--messages", "300", "--compute-ms", "20", "--flood-ms", "50")
    short += ("--idle-seconds", "1", "--json", str(file))
    done = run_bench(
        hikyaku, "--modes", "split,daemon", "--metrics", "latency,attach", *short, what="modes"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert {(r["mode"], r["metric"]) for r in rows} >= {
        (mode, metric) for mode in ("split", "daemon") for metric in ("latency_us", "attach_ms")
    }
    done = run_bench(hikyaku, "--modes", "inline,hybrid", *short, what="modes")
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    assert document["machine"]["modes"] == ["inline", "hybrid"]
    by_mode: dict[str, dict[str, dict]] = {mode: {} for mode in modes.MODES}
    for row in document["rows"]:
        assert set(row) == {"wire", "mode", "metric", "size", "hikyaku", "to_inline"}
        assert set(row["hikyaku"]) == {"median", "min", "max"}
        by_mode[row["mode"]][row["metric"]] = row
    assert set(by_mode["hybrid"]) == set(modes_report.LABELS)
    shared = {m for m in by_mode["hybrid"] if not m.startswith(("flood_", "idle_", "attach_"))}
    assert set(by_mode["inline"]) == shared
    assert all(row["to_inline"] is None for m, row in by_mode["hybrid"].items() if m not in shared)
    assert by_mode["hybrid"]["latency_us"]["to_inline"] > 0
    assert by_mode["hybrid"]["flood_lost"]["hikyaku"]["max"] == 0
    assert by_mode["hybrid"]["flood_messages"]["hikyaku"]["min"] > 0
    # what the sender did before and after the computation's end lies on the same clock
    busy = by_mode["hybrid"]
    sum_ms = busy["busy_done_ms"]["hikyaku"]["median"] + busy["busy_early_ms"]["hikyaku"]["median"]
    assert sum_ms >= 20
    assert all(g["mode"] == "hybrid" for g in document["goals"])
    assert "hybrid" in done.stdout
    assert "mpi_yield_when_idle 1" in done.stdout


def test_mode_that_the_build_lacks(root, hikyaku):
    """The error is the BTL's own, with its fix."""
    tool = subprocess.Popen(
        [
            *(*hikyaku, "bench", "modes", "--modes", "inline", "--metrics", "latency"),
            *("--mca", MODE_PARAMETER, "sideways"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    _, said = tool.communicate(timeout=120)
    assert tool.returncode == 1
    assert f'mode inline: {MODE_PARAMETER}: there is no mode "sideways"' in said
    assert "fix: inline, hybrid" in said
    assert bench_labs(tool.pid) == []


def test_modes_alternate_within_each_repeat():
    plan = modes.Plan(metrics=["latency", "idle"], modes=["inline", "split", "hybrid"], repeats=2)
    assert plan.steps() == [
        ("latency", "inline", 0),
        ("latency", "split", 0),
        ("latency", "hybrid", 0),
        ("idle", "split", 0),
        ("idle", "hybrid", 0),
        ("latency", "split", 1),
        ("latency", "hybrid", 1),
        ("latency", "inline", 1),
        ("idle", "split", 1),
        ("idle", "hybrid", 1),
    ]


def mode_rows(**medians: dict[str, list[float]]) -> list[dict]:
    return modes.rows({(m, 8): by for m, by in medians.items()}, ["inline", "split", "hybrid"])


def test_modes_rows_are_medians_and_ratios_to_inline():
    rows = mode_rows(
        latency_us={"inline": [2.0, 4.0, 9.0], "hybrid": [5.0, 3.0]}, idle={"hybrid": [1.0]}
    )
    assert [(r["metric"], r["mode"], r["to_inline"]) for r in rows] == [
        ("latency_us", "inline", 1),
        ("latency_us", "hybrid", 1),
        ("idle", "hybrid", None),
    ]
    assert rows[0]["hikyaku"] == {"median": 4.0, "min": 2.0, "max": 9.0}
    assert rows[1] == {
        "wire": "memif",
        "mode": "hybrid",
        "metric": "latency_us",
        "size": 8,
        "hikyaku": {"median": 4.0, "min": 3.0, "max": 5.0},
        "to_inline": 1.0,
    }
    # nothing was sent again inline: no ratio
    (_, hybrid) = mode_rows(busy_resends={"inline": [0.0], "hybrid": [3.0]})
    assert hybrid["to_inline"] is None


@pytest.mark.parametrize(
    ("metric", "mode", "inline", "value", "met"),
    [
        ("latency_us", "hybrid", 1.0, 1.25, True),
        ("latency_us", "hybrid", 1.0, 1.26, False),
        ("bandwidth_MBps", "split", 10.0, 9.0, True),
        ("bandwidth_MBps", "split", 10.0, 8.9, False),
        ("busy_early_ms", "hybrid", -9.0, 0.1, True),
        ("busy_early_ms", "split", -9.0, 0.0, False),
        ("busy_resends", "hybrid", 0.0, 1.0, False),
        ("flood_ratio", "hybrid", None, 2.0, True),
        ("flood_lost", "hybrid", None, 1.0, False),
        ("idle_polling_percent", "hybrid", None, 3.0, False),
        ("idle_alone_percent", "hybrid", None, 2.9, True),
        ("pickup_us", "hybrid", 2000.0, 201.0, False),
        ("attach_ms", "hybrid", None, 299.0, True),
    ],
)
def test_modes_goals(metric, mode, inline, value, met):
    by_mode = {mode: [value]} | ({} if inline is None else {"inline": [inline]})
    (goal,) = modes_report.goals(mode_rows(**{metric: by_mode}))
    assert (goal["mode"], goal["metric"], goal["met"]) == (mode, metric, met)


def test_modes_has_no_goal_for_what_is_only_shown():
    by_mode = {"inline": [10.0], "hybrid": [1.0]}
    assert modes_report.goals(mode_rows(bandwidth_MBps=by_mode, idle_asleep_percent=by_mode)) == []
    # no ratio without inline
    assert modes_report.goals(mode_rows(latency_us={"hybrid": [1.0]})) == []


def test_modes_failure_that_the_btl_does_not_explain():
    with pytest.raises(HikyakuError, match=r"busy in mode hybrid failed \(status 7\)") as e:
        modes.parse(RunResult(7, "", "no wings\n", 1.0), "hybrid", "busy")
    assert "no wings" in str(e.value)


@pytest.mark.parametrize(
    ("chosen", "width", "ranges"),
    [
        (["inline", "hybrid"], 80, True),
        (["inline", "daemon", "hybrid"], 80, False),
        (["inline", "daemon", "hybrid"], 120, True),
        (["hybrid"], 80, True),
    ],
)
def test_modes_table_fits(capsys, chosen, width, ranges):
    """No cell is cut; the ranges go before the medians do."""
    cells = {mode: [-12345.0, -1.25, 1e6] for mode in chosen}
    rows = modes.rows({(m, 1 << 20): cells for m in modes_report.LABELS}, chosen)
    about = {"modes": chosen, "load_at_start": 0, "cores": 2, "repeats": 3, "cpu": "a", "mca": {}}
    about |= {"open_mpi": "4", "dpdk": "22", "busy_messages": 1, "busy_compute_ms": 1}
    about |= {"idle_seconds": 1}
    document = {"machine": about, "rows": rows, "goals": modes_report.goals(rows)}
    modes_report.show(document, Console(width=width))
    out = capsys.readouterr().out
    assert "−12.3k" in out if ranges else "−12.3k" not in out
    assert all(label in out for label in modes_report.LABELS.values())
    assert "−1.25" in out


def test_cpu_of_a_process_and_of_its_dead_children():
    tick = 1 / 100
    stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 9 0 0 100 20 3 4 20 0 1 0 8 9 9"
    assert hikyakud.cpu_seconds(stat) == pytest.approx(127 * tick)


@pytest.mark.parametrize(
    ("metric", "old", "new", "by_median", "by_quarter"),
    [
        ("latency_us", [4, 1, 2, 2], [2, 1, 1, 4], 1 / 3, 1.0),
        ("messages_per_s", [10, 40, 20, 20], [30, 10, 10, 20], -0.25, 0.0),
    ],
)
def test_a_comparison_knows_which_direction_is_better(metric, old, new, by_median, by_quarter):
    assert comparison.gain(metric, [old, new]) == pytest.approx(by_median)
    quarters = [[comparison.quarter(metric, each)] for each in (old, new)]
    assert comparison.gain(metric, quarters) == pytest.approx(by_quarter)
