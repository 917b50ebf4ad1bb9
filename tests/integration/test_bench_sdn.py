# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench sdn`: the form of its document, its judgements, and what it refuses. No figure is
judged here: speed is the benchmark's business, not a test's."""

import json
import subprocess

import pytest
from rich.console import Console

from execute import execute
from hikyaku.bench.sdn import bcast as sdn_bcast
from hikyaku.bench.sdn import failover as sdn_fabric
from hikyaku.bench.sdn import network as sdn_network
from hikyaku.bench.sdn import plot as sdn_plot
from hikyaku.bench.sdn import report as sdn_report
from hikyaku.bench.sdn import run as sdn
from hikyaku.bench.sdn import several as sdn_several
from hikyaku.bench.sdn import switching as switch
from hikyaku.bench.sdn import tags as sdn_tags
from hikyaku.bench.sdn import times as sdn_times
from hikyaku.bench.sdn.run import Row, row

FIELDS = {"experiment", "method", "ranks", "bytes", "median", "min", "max", "unit"}


def call(hikyaku: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return execute([*hikyaku, "bench", "sdn", *arguments], code=None, timeout=120)


@pytest.mark.one_core
def test_tags_document_of_a_tiny_run(lab_name, hikyaku, tmp_path) -> None:
    file, picture = tmp_path / "b.json", tmp_path / "b.png"
    done = call(
        hikyaku,
        *(
            "--experiments",
            "tags,tags_one,tags_direct",
            "--sizes",
            "8,70000",
            "--repeats",
            "1",
            "--sample-ms",
            "2",
        ),
        *("--json", str(file), "--plot", str(picture)),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    assert all(set(r) == FIELDS for r in document["rows"])
    assert all(r["median"] > 0 for r in document["rows"])
    seen = {(r["experiment"], r["method"], r["bytes"], r["unit"]) for r in document["rows"]}
    want = set()
    for name, units in (
        ("tags", sdn_tags.UNITS),
        ("tags_one", sdn_tags.ONE_UNITS),
        ("tags_direct", sdn_tags.UNITS),
    ):
        for size in (8, 70000):
            want |= {(name, m, size, u) for m in ("plain", "tagged") for u in units.values()}
            want |= {(name, "tagged / plain", size, u) for u in sdn_tags.RATIOS.values()}
    want |= {("tags_direct", program, 0, "ns a packet") for program in ("egress", "ingress")}
    assert seen == want
    assert len(document["goals"]) == 13
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "ns that tagging a packet takes" in done.stdout


def ratio_rows(experiment: str, latency: list[float], bandwidth: list[float]) -> list[Row]:
    return [
        row(experiment, sdn_tags.RATIO, 2, 1 << i, unit, [value])
        for unit, values in zip(sdn_tags.RATIOS.values(), (latency, bandwidth), strict=True)
        for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("latency", "bandwidth", "egress", "met"),
    [
        ([1.0, 1.02], [0.98, 1.0], 300, [True, True, True, True, True]),
        ([1.0, 1.0, 1.03], [1.0, 1.0, 0.97], 301, [False, True, False, True, False]),
        ([1.1, 1.1], [0.9, 0.9], 1, [False, False, False, False, True]),
    ],
)
def test_goals_of_tags(latency, bandwidth, egress, met) -> None:
    rows = ratio_rows("tags", latency, bandwidth)
    assert [goal["met"] for goal in sdn_tags.SWITCHED_EXPERIMENT.goals(rows)] == met[:4]
    rows = ratio_rows("tags_direct", latency, bandwidth)
    rows.append(row("tags_direct", "egress", 2, 0, sdn_tags.PROGRAM, [egress]))
    assert [goal["met"] for goal in sdn_tags.DIRECT_EXPERIMENT.goals(rows)] == met


def test_a_ratio_is_of_timings_beside_each_other(monkeypatch) -> None:
    """mpi_bench times a b b a: the first of either is a pair, and so on."""

    def timings(_lab, sample, _plan, _window):
        sides = [("a", 2.0), ("b", 1.0), ("b", 4.0), ("a", 16.0)]
        assert (switch.ON, switch.OFF) == ("a", "b")
        return [
            {"metric": metric, "size": size, "side": side, "value": value}
            for metric in sample.metrics
            for size in sample.sizes
            for side, value in sides
        ]

    monkeypatch.setattr(sdn_tags, "_timings", timings)
    rows = sdn_tags._both_sides(None, "tags", sdn.Plan(1, [8], 1), lambda *_: None)
    (ratio,) = [r for r in rows if r["unit"] == "latency ratio"]
    assert (ratio["min"], ratio["max"]) == (2 / 1, 16 / 4)
    (plain,) = [r for r in rows if (r["method"], r["unit"]) == ("plain", "µs, half round trip")]
    assert (plain["min"], plain["max"]) == (1, 4)


def test_a_descriptor_that_is_closed_meanwhile_is_passed_over(tmp_path) -> None:
    (tmp_path / "3").write_text("link_type:\ttcx\n")
    (tmp_path / "4").symlink_to(tmp_path / "closed")
    assert list(switch.infos(tmp_path)) == ["link_type:\ttcx\n"]


def test_the_table_has_a_column_a_method(capsys) -> None:
    rows = [row("tags", m, 2, s, "µs", [s / 8]) for m in ("a", "b") for s in (8, 16)]
    about = {"load_at_start": 0, "cores": 2, "cpu": "x", "repeats": 1}
    sdn_report.show({"machine": about, "rows": rows, "goals": []}, Console(width=100))
    out = capsys.readouterr().out
    assert [w for w in out.split() if w in ("a", "b")] == ["a", "b"]
    assert "16 B" in out


def test_what_is_counted_is_counted(hikyaku, tmp_path):
    """Experiments without a lab: their figures are exact, so they are judged here."""
    path = tmp_path / "sdn.json"
    names = "spread,entries,scale"
    argv = [*hikyaku, "bench", "sdn", "--experiments", names, "--repeats", "1", "--json", path]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    document = json.loads(path.read_text())
    assert {r["experiment"] for r in document["rows"]} == set(names.split(","))
    goals = {g["goal"]: g["met"] for g in document["goals"]}
    assert len(goals) == 6
    assert all(met for goal, met in goals.items() if "CPU time" not in goal), goals


@pytest.mark.slow
def test_real_switches(hikyaku, tmp_path):
    path = tmp_path / "sdn.json"
    argv = [*hikyaku, "bench", "sdn", "--experiments", "bcast,failover", "--repeats", "1"]
    subprocess.run([*argv, "--json", path], check=True, capture_output=True, timeout=200)
    rows = {
        (r["experiment"], r["unit"], r["method"]): r for r in json.loads(path.read_text())["rows"]
    }
    carried, lost = sdn_bcast.OF_PAYLOAD, sdn_bcast.FRAMES_LOST
    assert rows["bcast", carried, "multicast"]["max"] <= 1.1
    assert rows["bcast", carried, "multicast 1 %"]["max"] <= 1.3
    assert rows["bcast", carried, "binomial"]["min"] > 2
    assert rows["bcast", lost, "multicast"]["max"] == 0
    assert rows["bcast", lost, "multicast 1 %"]["min"] > 0
    assert rows["failover", sdn_fabric.LOST, "next link"]["max"] < 1000


@pytest.mark.parametrize(("names", "computed"), [(["spread"], True), (["spread", "tags"], False)])
def test_the_picture_says_whether_packets_were_sent(names, computed):
    document = {
        "rows": [{"experiment": name} for name in names],
        "machine": {"repeats": 5, "cpu": "a processor", "load_at_start": 0, "cores": 2},
    }
    text = sdn_plot.note(document)
    assert ("no packet was sent" in text) == computed
    assert ("a processor" in text) != computed


@pytest.mark.one_core
def test_each_routing_of_an_allreduce_uses_its_links(lab_name, monkeypatch):
    """On real switches: the controller's rules load both spines alike, and those of the bench lead
    over the spine that they name. The program compares all results."""
    monkeypatch.setattr(sdn_network, "own_name", lambda _, what: lab_name(what))
    monkeypatch.setattr(sdn_times, "SIZE", 64 << 10)
    nodes = sdn_times.IN_BLOCKS
    second = dict.fromkeys(sdn_times.crossing(nodes), 1)
    mca = {"coll": "^hikyaku", **sdn_times.tuned(sdn_times.DOUBLING)}
    with sdn_times.network("allreduce", sdn_times.topology()) as lab:
        wiring = lab.topology.wiring
        for routing, most in (({}, 2), (second, 4)):
            with sdn_times.routed(lab, sdn_times.flows(wiring, nodes, routing)):
                before = sdn_times.trunks(lab)
                taken = sdn_times._run(lab, nodes, "allreduce", False, mca)
            grown = [now - then for now, then in zip(sdn_times.trunks(lab), before, strict=True)]
            assert most <= taken.carried < 1.3 * most
            by_spine = [sum(grown[:2] + grown[4:6]), sum(grown[2:4] + grown[6:])]
            if routing:
                assert by_spine[0] < by_spine[1] / 10
            else:
                assert 0.8 < by_spine[0] / by_spine[1] < 1.25
        # two jobs at once: each has a ring of four, with six flows of a quarter between the leaves
        taken = sdn_times.measured(lab, lambda: sdn_several.together(lab), sdn_several.ROUNDS)
        assert 1.5 <= taken.carried < 1.3 * 1.5, "they share no link"
