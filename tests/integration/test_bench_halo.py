# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: its document, its goals. No figure is judged here."""

import json
import subprocess

import pytest

from hikyaku.bench import halo, halo_report
from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult


def test_document_of_a_tiny_run(lab_name, hikyaku, tmp_path):
    file, picture = tmp_path / "h.json", tmp_path / "h.png"
    argv = [*hikyaku, "bench", "halo", "--repeats", "1", "-n", "8", "--doubles", "10,3000"]
    argv += ["--json", str(file), "--plot", str(picture)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "27-point matrix, METIS" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    found = {(r["experiment"], r["method"]) for r in document["rows"]}
    assert found == {(e, m) for e in "ABC" for m in (*halo.METHODS, halo.SETUP)}
    for row in document["rows"]:
        assert set(row) == {
            *("experiment", "processes", "bytes", "method", "ports"),
            *("median", "min", "max", "unit"),
        }
        assert (row["processes"], row["ports"], row["unit"]) == (2, 1, "us")
        assert 0 < row["min"] <= row["median"] <= row["max"]
    assert {r["bytes"] for r in document["rows"] if r["experiment"] == "A"} == {80, 24000}


def test_several_ports(lab_name, hikyaku, tmp_path):
    file, picture = tmp_path / "h.json", tmp_path / "h.png"
    argv = [*hikyaku, "bench", "halo", "--experiments", "A", "--ports", "1,4", "--repeats", "1"]
    argv += ["--doubles", "10000", "--json", str(file), "--plot", str(picture)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "two ranks, one piece each way, 4 ports" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = {(r["method"], r["ports"]) for r in json.loads(file.read_text())["rows"]}
    ours = [m for m in (*halo.METHODS, halo.SETUP) if m != "mpi-tcp"]
    assert found == {("mpi-tcp", 1), *((m, p) for m in ours for p in (1, 4))}


def test_wrong_numbers_of_ports(hikyaku):
    argv = [*hikyaku, "bench", "halo", "--ports", "9"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "9 ports: a rank takes from 1 to 8" in done.stderr


def row(experiment: str, size: int, method: str, median: float) -> dict:
    return {"experiment": experiment, "bytes": size, "method": method, "median": median}


@pytest.mark.parametrize(("ours", "met"), [(20.0, True), (20.1, False)])
def test_goal_against_tcp_is_judged_by_the_worst_size(ours, met):
    rows = [
        row("A", 800, "mpi-tcp", 10),  # too short to be judged
        row("A", 800, "halo", 9),
        row("A", 8000, "mpi-tcp", 100),
        row("A", 8000, "halo", 1),
        row("A", 80000, "mpi-tcp", 100),
        row("A", 80000, "halo", ours),
    ]
    goals = halo_report.judge(rows)
    assert [(g["goal"], g["met"]) for g in goals] == [("A: of TCP, 8 kB to 800 kB", met)]


def test_set_up_pays_by_what_exchanges_save():
    rows = [
        row("B", 100, "mpi-tcp", 60),
        row("B", 100, "halo", 10),
        row("B", 100, halo.SETUP, 501),
    ]
    goal = halo_report.judge(rows)[-1]
    assert goal["value"] == pytest.approx(10.02)
    assert not goal["met"]


def test_transports_alternate():
    plan = halo.Plan(["A", "C"], 2, 2, 8, [10], ports=[1, 4])
    tcp = halo.TCP
    assert plan.steps() == [
        *(("A", 1, 0), ("A", 4, 0), ("A", tcp, 0), ("C", 1, 0), ("C", 4, 0), ("C", tcp, 0)),
        *(("A", tcp, 1), ("A", 4, 1), ("A", 1, 1), ("C", tcp, 1), ("C", 4, 1), ("C", 1, 1)),
    ]


def test_a_run_that_fails_is_shown():
    with pytest.raises(HikyakuError, match=r"experiment A over TCP failed \(status 3\):\nno wire"):
        halo.parse(RunResult(3, "", "no wire\n", 0.1), "experiment A over TCP", {})
