# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench learn`: real nodes over each backend, the form of its document, its goals."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from execute import execute
from hikyaku.bench.learn import report
from hikyaku.bench.learn import run as learn
from hikyaku.bench.learn.problems import PROBLEMS, rows
from hikyaku.bench.learn.run import Case, Plan
from hikyaku.cli.bench.learn import bench_learn
from hikyaku.errors import HikyakuError
from hikyaku.learn import job
from hikyaku.learn.data import Scaling

RATIOS = {learn.TO_ONE, learn.TO_TCP}


@pytest.mark.parametrize(
    ("models", "backends", "nodes"),
    [
        (["line"], ["tcp", "udp", "raw", "af_xdp", "dpdk"], [1, 2]),
        (["logistic", "svm"], ["raw"], [3]),  # more than a small machine's cores
    ],
)
def test_document_of_a_tiny_run(lab_name, hikyaku, tmp_path, models, backends, nodes):
    file, picture = tmp_path / "learn.json", tmp_path / "learn.png"
    argv = [
        *hikyaku,
        "bench",
        "learn",
        "--models",
        ",".join(models),
        "--backends",
        ",".join(backends),
    ]
    argv += ["--nodes", ",".join(map(str, nodes)), "--rows", "2000", "--repeats", "1"]
    done = execute([*argv, "--json", str(file), "--plot", str(picture)], timeout=300)
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(file.read_text())
    names = {"model", "backend", "nodes", "metric", "median", "min", "max", "unit"}
    assert all(set(row) == names for row in document["rows"])
    assert all(0 < row["min"] <= row["median"] <= row["max"] for row in document["rows"])
    group = [("none", 1)] * (1 in nodes) + [(b, n) for n in nodes if n > 1 for b in backends]
    wanted = [(model, *each) for model in models for each in group]
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for r in document["rows"]:
        found.setdefault((r["model"], r["backend"], r["nodes"]), {})[r["metric"]] = r["median"]
    assert list(found) == wanted
    for (_, backend, count), metrics in found.items():
        assert metrics.keys() - RATIOS == learn.UNITS.keys() - RATIOS
        assert (learn.TO_ONE in metrics) == (1 in nodes and count > 1)
        assert (learn.TO_TCP in metrics) == ("tcp" in backends and backend not in ("tcp", "none"))
        # Nodes measure a mean of models, and the best node's own model is worse. Where a node has
        # waited long for a core, the models are further apart.
        assert 1 <= metrics[learn.LOSS] < 1.9  # before training it is 2 to 25
        assert 0.7 < metrics[learn.QUALITY] < 1
        assert metrics[learn.PASSES] >= 1  # it measures its loss after a pass over its rows
    targets = {model: PROBLEMS[model].target for model in models}
    assert document["machine"]["targets"] == targets
    assert f"{nodes[-1]} nodes, {backends[-1]}" in done.stdout


def ended(nodes: int, **changed: object) -> tuple[job.Plan, job.Outcome]:
    """A training of a line on 1600 rows, with the parameters that made them."""
    problem = PROBLEMS["line"]
    data = rows(problem, 1600, 1)
    scaling = Scaling.of(data.x, data.y, regression=True)
    (slope,), _, _, _ = np.linalg.lstsq(scaling.x(data.x), scaling.y(data.y), rcond=None)
    line = {"event": "end", "stop": "target", "trained": 2.0, "rows": 3200 / nodes} | changed
    lines = [line | {"node": node} for node in range(nodes)]
    lines[-1]["trained"] = 1.0
    w = np.tile([slope, 0.0], (nodes, 1))
    w[0] += 0.5  # a node with a worse model
    return job.Plan(data, "linear", nodes, l2=0.0), job.Outcome(lines, w, scaling, 9.0)


def test_values_of_a_training():
    training, outcome = ended(4)
    x, y = outcome.scaling.x(training.data.x), outcome.scaling.y(training.data.y)
    least = training.model.loss(outcome.w[-1], x, y)
    found = learn.values(training, outcome, least, "line")
    # the slowest node counts; four nodes trained with 3200 of 1600 rows; the best model
    assert found[learn.TIME] == 2.0
    assert found[learn.ITERATIONS] == 3200 / learn.BATCH / 2
    assert found[learn.PASSES] == 2
    assert found[learn.LOSS] == pytest.approx(1)
    assert found[learn.QUALITY] == pytest.approx(1 - 2 * least)


def test_a_training_that_missed_its_target_has_no_figure():
    training, outcome = ended(2, stop="time")
    with pytest.raises(HikyakuError, match="line, 2 nodes, tcp: the loss was not within its targ"):
        learn.values(training, outcome, 1.0, Case("line", "tcp", 2).text)


def test_ratios_are_those_of_one_repeat():
    one, tcp, dpdk = (Case("line", *c) for c in (("none", 1), ("tcp", 2), ("dpdk", 2)))
    times = {one: (8.0, 80.0), tcp: (4.0, 16.0), dpdk: (2.0, 10.0)}
    found = {(case, n): {learn.TIME: of[n]} for case, of in times.items() for n in range(2)}
    plan = Plan(["line"], ["tcp", "dpdk"], [1, 2], 2)
    by = {(r["backend"], r["metric"]): (r["min"], r["max"]) for r in learn.table(found, plan)}
    assert by["dpdk", learn.TO_ONE] == (4, 8)
    assert by["dpdk", learn.TO_TCP] == (1.6, 2)
    assert by["tcp", learn.TO_ONE] == (2, 5)
    assert ("tcp", learn.TO_TCP) not in by and ("none", learn.TO_ONE) not in by


def test_cases_alternate():
    plan = Plan(["line", "svm"], ["tcp", "dpdk"], [1, 2, 4], 2)
    order = [(c.model, c.backend, c.nodes, repeat) for c, repeat in learn.steps(plan)]
    assert order[:5] == [
        ("line", backend, nodes, 0)
        for backend, nodes in (("none", 1), ("tcp", 2), ("dpdk", 2), ("tcp", 4), ("dpdk", 4))
    ]
    assert order[10] == ("line", "tcp", 2, 1)  # the second repeat begins with the second case
    assert len(order) == len(set(order)) == 2 * 2 * 5


@pytest.mark.parametrize(("value", "met"), [(2.0, True), (1.99, False)])
def test_goals(value, met):
    key = {"model": "line", "metric": learn.TO_ONE, "median": value}
    found = [key | {"backend": "dpdk", "nodes": 2}, key | {"backend": "raw", "nodes": 2}]
    (goal,) = report.judge([*found, key | {"backend": "dpdk", "nodes": 4, "median": 9.0}])
    assert (goal["goal"], goal["met"]) == ("line: 2 nodes by dpdk, times as fast as one", met)


def test_a_case_that_misses_its_target_leaves_the_others(monkeypatch, tmp_path):
    """It is not run again, and the figures of its earlier repeat do not count. The others are
    printed, saved and drawn, and the command ends with status 1 and names the case."""
    ran: list[tuple[Case, int]] = []

    def run(bench: learn.Bench, case: Case, repeat: int) -> learn.Values:
        ran.append((case, repeat))
        late = case.nodes == 4 and repeat == 1
        training, outcome = ended(case.nodes, **({"stop": "time"} if late else {}))
        return learn.values(training, outcome, 1.0, case.text)

    monkeypatch.setattr(learn.Bench, "run", run)
    file, picture = tmp_path / "learn.json", tmp_path / "learn.png"
    argv = ["bench", "learn", "--models", "line", "--backends", "tcp,dpdk", "--nodes", "1,2,4"]
    argv += ["--repeats", "3", "--json", str(file), "--plot", str(picture)]
    done = CliRunner().invoke(bench_learn, argv[2:])
    assert isinstance(done.exception, HikyakuError)
    limit = "the loss was not within its target after"
    assert str(done.exception).startswith(f"line, 4 nodes, tcp; line, 4 nodes, dpdk: {limit}")
    rows = json.loads(file.read_text())["rows"]
    missed = [r for r in rows if r["nodes"] == 4]
    assert [(r["backend"], r["metric"], r["median"]) for r in missed] == [
        ("tcp", learn.TIME, None),
        ("dpdk", learn.TIME, None),
    ]
    assert all(r["missed"].startswith(limit) for r in missed)
    assert {r["nodes"] for r in rows if "missed" not in r} == {1, 2}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert re.search(r"4 nodes, tcp +missed +– ", done.output)
    assert f"missed: {limit}" in done.output
    assert {repeat for case, repeat in ran if case.nodes == 4} == {0, 1}
    assert {repeat for case, repeat in ran if case.nodes == 2} == {0, 1, 2}


def test_a_run_without_any_figure_ends_with_the_first_error(monkeypatch):
    def run(bench: learn.Bench, case: Case, repeat: int) -> learn.Values:
        training, outcome = ended(case.nodes, stop="time")
        return learn.values(training, outcome, 1.0, case.text)

    monkeypatch.setattr(learn.Bench, "run", run)
    with pytest.raises(HikyakuError, match="line, 2 nodes, tcp: the loss was not within its targ"):
        learn.run(Plan(["line"], ["tcp", "dpdk"], [2], 1), lambda *_: None)
