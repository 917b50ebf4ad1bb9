# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku papers --publish`: two pages with the same figures, from a small recorded run."""

import inspect
import json
import re
from dataclasses import asdict
from pathlib import Path

import documents
import pytest
from PIL import Image

from hikyaku.bench.common.figure import COLOURS
from hikyaku.checkout import ROOT
from hikyaku.errors import HikyakuError
from hikyaku.papers import FIGURES, PAPERS, japanese, page
from hikyaku.papers import publish as publishing
from hikyaku.papers.figure import KINDS
from hikyaku.papers.publish import publish
from hikyaku.papers.run import Result
from hikyaku.process import run as run_command
from hikyaku.trials.program import packaged

ABOUT = {"cpu": "a CPU", "cores": 2, "os": "Debian", "kernel": "6", "open_mpi": "4.1"}
ABOUT |= {"dpdk": "22.11", "hikyaku": "0.1", "commit": "c0ffee", "time": "2026-11-27T00:00:00Z"}
ABOUT |= {"memory_MB": 4096, "load_at_start": 0.2}
CHOSEN = ("P1-latency-memif", "P2-failover", "P3-solves", "P4-load", "P4-l3fwd")
DOCUMENTS = {
    "P1-latency-memif": documents.mpi(["memif"], ["latency_us"], [8, 2048]),
    "P3-solves": {**documents.halo_exchange([1]), "rows": []},
    "P4-l3fwd": documents.routers(),
    "P4-load": documents.dma({}),
}
FAILURE = (
    "Traceback\nhikyaku: /sbin/ovs-vsctl is not there; fix: install Open vSwitch\n"
    + 99 * " x"
    + "\n"
)


def record(place: Path) -> Path:
    """A run of some figures: one command failed."""
    results = {}
    for name in CHOSEN:
        measurement = FIGURES[name].measurement
        document = DOCUMENTS.get(name)
        failure = "" if document else FAILURE
        results[measurement.name] = Result(
            measurement.argv(False), "c0ffee", 12.4, document, failure
        )
    shown = page.show(
        [paper.only(CHOSEN) for paper in PAPERS if paper.only(CHOSEN).figures], results
    )
    page.write(place / "run", shown, ABOUT, quick=False)
    (place / "run/data").mkdir()
    for name, result in results.items():
        (place / f"run/data/{name}.json").write_text(json.dumps(asdict(result)))
    return place / "run"


def read(place: Path) -> tuple[str, str]:
    return (place / "papers.md").read_text(), (place / "papers.ja.md").read_text()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The published pages."""
    place = tmp_path_factory.mktemp("docs")
    publish(record(place), place / "papers.md")
    return place


@pytest.fixture(scope="module")
def pages(place) -> tuple[str, str]:
    return read(place)


@pytest.fixture
def recorded(tmp_path, monkeypatch) -> Path:
    """A run whose plots are not drawn."""
    monkeypatch.setattr(publishing, "small_png", lambda _plot: b"a plot")
    return record(tmp_path)


def publish_again(recorded: Path) -> tuple[str, str]:
    publish(recorded, recorded.parent / "docs/papers.md")
    return read(recorded.parent / "docs")


NUMBER = re.compile(r"(?<![\w.])(?:[<>≤≥] )?\d[\d.]*k?M?(?![\w.])")


def figures_of(text: str) -> list[list[str]]:
    """The numbers of each row of its tables, without those of links and names, and sorted, since
    Japanese has another order of words."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [sorted(NUMBER.findall(" | ".join(row.split(" | ")[1:]))) for row in rows]


def test_both_pages_have_the_same_figures(pages):
    english, japanese_text = pages
    found = figures_of(english)
    assert found == figures_of(japanese_text)
    assert sum(map(len, found)) > 60
    for text in (english, japanese_text):
        for command in (FIGURES[name].measurement for name in DOCUMENTS):
            assert " ".join(command.argv(False)[:4]) in text.replace(" \\\n   ", "")


def test_what_is_measured_is_shown(pages):
    english, japanese_text = pages
    assert "| below TCP at 2 KB | ≥ 77 % | 89.2 % | 1.16 | met |" in english
    assert "| 2 KB で TCP より低い割合 | ≥ 77 % | 89.2 % | 1.16 | 達成 |" in japanese_text
    assert "Kind: virtual. Wire: memif." in english and "Measured in 12 s by:" in english
    assert "| Pktpit, times Wr, 1→1<br>The limit is ours. | ≥ 0.9 |" in english
    assert "2026-11-27" in english and "commit c0ffee" in english
    assert "A quick run" not in english and "busy" not in english
    assert "This run left out:\n\n| paper | figure |\n|---|---|\n| P1 | P1-latency-veth" in english
    assert "[日本語](papers.ja.md)" in english and "[English](papers.md)" in japanese_text


def test_a_gap_is_a_gap(pages):
    english, japanese_text = pages
    cut = FIGURES["P2-failover"]
    for text, gap, not_measured in (
        (english, "**a gap**", "**Not measured**."),
        (japanese_text, "**空欄**", "**測っていません**。"),
    ):
        assert text.count(gap) == text.count(not_measured) == 1
        error = "hikyaku: ovs-vsctl is not there; fix: install Open vSwitch"
        assert f"```\n{error}\n```" in text
        assert "Traceback" not in text
    assert f"### {japanese.text(cut.title)}\n" in japanese_text
    assert "P2-failover.png" not in english


def test_what_only_hardware_shows_has_its_commands(pages):
    for text in pages:
        for line in FIGURES["P4-load"].procedure:
            assert line in text.splitlines() or not line


def test_a_goal_that_is_missed_is_among_the_losses(recorded):
    path = recorded / page.RECORD
    made = json.loads(path.read_text())
    first = made["figures"][0]["compared"][0]
    first |= {"ours": 7.0, "met": False}
    made["machine"]["load_at_start"] = 1.5
    path.write_text(json.dumps(made))
    english, japanese_text = publish_again(recorded)
    lost = english[english.index("## Where we lose") : english.index("These figures have no")]
    assert "| below TCP at 2 KB | ≥ 77 % | 7 % | 0.0909 |" in lost
    assert "**未達成**" in japanese_text
    assert "busy" in english and "混んで" in japanese_text


def test_what_bounds_a_missed_goal_is_said(recorded):
    path = recorded / page.RECORD
    made = json.loads(path.read_text())
    made["figures"][0] |= {"standing": "missed", "bound": ""}
    path.write_text(json.dumps(made))
    with pytest.raises(HikyakuError, match="nothing says what bounds P1-latency-memif"):
        publish(recorded, recorded.parent / "docs/papers.md")
    made["figures"][0]["bound"] = FIGURES["P1-latency-memif"].bound
    path.write_text(json.dumps(made))
    english, japanese_text = publish_again(recorded)
    assert "**What bounds it.** Both ranks copy the message" in english
    assert "**限界の理由。**" in japanese_text


def test_all_bounds_have_japanese():
    bounds = [figure.bound for figure in FIGURES.values() if figure.bound]
    assert len(bounds) > 4 and not list(japanese.lacking(bounds))


@pytest.mark.parametrize("language", [0, 1])
def test_links_and_plots_exist(place, pages, language):
    text = pages[language]
    headings = re.findall(r"^#+ (.*)", text, re.M)
    anchors = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
    assert len(set(anchors)) == len(anchors)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    images = [target for target in targets if target.endswith(".png")]
    for target in targets:
        assert target[1:] in anchors if target.startswith("#") else (place / target).exists(), (
            target
        )
    assert len(images) == 2  # P4-l3fwd has none
    assert all(len((place / image).read_bytes()) < 60_000 for image in images)


@pytest.mark.parametrize("language", [0, 1])
def test_lines_are_short(pages, language):
    lines = pages[language].splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


def test_plots_keep_their_colours(place):
    with Image.open(place / "images/papers/P1-latency-memif.png") as image:
        seen = {pixel for _, pixel in image.convert("RGB").getcolors()}
    for colour in COLOURS[:2]:  # of TCP and Hikyaku
        wanted = bytes.fromhex(colour[1:])
        assert min(max(abs(a - b) for a, b in zip(p, wanted, strict=True)) for p in seen) <= 3


def test_a_later_run_replaces_the_plots(recorded):
    publish_again(recorded)
    old = recorded.parent / "docs/images/papers/P5-learn.png"
    old.write_bytes(b"")
    publish_again(recorded)
    assert not old.exists()


# ---- refusals ------------------------------------------------------------------------------------


def test_a_measurement_of_another_run_is_refused(recorded):
    path = recorded / "data/halo-solves.json"
    path.write_text(path.read_text().replace("c0ffee", "other"))
    with pytest.raises(HikyakuError, match="is not the measurement of P3-solves"):
        publish_again(recorded)
    assert not (recorded.parent / "docs").exists()


def test_a_text_without_japanese_is_refused(recorded):
    path = recorded / page.RECORD
    path.write_text(path.read_text().replace("below TCP at 2 KB", "higher than a tree"))
    with pytest.raises(HikyakuError, match=r"no Japanese: \['higher than a tree'\]"):
        publish_again(recorded)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is not there"),
        ("{", "is damaged"),
        ('{"schema": 1}', f"has schema 1, not {page.SCHEMA}"),
    ],
)
def test_a_wrong_record_is_refused(tmp_path, text, said):
    if text:
        (tmp_path / page.RECORD).write_text(text)
    with pytest.raises(HikyakuError, match=said):
        publish(tmp_path, tmp_path / "papers.md")


def test_command(recorded, tmp_path):
    argv = [str(ROOT / "hikyaku"), "papers", "--publish"]
    said = run_command([*argv, str(tmp_path / "x.md"), "--out", str(recorded)], timeout=100)
    assert f"saved {tmp_path / 'x.ja.md'}" in said
    assert "images/x/P3-solves.png" in (tmp_path / "x.md").read_text()
    with pytest.raises(HikyakuError, match=r"'x\.txt' is not a page's name; fix: "):
        run_command([*argv, "x.txt", "--out", str(recorded)])
    with pytest.raises(HikyakuError, match="measures nothing"):
        run_command([*argv, "x.md", "P3"])


# ---- all texts -----------------------------------------------------------------------------------


def test_every_text_has_a_translation():
    network, rtc = documents.network(), documents.run_to_completion()
    known = DOCUMENTS | {
        "P1-protocols": documents.protocols(["tcp", "split"], [256, 2048, 65536]),
        "P3-scale": documents.scale([6, 192]),
        "P3-pieces": documents.halo_exchange([1]),
        **dict.fromkeys(("P2-tags", "P2-bcast", "P2-allreduce", "P2-allreduce-time"), network),
        **dict.fromkeys(("P2-entries", "P2-failover"), network),
        **dict.fromkeys(("P5-hold", "P5-sum", "P5-overload", "P5-drops"), rtc),
        "P5-learn": documents.learning([1, 2, 16]),
        "P4-load": documents.dma({}),
        "P2-several-time": network,
    }
    compared = [c for name, document in known.items() for c in FIGURES[name].compare(document)]
    texts = [text for c in compared for text in (c.what, c.note, c.unit)]
    texts += [f"time of {p.name}, of that over TCP" for p in packaged()]
    texts += [text for paper in PAPERS for text in (paper.title, paper.authors)]
    texts += [text for kind in KINDS.items() for text in kind]
    for f in FIGURES.values():
        texts += [f.title, f.said, f.setting, f.open, f.wire]
    texts += re.findall(r'\bt\("([^"]+)"\)', inspect.getsource(publishing))
    assert list(japanese.lacking(texts)) == []


def test_every_measured_figure_says_how():
    for figure in FIGURES.values():
        if figure.measurement:
            assert figure.kind in KINDS, figure.name
            assert figure.wire or figure.kind == "computed", figure.name


# ---- the pages of the documentation --------------------------------------------------------------


def test_the_published_pages_agree():
    english, japanese_text = ((ROOT / f"docs/papers{s}.md").read_text() for s in ("", ".ja"))
    assert figures_of(english) == figures_of(japanese_text)
    images = sorted((ROOT / "docs/images/papers").glob("*.png"))
    assert [i.name for i in images] == sorted(re.findall(r"images/papers/(\S+)\)", english))
    assert sum(len(i.read_bytes()) for i in images) <= 300_000
