# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku sim`: every scenario, in the table, the document and the plot."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from execute import execute
from hikyaku.checkout import ROOT
from hikyaku.errors import HikyakuError
from hikyaku.sim import messages, report
from hikyaku.sim.run import SCENARIOS

SMALL = {
    "incast": ["--time-ms", "20"],
    "longflows": ["--time-ms", "20"],
    "lone": ["--time-ms", "20"],
    "pingpong": ["--time-ms", "30"],
    "mixed": ["--time-ms", "5"],
}
OPTIONS = {
    "schema",
    "workers",
    "scenario",
    "hosts",
    "rate_gbit",
    "frame",
    "size",
    "count",
    "topology",
    "seed",
}
# docs/man/hikyaku.1.md names these in its text, or they are of no use to a reader.
SAID = OPTIONS | {"buffer", "events"}


def hosts(scenario: str, directory: Path) -> list[str]:
    """The option that gives @scenario 9 hosts: in exchange, of a ring."""
    if scenario != "exchange":
        return ["--hosts", "9"]
    ring = [[i, (i + 1) % 9, 100 + i] for i in range(9)]
    file = directory / "messages.json"
    file.write_text(json.dumps({"ranks": 9, "messages": ring}))
    return ["--messages", str(file)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario(hikyaku, tmp_path, scenario):
    file, picture = tmp_path / "sim.json", tmp_path / "sim.png"
    words = ["sim", scenario, *hosts(scenario, tmp_path), *SMALL.get(scenario, [])]
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ranks", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "has no list of messages"),
        ('{"ranks": 4, "messages": []}', "has no messages"),
        ('{"ranks": 1, "messages": [[0, 0, 8]]}', "'ranks' must be"),
        ('{"ranks": true, "messages": [[0, 1, 8]]}', "'ranks' must be"),
        ('{"ranks": 4, "messages": [[0, 1]]}', "message 0 is not"),
        ('{"ranks": 4, "messages": [[0, 1, 8], [0, 4, 8]]}', "message 1 names a rank"),
        ('{"ranks": 4, "messages": [[0, -1, 8]]}', "message 0 names a rank"),
        ('{"ranks": 4, "messages": [[0, 1.0, 8]]}', "message 0 names a rank"),
        ('{"ranks": 4, "messages": [[2, 2, 8]]}', "to itself"),
        ('{"ranks": 4, "messages": [[0, 1, 8], [0, 1, 9]]}', "the second of two ranks"),
        ('{"ranks": 4, "messages": [[0, 1, 0]]}', "1 to 1073741824 bytes"),
        ('{"ranks": 4, "messages": [[0, 1, 1073741824], [0, 2, 1]]}', "sends more than"),
    ],
)
def test_wrong_messages_are_refused(tmp_path, text, why):
    file = tmp_path / "messages.json"
    file.write_text(text)
    with pytest.raises(HikyakuError, match=re.escape(why)) as refused:
        messages.read(file)
    assert "; fix: " in str(refused.value)


# ---- real workers --------------------------------------------------------------------------------


def results(hikyaku: list[str], file: Path, *words: str) -> dict:
    execute([*hikyaku, "sim", *words, "--json", file], timeout=300)
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    "words",
    [
        ["eager", "--hosts", "33"],
        ["incast", "--hosts", "17", "--time-ms", "20"],
        ["silent", "--hosts", "9"],
        ["eager", "--hosts", "9", "--rate", "100M"],
    ],
    ids=" ".join,
)
def test_the_model_does_what_a_worker_does(hikyaku, tmp_path, words):
    """The same frames at the same times: at most the last acknowledgements differ."""
    words = [*words, "--pool", "1024"]
    model = results(hikyaku, tmp_path / "model.json", *words)
    real = results(hikyaku, tmp_path / "real.json", *words, "--workers")
    assert not model["workers"]
    assert real["workers"]
    same = ("completions", "p50_us", "p99_us", "data_frames", "resends", "queue_max")
    assert {key: real[key] for key in same} == {key: model[key] for key in same}


def test_workers_serve_all_peers_alike(hikyaku, tmp_path):
    """Each host sends to 47 others. The same peers always came first, and the grants of the others
    ended unused: the exchange took 1.9 times the ideal."""
    done = results(hikyaku, tmp_path / "sim.json", "alltoall", "--hosts", "48", "--workers")
    assert done["ended"]
    assert done["last_delivery_ms"] < 1.3 * done["ideal_ms"]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_workers_deliver_once_and_in_order_in_spite_of_loss(hikyaku, tmp_path, seed):
    """The program checks each message, and ends by a signal for a wrong one."""
    words = ["mixed", "--hosts", "12", "--time-ms", "10", "--loss", "3", "--pool", "256"]
    done = results(hikyaku, tmp_path / "sim.json", *words, "--workers", "--seed", seed)
    assert done["completions"] > 1000
    assert done["resends"] > 1000
    assert done["disconnects"] == 0


def test_messages_share_frames_under_back_pressure(hikyaku, tmp_path):
    words = ["burst", "--hosts", "33", "--pool", "1024", "--workers"]
    done = results(hikyaku, tmp_path / "sim.json", *words)
    assert done["completions"] == 32 * 64
    assert done["data_frames"] < done["completions"] / 4


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--ports", "2"], "leave out --ports"),
        (["--mark", "1000"], "leave out --mark"),
        (["--hold-us", "1"], "leave out --hold-us"),
    ],
)
def test_what_workers_cannot_do_is_refused(hikyaku, words, fix):
    done = execute([*hikyaku, "sim", "incast", "--workers", *words], code=1)
    assert fix in done.stderr


# ---- the table -----------------------------------------------------------------------------------


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
