# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench halo`: its document, its goals. No figure is judged here."""

import json
from contextlib import nullcontext

import pytest

from execute import execute
from hikyaku.bench.common.phases import NEAR_NS, Phases
from hikyaku.bench.common.tables import number_beside
from hikyaku.bench.halo import report as halo_report
from hikyaku.bench.halo import run as halo
from hikyaku.bench.halo import solves
from hikyaku.errors import HikyakuError
from hikyaku.lab import RunResult


@pytest.mark.alone
def test_document_of_a_tiny_run(lab_name, hikyaku, tmp_path):
    file, picture = tmp_path / "h.json", tmp_path / "h.png"
    argv = [*hikyaku, "bench", "halo", "--repeats", "1", "-n", "8", "--doubles", "10,3000"]
    argv += ["--json", str(file), "--plot", str(picture)]
    done = execute(argv, timeout=200)
    assert "27-point matrix, METIS" in done.stdout
    assert "E: two ranks of one node" in done.stdout
    assert "C: ways of MPI over the BTL" in done.stdout
    assert "F: whole solves, 27-point matrix on 8³ points, 2 ranks" in done.stdout
    assert "…" not in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    found = {(r["experiment"], r["method"]) for r in document["rows"]}
    assert found == {
        *((e, m) for e in "ABC" for m in (*halo.BETWEEN, *halo.OTHERS)),
    } - {("A", halo.PACKED)} | {
        *(("D", m) for m in ("mpi-btl", "promoter")),
        *(("E", m) for m in halo.WITHIN),
    }
    assert document["promoted"].keys() == {"B", "C"}
    judged = [g["goal"] for g in document["goals"] if "promoter" in g["goal"]]
    assert len(judged) == 7
    assert sum("frames lost" in g["goal"] for g in document["goals"]) == 3
    apart = document["machine"]["cores_apart"]
    assert f"{number_beside(apart['usual_ns'], NEAR_NS)} ns from core" in done.stdout
    assert apart["samples"] > 0
    for row in document["rows"]:
        assert set(row) == {
            *("experiment", "processes", "bytes", "method", "ports"),
            *("median", "min", "max", "unit"),
        }
        assert (row["processes"], row["ports"], row["unit"]) == (2, 1, "us")
        assert 0 < row["min"] <= row["median"] <= row["max"]
    assert {r["bytes"] for r in document["rows"] if r["experiment"] == "A"} == {80, 24000}
    check_solves(document["solves"], cube=8)


def check_solves(rows: list[dict], cube: int) -> None:
    """Both languages take the same steps to the same residual, by each exchange."""
    cases = [(r["partition"], r["language"], r["exchange"]) for r in rows]
    assert cases == [
        (p, language, e)
        for p in solves.PARTITIONS
        for language in solves.LANGUAGES
        for e in solves.EXCHANGES
    ]
    for row in rows:
        assert (row["processes"], row["cube"], row["unit"]) == (2, cube, "ms")
        assert 0 < row["min"] <= row["median"] <= row["max"]
    for partition in solves.PARTITIONS:
        ends = {(r["steps"], r["residual"]) for r in rows if r["partition"] == partition}
        assert len(ends) == 1, ends


@pytest.mark.alone
def test_several_ports(lab_name, hikyaku, tmp_path):
    file, picture = tmp_path / "h.json", tmp_path / "h.png"
    argv = [*hikyaku, "bench", "halo", "--experiments", "A", "--ports", "1,4", "--repeats", "1"]
    argv += ["--doubles", "10000", "--json", str(file), "--plot", str(picture)]
    done = execute(argv, timeout=200)
    assert "two ranks, one piece each way, 4 ports" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = {(r["method"], r["ports"]) for r in json.loads(file.read_text())["rows"]}
    ours = [m for m in (*halo.BETWEEN, halo.SETUP) if m not in ("mpi-tcp", halo.PACKED)]
    assert found == {
        ("mpi-tcp", 1),
        (halo.LOSSLESS, 1),
        (halo.LOSSY, 1),
        (halo.COPIES, 1),
        *((m, p) for m in ours for p in (1, 4)),
    }


def grid(n: int, kind: str, symmetry: str) -> str:
    """A Matrix Market file: the five-point matrix on n². A general one lacks some entries of the
    upper half, so ranks send what they do not receive."""
    entries = []
    for row in range(1, n * n + 1):
        near = {row: 4, row - n: -1, row - 1 if row % n != 1 else 0: -1}
        if symmetry == "general" and row % 3:
            near[row + n] = -2
        for column, value in near.items():
            if 1 <= column <= n * n:
                entries.append(f"{row} {column}" + (f" {value}" if kind != "pattern" else ""))
    head = f"%%MatrixMarket matrix coordinate {kind} {symmetry}"
    return "\n".join([head, "% five points", f"{n * n} {n * n} {len(entries)}", *entries, ""])


@pytest.mark.one_core
@pytest.mark.parametrize("experiment", ["B", "C"])
@pytest.mark.parametrize(
    ("kind", "symmetry"), [("real", "symmetric"), ("integer", "general"), ("pattern", "general")]
)
def test_matrix_of_a_file(get_lab, program, tmp_path, experiment, kind, symmetry):
    """The program compares each ghost with the number of its row."""
    file = tmp_path / "grid.mtx"
    file.write_text(grid(12, kind, symmetry))
    argv = [program("bench/halo_bench"), "--experiment", experiment, "--matrix", str(file)]
    argv += ["--rounds", "1", "--sample-ms", "1"]
    yields = {"mpi_yield_when_idle": "1"}
    done = get_lab(2, "memif", 2).mpirun(4, argv, mca=yields, timeout=60)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    methods = {"mpi", "persistent", "neighbor", "fence", "lock", "halo", "packed", "halo-setup"}
    assert {r["method"] for r in rows} == methods, done.stderr
    if experiment == "B":  # 12 points from each side; from the right side fewer, if general
        assert {r["bytes"] for r in rows} == {8 * 24 if symmetry == "symmetric" else 8 * (12 + 8)}


@pytest.mark.one_core
def test_a_wrong_matrix_is_refused(get_lab, program, tmp_path):
    file = tmp_path / "bad.mtx"
    file.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n")
    argv = [program("bench/halo_bench"), "--experiment", "B", "--matrix", str(file)]
    done = get_lab().mpirun(2, argv, timeout=60)
    assert done.returncode != 0
    assert "bad.mtx, line 3: the file has an entry outside the matrix" in done.stderr


def test_a_report_names_its_matrix():
    document = {"machine": {"matrix": "x.mtx"}}
    assert halo_report.titles(document)["C"] == "matrix x.mtx, METIS"
    assert halo_report.titles({"machine": {}})["C"] == "27-point matrix, METIS"


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
    (goal,) = halo_report.judge(rows, {})
    assert (goal["goal"], goal["met"]) == ("A: of TCP, 8 kB to 800 kB, worst size", met)


@pytest.mark.parametrize(("ours", "met"), [(10.0, True), (10.1, False)])
def test_goal_within_a_node(ours, met):
    rows = [row("E", 800, "mpi-shm", 10), row("E", 800, "halo-shm", ours)]
    (goal,) = halo_report.judge(rows, {})
    assert (goal["goal"], goal["met"]) == ("E: of Isend and Irecv within a node, worst size", met)


def test_set_up_pays_by_what_exchanges_save():
    rows = [
        row("B", 100, "mpi-tcp", 60),
        row("B", 100, "halo", 10),
        row("B", 100, halo.SETUP, 501),
    ]
    goal = halo_report.judge(rows, {})[-1]
    assert goal["value"] == pytest.approx(10.02)
    assert not goal["met"]


@pytest.mark.parametrize(
    ("method", "experiment", "other", "limit"),
    [
        ("promoter", "B", "halo", 110),
        ("promoter", "C", halo.PACKED, 110),
        ("promoter", "D", "mpi-btl", 102),
    ],
)
def test_the_promoter_is_judged_by_its_distance(method, experiment, other, limit):
    for value, met in ((limit, True), (limit + 0.1, False)):
        rows = [row(experiment, 512, method, value), row(experiment, 512, other, 100)]
        assert [g["met"] for g in halo_report.judge(rows, {})] == [met]


@pytest.mark.parametrize(("lossy", "met"), [(150.0, True), (150.1, False)])
def test_loss_is_judged_by_the_worst_size(lossy, met):
    rows = [
        row("A", 800, halo.LOSSY, 10),
        row("A", 800, halo.LOSSLESS, 10),
        row("A", 8000, halo.LOSSY, lossy),
        row("A", 8000, halo.LOSSLESS, 100),
        row("A", 8000, "halo", 50),  # without the detour: not compared
    ]
    (goal,) = halo_report.judge(rows, {})
    text = "A: with 1 % of the frames lost, of without loss, worst size"
    assert (goal["goal"], goal["met"]) == (text, met)


@pytest.mark.parametrize(("share", "met"), [(0.95, True), (0.94, False)])
def test_promotion_is_judged(share, met):
    (goal,) = halo_report.judge([], {"C": share})
    assert (goal["goal"][0], goal["met"]) == ("C", met)


def channel(puts: int, sent: int, size: int, period: int, why: str = "sizes repeat") -> str:
    return (
        f"hikyaku_halo: rank 0 to rank 1 of communicator 0, tag 1: {puts} of {sent} messages by "
        f"puts, 0.0 % of {size} bytes; promoted {int(puts > 0)} times, demoted 0, period {period}; "
        f"{why}\n"
    )


def test_share_of_bytes_after_the_third_period():
    assert halo.promoted_share("") is None
    assert halo.promoted_share(channel(0, 3, 300, 0)) is None  # nothing steady
    assert halo.promoted_share(channel(197, 200, 1600, 1)) == 1
    assert halo.promoted_share(channel(196, 200, 1600, 1)) == pytest.approx(96 / 97)
    # a long run does not hide a late promotion
    assert halo.promoted_share(channel(999_900, 1_000_000, 8_000_000, 1)) == 0
    assert halo.promoted_share(channel(39_994, 40_000, 40_000, 2)) == 1
    both = channel(97, 100, 300, 1) + channel(0, 100, 100, 0, "no sizes that repeat")
    assert halo.promoted_share(both) == 0.75
    of_node = channel(97, 100, 300, 1) + channel(0, 100, 100, 0, "a rank of this node")
    assert halo.promoted_share(of_node) == 1


@pytest.mark.parametrize(("ours", "met"), [(50.0, True), (50.1, False)])
def test_solves_are_judged_by_the_worst_case(ours, met):
    def rows(language: str, of_halo: float) -> list[dict]:
        times = {"mpi-tcp": 90.0, "mpi-btl": 50.0, "halo": of_halo}
        return [
            {"partition": "rows", "language": language, "exchange": e, "median": t}
            for e, t in times.items()
        ]

    goals = halo_report.judge([], {}, rows("C", 40.0) + rows("Fortran", ours))
    assert [(g["goal"], g["met"]) for g in goals] == [
        ("F: a whole solve, of Isend and Irecv over the BTL, worst case", met),
        ("F: a whole solve, of TCP, worst case", True),
    ]


def said(line: str, status: int = 0) -> RunResult:
    return RunResult(status, line + "\n", "", 0.1)


def test_solves_that_fail_are_shown():
    run = solves.Run("metis", "Fortran", tcp=True)
    line = (
        "PASS cg: 2 ranks of 1 threads, 8^3 points, METIS, 21 steps, residual 9.1E-11; solutions "
        "are equal; 1.250 ms by MPI, .750 ms by halo"
    )
    assert solves.parse(said(line), run) == (21, 9.1e-11, 1.25, 0.75)
    for text, status in ((line, 1), (line.replace("are equal", "differ"), 0), ("", 0)):
        with pytest.raises(HikyakuError, match="a solve in Fortran, metis, over TCP failed"):
            solves.parse(said(text, status), run)


def test_solves_alternate():
    first, second = solves.runs(0), solves.runs(1)
    assert first[:3] == [
        solves.Run("rows", "C", False),
        solves.Run("rows", "C", True),
        solves.Run("rows", "Fortran", False),
    ]
    assert second == first[::-1] and len(first) == 8


def test_transports_alternate():
    plan = halo.Plan(["A", "D", "E", "F"], 2, 2, 8, [10], ports=[1, 4])
    ours = [halo.Setup(name, p) for p in (1, 4) for name in ("Hikyaku", "the promoter")]
    assert plan.steps() == [
        *(("A", setup, 0) for setup in (*ours, *halo.LOSS, halo.TCP)),
        *(("D", setup, 0) for setup in ours),
        ("E", halo.SHARED, 0),
        *(("A", setup, 1) for setup in (halo.TCP, *reversed(halo.LOSS), *reversed(ours))),
        *(("D", setup, 1) for setup in reversed(ours)),
        ("E", halo.SHARED, 1),
    ]


def test_a_run_in_another_phase_is_repeated(monkeypatch):
    """The promoter's first: its samples are replaced by those of a second run."""
    ran = []

    class FakeLab:
        @classmethod
        def up(cls, *_args, **_kwargs):
            return nullcontext()

    def fake(_lab, _plan, experiment, setup):
        ran.append(setup.name)
        far = setup.name == "the promoter" and ran.count(setup.name) == 1
        line = {"experiment": experiment, "bytes": 8, "value": 9 if far else 2}
        line["line_ns"] = 170 if far else 40
        rows = [line | {"method": method} for method in halo.NAMES[setup.name]]
        return RunResult(0, "\n".join(map(json.dumps, rows)), "", 0.1)

    monkeypatch.setattr(halo, "Lab", FakeLab)
    monkeypatch.setattr(halo, "down_dead", lambda _kind: None)
    monkeypatch.setattr(halo, "_run", fake)
    document = halo.run(halo.Plan(["A"], 2, 1, 8, [1], rounds=1), lambda *_: None)
    lossy = [setup.name for setup in halo.LOSS]
    assert ran == ["Hikyaku", "the promoter", *lossy, "TCP", "the promoter"]
    assert {r["median"] for r in document["rows"]} == {2}
    apart = document["machine"]["cores_apart"]
    assert (apart["usual_ns"], apart["near"], apart["left_out"]) == (40, True, 2)


def test_a_run_that_fails_is_shown():
    with pytest.raises(HikyakuError, match=r"experiment A over TCP failed \(status 3\):\nno wire"):
        halo.parse(Phases(), RunResult(3, "", "no wire\n", 0.1), "A", halo.TCP)
