# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku papers`: what it measures, what it keeps, and its page."""

import dataclasses
import json

import click
import documents
import pytest

from hikyaku.checkout import ROOT
from hikyaku.cli.main import main
from hikyaku.errors import HikyakuError
from hikyaku.papers import FIGURES, PAPERS, page, run
from hikyaku.papers.figure import Comparison, Figure, Measurement, Paper
from hikyaku.papers.run import Result
from hikyaku.process import run as run_command

ABOUT = {"cpu": "<cpu>", "cores": 2, "os": "Debian", "kernel": "6", "open_mpi": "4.1"}
ABOUT |= {"dpdk": "22.11", "hikyaku": "0.1", "commit": "c0ffee", "time": "2026-11-27T00:00:00Z"}


def cell(median: float) -> dict[str, float]:
    return {"median": median, "min": median, "max": median}


# ---- figures -------------------------------------------------------------------------------------


def test_names_say_their_paper():
    for paper in PAPERS:
        assert all(figure.name.startswith(f"{paper.name}-") for figure in paper.figures)
    assert len(FIGURES) == sum(len(paper.figures) for paper in PAPERS)


def test_without_a_measurement_there_is_a_reason():
    assert all(f.open for f in FIGURES.values() if not f.measurement)
    assert all(f.setting and f.compare for f in FIGURES.values() if f.measurement)


@pytest.mark.parametrize("quick", [False, True])
def test_measurements_are_commands(quick):
    for each in run.needed(FIGURES.values()):
        command: click.Command = main
        words = [*each.argv(quick), "--json", "x.json"]
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        command.make_context(each.name, words)  # its options are valid


def compared(name: str, document: dict) -> dict[str, Comparison]:
    return {c.what: c for c in FIGURES[name].compare(document)}


def test_routers_of_p4():
    found = compared("P4-l3fwd", documents.routers())
    for variant, of in (("Wr", 18 / 13), ("Rd", 17 / 13), ("Bn", 16.5 / 13), ("Pktpit", 1.3)):
        one = found[f"emulated NICs, {variant}, 1→1, times l3fwd"]
        assert one.ours == pytest.approx(of) and one.met
        assert found[f"emulated NICs, {variant}, 2→2"].met is None
    assert found["Pktpit, times Wr, 1→1"].met
    assert found["emulated NICs, Wr, 1→1, CPU of the host"].ours == 0


def test_load_of_p4_claims_no_effect():
    """An emulator's rates are not compared with the paper's, so no goal is met."""
    cell = {"device": "nic", "direction": "receive", "pop": "pop:ivshmem:0000:00:08.0"}
    cell |= {"rings": True, "load": "network", "load_threads": 2, "wrong": 0, "ring_bytes": 4096}
    (paper,) = (paper.only({"P4-load"}) for paper in PAPERS if paper.name == "P4")
    result = Result(["bench", "devmem"], "c0ffee", 1.0, {"cells": [cell]})
    (shown,) = page.show([paper], {"devmem": result})
    found = shown.compared
    assert [c.ours for c in found] == [0, 4096] and shown.standing == "checked"
    assert "rings too; CPU: network, 2 threads" in found[0].what
    assert any("hikyaku devmem peer" in line for line in FIGURES["P4-load"].procedure)


def test_latency_of_p1():
    rows = [
        {"size": size, "tcp": cell(tcp), "hikyaku": cell(ours)}
        for size, tcp, ours in [(8, 10, 1), (2048, 10, 2), (1 << 20, 100, 120)]
    ]
    found = compared("P1-latency-memif", {"rows": rows})
    at_2k = found["below TCP at 2 KB"]
    assert (at_2k.theirs, round(at_2k.ours), at_2k.met) == (77, 80, True)
    assert round(found["below TCP in the best case (8 B)"].ours) == 90
    worst = found["of TCP's, worst size (1048576 B)"]
    assert (worst.ours, worst.met) == (1.2, False)


def test_scale_of_p3():
    found = compared("P3-scale", documents.scale([6, 192]))
    text = "one-sided, of Isend and Irecv; METIS, 192 processes, ports of a rank: 4; simulated"
    assert found[text].theirs == pytest.approx(0.086 / 0.293)
    assert found[text].ours == pytest.approx((20 + 300 / 192) / (60 + 300 / 192))
    assert found["messages as computed, counted by 6 real ranks; METIS"].met is True
    assert not any("counted by 192" in what for what in found)
    differ = "difference of measured from simulated; 2 ranks, links of 1 Gb/s, METIS, halo"
    assert found[differ].ours == 0.5


def test_protocols_of_p1():
    document = documents.protocols(["tcp", "split"], [256, 2048, 8192, 16384])
    found = compared("P1-protocols", document)
    start, per_byte = 0.7, 8e-5
    (first,) = (c for what, c in found.items() if "from here on" in what)
    assert first.ours == min(s for s in (256, 2048, 8192, 16384) if s * per_byte >= start) / 1e3
    assert found["eager, of TCP's eager, worst size; Hikyaku, split"].met
    slow = documents.protocols(["tcp", "split"], [256, 2048])
    assert not any("from here on" in what for what in compared("P1-protocols", slow))


def test_matrix_of_p3():
    def row(experiment: str, method: str, ports: int, median: float) -> dict:
        at = {
            "experiment": experiment,
            "method": method,
            "ports": ports,
            "bytes": 9,
            "processes": 2,
        }
        return {**at, **cell(median)}

    rows = [
        row(experiment, method, ports, value)
        for experiment in "BC"
        for ports in (1, 4)
        for method, value in (("mpi-tcp", 90.0), ("mpi-btl", 10.0), ("halo", 8.0))
    ]
    found = compared("P3-matrix", {"rows": rows})
    blocks = found["one-sided, of Isend and Irecv; blocks of rows, ports of a rank: 1"]
    assert (blocks.ours, blocks.theirs, blocks.met) == (0.8, 1.0, True)
    metis = found["one-sided, of Isend and Irecv; METIS, ports of a rank: 1"]
    assert metis.theirs == pytest.approx(0.306 / 0.436) and not metis.met


def test_solves_of_p3():
    found = compared("P3-solves", documents.halo_exchange([1]))
    text = "a whole solve by one-sided writes, of that by Isend and Irecv; Fortran, METIS"
    assert (found[text].ours, found[text].met) == (pytest.approx(0.96), True)
    text = "the same, of that by MPI over TCP; C, blocks of rows"
    assert (found[text].ours, found[text].met) == (pytest.approx(0.96 / 1.5), None)
    assert len(found) == 8


def test_trials_of_p1():
    def row(name: str, **more: object) -> dict:
        return {"name": name, "ranks": 2, **more}

    def ran(tcp: float, ours: float, differences: list[str]) -> dict:
        seconds = {"tcp": {"median": tcp}, "hikyaku": {"median": ours}}
        return {"seconds": seconds, "figures": 7, "differences": {"hikyaku": differences}}

    rows = [row("good", **ran(4, 1, [])), row("bad", **ran(1, 2, ["x"])), row("gone", missing="no")]
    found = compared("P1-applications", {"rows": rows})
    assert found["time of good, of that over TCP"].ours == 0.25
    assert found["results of good that differ from TCP's, of 7"].met
    assert not found["results of bad that differ from TCP's, of 7"].met
    assert len(found) == 4


def test_times_of_p2():
    found = compared("P2-allreduce-time", documents.network(["allreduce_time"]))
    text = "time of an Allreduce, of that by hashing; spread, doubling worst, tcp"
    assert found[text].ours == 0.5
    assert len(found) == 4


def test_sums_of_p5():
    def row(experiment: str, backend: str, nodes: int, x: float, median: float) -> dict:
        at = {"experiment": experiment, "backend": backend, "nodes": nodes, "x": x}
        return {**at, **cell(median)}

    rows = [row("sum", "dpdk", 2, times, 8.0) for times in (1, 10, 100)]
    rows += [row("sum", "tcp", 2, times, 1.0) for times in (1, 10, 100)]
    found = compared("P5-sum", {"rows": rows})
    met = [c.met for c in found.values()]
    assert met == [False, True, True]  # of 30, 4 and 0.4


def test_learning_of_p5():
    """Its authors have figures for a line by two nodes, and none for what they left open."""
    found = compared("P5-learn", documents.learning([1, 2, 16]))
    goals = {what: (c.theirs, round(c.ours, 2), c.met) for what, c in found.items() if c.relation}
    assert goals == {
        "y = ax + b: 2 nodes by dpdk, times as fast as one node": (2, 2, True),
        "y = ax + b: 2 nodes by dpdk, times as fast as TCP": (1.2, 2, True),
    }
    raw = found["linear SVM: 16 nodes by raw, times as fast as TCP"]
    assert raw.ours == pytest.approx(2 / 1.5)
    rows = found["logistic regression: 16 nodes by dpdk: rows, of those of one node"]
    assert rows.ours == pytest.approx(1 / 16)


def test_hold_of_p5():
    rows = [
        {"experiment": f"hold_{frame}B", "x": ns, "median": rate}
        for frame in (64, 128)
        for ns, rate in [(0, 10.0), (25, 9.5), (50, 9.1), (100, 7.0)]
    ]
    found = compared("P5-hold", {"rows": rows})
    assert found["hold up to which throughput is flat; 64 B"].ours == 50
    assert found["hold up to which throughput is flat; 64 B"].theirs == 50


def test_overload_of_p5():
    document = documents.run_to_completion()
    found = compared("P5-overload", document)
    name = "handled at 4 times the closed loop's rate, of it; repetitions: 100"
    assert found[f"dpdk: {name}"].ours == pytest.approx(1 / 0.9)  # the closed loop's is 0.9
    tcp = next(
        r["median"]
        for r in document["rows"]
        if (r["experiment"], r["backend"], r["x"]) == ("sum", "tcp", 100)
    )
    times = found["DPDK at 4 times the closed loop's rate, times TCP; repetitions: 100"]
    assert (times.theirs, times.met) == (0.4, True) and times.ours == pytest.approx(8.4 / tcp)
    assert not any("socket: handled" in what and c.relation for what, c in found.items())


def test_drops_of_p5():
    found = compared("P5-drops", documents.run_to_completion())
    # it can handle 0.3, and the rates are 0.2 and 0.5
    assert found["rate with at most 1 % lost in the best repeat; socket"].ours == 0.2
    assert found["rate with at most 1 % lost in the best repeat; dpdk"].ours == 4
    ratio = found["such a rate of DPDK, times that of a UDP socket"]
    assert (round(ratio.ours), ratio.met) == (20, True)
    assert found["CPU time of a message; socket, 0.05 million/s"].ours == 20_000


# ---- what is kept --------------------------------------------------------------------------------

ONE = Measurement("one", ("bench", "one"), ("bench", "one", "--quick"))
TWO = Measurement("two", ("bench", "two"), ("bench", "two", "--quick"))


def figures() -> list[Figure]:
    def compare(document: dict):
        yield Comparison("<ratio>", 2, document["value"], "", "≥", "a note")

    return [
        Figure("P9-one", "one", "said", ONE, "virtual", compare),
        Figure(
            "P9-again",
            "again",
            "said",
            ONE,
            "virtual",
            compare,
            procedure=("buy a NIC", "./use it"),
        ),
        Figure("P9-two", "two", "said", TWO, "virtual", compare),
        Figure("P9-gap", "gap", "said", open="No tool."),
    ]


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """The commands that run. "two" fails."""
    argvs: list[list[str]] = []

    def ran(argv, commit, _directory, step):
        argvs.append(argv)
        step("a step")
        two = argv[1] == "two"
        return Result(argv, commit, 1.5, None if two else {"value": 3}, "no tool" * two)

    monkeypatch.setattr(run, "_run", ran)
    return argvs


def measure(
    tmp_path, *, commit: str = "c0ffee", quick: bool = False, resume: bool = False
) -> dict[str, Result]:
    more = {"commit": commit, "quick": quick, "resume": resume}
    return run.measure(figures(), tmp_path, lambda *_: None, **more)


def test_each_measurement_runs_once(ran, tmp_path):
    results = measure(tmp_path)
    assert ran == [["bench", "one"], ["bench", "two"]]
    assert results["one"].document == {"value": 3} and results["two"].document is None


def test_resume_keeps_what_is_there(ran, tmp_path):
    measure(tmp_path)
    ran.clear()
    measure(tmp_path, resume=True)
    assert ran == [["bench", "two"]]  # which had failed
    measure(tmp_path)
    assert len(ran) == 3


def test_resume_keeps_nothing_of_another_command_or_commit(ran, tmp_path):
    measure(tmp_path)
    ran.clear()
    measure(tmp_path, quick=True, resume=True)
    assert ran[0] == ["bench", "one", "--quick"]
    measure(tmp_path, commit="other", quick=True, resume=True)
    assert ran[2] == ["bench", "one", "--quick"]


def test_resume_survives_a_damaged_file(ran, tmp_path):
    measure(tmp_path)
    (tmp_path / "one.json").write_text("{")
    measure(tmp_path, resume=True)
    assert len(ran) == 4


def test_a_failure_has_its_output(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ROOT", tmp_path)
    tool = tmp_path / "hikyaku"
    lines = [
        "#!/bin/sh",
        "echo '[1/2] a step'",
        "echo 'hikyaku: no NIC; fix: buy one' >&2",
        "exit 1",
    ]
    tool.write_text("\n".join(lines))
    tool.chmod(0o755)
    steps: list[str] = []
    found = run._run(["bench", "one"], "c0ffee", tmp_path, steps.append)
    assert found.document is None and found.failure == "hikyaku: no NIC; fix: buy one"
    assert steps == ["one: a step (1 of 2)"]
    tool.write_text('#!/bin/sh\necho \'{"value": 3}\' > "$4"\n')
    assert run._run(["bench", "one"], "c0ffee", tmp_path, steps.append).document == {"value": 3}
    assert [p.name for p in tmp_path.iterdir()] == ["hikyaku"]


# ---- the page ------------------------------------------------------------------------------------


def test_page(ran, tmp_path):
    results = measure(tmp_path / "data")
    paper = Paper("P9", "A <title>", "authors", tuple(figures()))
    path = page.write(tmp_path, page.show([paper], results), ABOUT, quick=True)
    text = path.read_text()
    assert "&lt;ratio&gt;" in text and "A &lt;title&gt;" in text and "<ratio>" not in text
    assert "<code>hikyaku bench two</code> failed" in text and "<pre>no tool</pre>" in text
    assert "Not measured. No tool." in text
    assert "A quick run" in text
    assert "these commands measure it:</p><pre>buy a NIC\n./use it</pre>" in text
    data = json.loads((tmp_path / "papers.json").read_text())
    stands = {f["figure"]: f["standing"] for f in data["figures"]}
    assert stands == {"P9-one": "met", "P9-again": "met", "P9-two": "gap", "P9-gap": "gap"}


def test_a_goal_that_is_not_met_shows():
    (c,) = figures()[0].compare({"value": 1})
    assert page.standing([c]) == "missed"
    assert page.standing([dataclasses.replace(c, theirs=None)]) == "measured"
    assert page.standing([]) == "gap"


# ---- the command ---------------------------------------------------------------------------------


def test_command(tmp_path):
    """A figure that is computed."""
    argv = [str(ROOT / "hikyaku"), "papers"]
    chosen = ["p2-entries", "--quick", "--out", str(tmp_path)]
    said = run_command([*argv, *chosen], timeout=300)
    assert "P2-entries         measured" in said
    assert "flow entries of a job of 8 ranks" in (tmp_path / "index.html").read_text()
    with pytest.raises(HikyakuError, match=r"there is no figure 'P9'; fix: .*papers --list"):
        run_command([*argv, "P9"])


# ---- plots ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("P1-latency-memif", documents.mpi(["memif"], ["latency_us"], [8, 2048])),
        ("P1-protocols", documents.protocols(["tcp", "split"], [256, 2048])),
        ("P2-tags", documents.network(["tags"])),
        ("P3-pieces", documents.halo_exchange([1])),
        ("P3-solves", {**documents.halo_exchange([1]), "rows": []}),
        ("P5-sum", documents.run_to_completion()),
        ("P5-learn", documents.learning([1, 2])),
        ("P5-overload", documents.run_to_completion()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_plot(name, document):
    result = Result(["bench"], None, 1.0, document)
    assert page._plot(FIGURES[name], result).startswith("<figure><svg")
