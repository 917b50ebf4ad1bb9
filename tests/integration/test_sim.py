# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sim`: every scenario, in the table, the document and the plot."""

import io
import json

import pytest
from rich.console import Console

from execute import execute
from hikyaku.checkout import ROOT
from hikyaku.sim import report
from hikyaku.sim.run import SCENARIOS

SMALL = {
    "incast": ["--time-ms", "20"],
    "longflows": ["--time-ms", "20"],
    "lone": ["--time-ms", "20"],
    "pingpong": ["--time-ms", "30"],
    "mixed": ["--time-ms", "5"],
}
OPTIONS = {"schema", "scenario", "hosts", "rate_gbit", "frame", "size", "count", "topology", "seed"}
# docs/man/hikyaku.1.md names these in its text, or they are of no use to a reader.
SAID = OPTIONS | {"buffer", "events"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario(hikyaku, tmp_path, scenario):
    file, picture = tmp_path / "sim.json", tmp_path / "sim.png"
    words = ["sim", scenario, "--hosts", "9", *SMALL.get(scenario, [])]
    done = execute([*hikyaku, *words, "--json", file, "--plot", picture])
    assert f"{scenario}: 9 hosts" in " ".join(done.stdout.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = json.loads(file.read_text())
    assert result["ended"] is True
    assert result["completions"] > 0
    assert 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"]
    assert result["queue_mean"] <= result["queue_max"] == max(result["queue"]["max"])
    assert len(result["quantiles_us"]) == 201
    assert result["quantiles_us"] == sorted(result["quantiles_us"])
    page = (ROOT / "docs/man/hikyaku.1.md").read_text()
    assert [key for key in result if key not in SAID and f"*{key}*" not in page] == []

    execute([*hikyaku, *words, "--json", file])
    assert json.loads(file.read_text()) == result


def shown(result: dict) -> str:
    out = io.StringIO()
    report.show(result, Console(file=out, width=120))
    return out.getvalue()


def test_the_table_names_what_went_wrong(hikyaku, tmp_path):
    file = tmp_path / "sim.json"
    words = ["sim", "burst", "--hosts", "9", "--loss", "1", "--mark", "1000"]
    execute([*hikyaku, *words, "--json", file])
    result = json.loads(file.read_text())
    text = shown(result)
    assert "frames lost by links" in text
    assert "frames marked (ECN)" in text
    assert "peers given up" not in text
    assert "after" in text
    assert "3 messages are missing" in shown({**result, "ended": False, "undelivered": 3})


@pytest.mark.parametrize(
    ("us", "text"), [(4.304, "4.3 µs"), (1234, "1.23 ms"), (30_120_080, "30.1 s")]
)
def test_durations(us, text):
    assert report.duration(us) == text
