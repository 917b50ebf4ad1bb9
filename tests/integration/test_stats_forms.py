# SPDX-License-Identifier: BSD-3-Clause
"""The answers of daemons, as `hikyaku stats` and `hikyaku top` show them; without a daemon."""

import copy
import json

import pytest

from hikyaku.checkout import built
from hikyaku.stats import Sample, prometheus
from hikyaku.stats import counters as names
from hikyaku.stats.tables import rates, totals
from stats_text import labels, parse, row, shown


def rank(slot: int, **counters: int) -> dict:
    zero = dict.fromkeys(names.rank_counters(), 0)
    return {
        **dict.fromkeys(names.defined("slot"), 0),
        "slot": slot,
        "state": "ready",
        "generation": 1,
        "pid": 70 + slot,
        "job": "00c0ffee",
        "endpoint": slot + 4,
        "local_rank": slot,
        "seconds": 3,
        "poller_polls": 10,
        "not_polling": 5,
        "counters": {**zero, **counters},
        "polls": "rank",
        "pipe": None,
    }


@pytest.fixture
def answer() -> dict:
    """The answer of a daemon with two ranks and a free slot."""
    return {
        **dict.fromkeys(names.defined("daemon"), 0),
        "schema": 1,
        "name": "default",
        "host": "here",
        "release": "0.1.0",
        "mode": "daemon",
        "pid": 17,
        "node_id": "0123456789abcdef",
        "clock_ms": 5000,
        "cpu_seconds": 0.25,
        "poller": {
            **dict.fromkeys(names.defined("poller"), 0),
            "state": "on",
            "pid": 18,
            "cpu_seconds": 1.5,
        },
        "switch": None,
        "port": {
            "spec": "vdev:net_x0",
            "driver": "net_x",
            "steering": {
                **dict.fromkeys(names.defined("steering"), 0),
                "method": "mac",
                "text": "hardware rule by MAC",
                "rules": 1,
                "rules_refused": 1,
                "refusal": "the table is full",
                "better": [
                    {
                        "method": "endpoint",
                        "text": "hardware rule by endpoint field",
                        "why": "net_x: no such item",
                    }
                ],
            },
            "counters": None,
        },
        "slots": [
            rank(0, tx_packets=1000, tx_resends=2),
            {"slot": 1, "state": "free", "generation": 0},
            rank(2, tx_packets=7),
        ],
        "wires": [],
    }


def test_prometheus_is_parsed(answer):
    answer["switch"] = dict.fromkeys(names.defined("switch"), 3)
    answer["slots"][0]["pipe"] = {
        **dict.fromkeys(names.defined("pipe"), 0),
        "to_rank_frames": 8,
        "rx_dropped_full": 5,
    }
    answer["wires"] = [{"node_id": "aa", "rx_frames": 1, "tx_frames": 2}]
    answer["port"]["counters"] = {**dict.fromkeys(names.defined("port"), 0), "rx_missed": 9}
    answer["slots"][0]["counters"]["rx_frames"] = 11
    other = copy.deepcopy(answer)
    other["name"] = 'a "b"\\c'
    other["poller"]["cpu_seconds"] = None
    other["slots"][2]["counters"] = None
    families = parse(prometheus.prometheus(Sample([answer, other])))
    sent = families["hikyaku_rank_tx_packets_total"]
    who = {"job": "00c0ffee", "daemon": "default"}
    assert sent[labels(**who, endpoint=4)] == 1000
    assert sent[labels(**who, endpoint=6)] == 7
    assert sent[labels(job="00c0ffee", daemon='a "b"\\c', endpoint=4)] == 1000
    assert len(sent) == 3  # one has no counters
    assert len(families["hikyaku_rank_not_polling_total"]) == 4
    assert families["hikyaku_rank_pipe_to_rank_frames"][labels(**who, endpoint=4)] == 8
    assert families["hikyaku_rank_pipe_rx_dropped_full_total"][labels(**who, endpoint=4)] == 5
    assert families["hikyaku_switch_rx_no_rank_total"][labels(daemon="default")] == 3
    assert families["hikyaku_wire_tx_frames_total"][labels(daemon="default", node="aa")] == 2
    assert len(families["hikyaku_poller_cpu_seconds_total"]) == 1
    assert families["hikyaku_rank_rx_frames_total"][labels(**who, endpoint=4)] == 11
    owned = labels(daemon="default", port="vdev:net_x0")
    assert families["hikyaku_port_rx_missed_total"][owned] == 9
    port = labels(daemon="default", port="vdev:net_x0", method="mac")
    assert families["hikyaku_port_steering_rules"][port] == 1
    assert families["hikyaku_port_steering_rules_refused_total"][port] == 1
    assert families["hikyaku_switch_rx_steered_total"][labels(daemon="default")] == 3


# By group of counters: the part of the metrics' names between "hikyaku_" and the counter's name.
PREFIXES = {
    **dict.fromkeys(("engine", "worker", "queue", "slot"), "rank"),
    **{group: group for group in ("daemon", "poller", "switch", "port")},
    "pipe": "rank_pipe",
    "steering": "port_steering",
}


def test_each_counter_is_in_prometheus_and_in_the_manual(answer):
    definitions = json.loads(built("src/hostd/counters.json").read_text())
    answer["switch"] = dict.fromkeys(names.defined("switch"), 0)
    answer["port"]["counters"] = dict.fromkeys(names.defined("port"), 0)
    answer["slots"][0]["pipe"] = dict.fromkeys(names.defined("pipe"), 0)
    families = parse(prometheus.prometheus(Sample([answer])))
    pages = [built(f"docs/man/{page}.md").read_text() for page in ("btl_hikyaku.7", "hikyaku.1")]
    for of in definitions:
        entry = f"\n**{of['name']}**\n:   {of['help']}.\n"
        assert any(entry in page for page in pages), of
        if of["group"] != "path":  # only MPI_T has these
            suffix = "_total" if of["kind"] == "counter" else ""
            assert f"hikyaku_{PREFIXES[of['group']]}_{of['name']}{suffix}" in families, of


def test_table_of_totals(answer):
    text = shown(totals(answer))
    assert "hikyakud 'default' on here: process 17, mode daemon, poller on" in text
    assert "  CPU 0.25 s, of the poller 1.50 s" in text
    assert row(text, 4) == "4 00c0ffee 70 rank 50% 1.00k 0 0 0 2 0 0 0 0 0 0 0 0"


def test_steering_is_shown(answer):
    by_mac = "told apart by hardware rule by MAC: 1 of 2 ranks, 1 refused (the table is full)"
    text = shown(totals(answer))
    assert f"port    {by_mac}" in text
    assert "no hardware rule by endpoint field: net_x: no such item" in text
    assert f"port  {by_mac}" in shown(rates(answer, None))
    answer["port"]["steering"].update(method="software", text="software", rules=0, rules_refused=0)
    lines = [line.strip() for line in shown(rates(answer, None)).splitlines()]
    assert "port  told apart by software" in lines


def test_port_and_wires_are_shown(answer):
    """Frames and bytes always, errors if there were any."""
    counters = dict.fromkeys(names.defined("port"), 0) | {"rx_frames": 1000, "tx_bytes": 4}
    answer["port"]["counters"] = counters
    answer["wires"] = [{"node_id": "aa", **dict.fromkeys(names.defined("port"), 0)}]
    fine = "rx_frames 1.00k, tx_frames 0, rx_bytes 0, tx_bytes 4"
    lines = [line.strip() for line in shown(totals(answer)).splitlines()]
    assert fine in lines
    assert "wire    to node aa: rx_frames 0, tx_frames 0, rx_bytes 0, tx_bytes 0" in lines
    now = copy.deepcopy(answer)
    now["clock_ms"] += 2000
    now["port"]["counters"].update(rx_frames=3000, rx_missed=8)
    now["wires"][0]["tx_frames"] = 100
    text = shown(totals(now))
    assert "tx_bytes 4, rx_missed 8" in text
    lines = [line.strip() for line in shown(rates(now, answer)).splitlines()]
    each = "port, each second  rx_frames 1.00k, tx_frames 0, rx_bytes 0, tx_bytes 0, rx_missed 4"
    assert each in lines
    moved = "wire to aa, each second  rx_frames 0, tx_frames 50, rx_bytes 0, tx_bytes 0"
    assert moved in lines
    assert "port, each second  -" in shown(rates(now, None))


def test_rates(answer):
    """By the daemon's clock. A counter that has gone back is not shown, nor one of another rank."""
    now = copy.deepcopy(answer)
    now["clock_ms"] += 2000
    now["cpu_seconds"] += 0.5
    now["poller"]["cpu_seconds"] += 1.0
    now["poller"]["wakeups_received"] += 50
    now["slots"][0]["counters"].update(
        tx_packets=31000, tx_resends=0, no_credit=5, rx_backlog_frames=12
    )
    now["slots"][0].update(poller_polls=20, not_polling=12)
    now["slots"][2]["generation"] = 2
    text = shown(rates(now, answer))
    assert "CPU 25%, of the poller 50%" in text
    assert "poller, each second  sleeps 0, wakeups_received 25, wakeups_useless 0" in text
    assert row(text, 4) == "4 00c0ffee 70 rank 70% 15.0k 0 0 0 - 2.50 0 12"
    assert row(text, 6) == "6 00c0ffee 72 rank - - - - - - - - 0"
    now["slots"][0]["pid"] = 4194304
    wide = row(text, 4).replace(" 70 ", " 4194304 ")
    assert row(shown(rates(now, answer), 80), 4) == wide  # no figure is truncated
    pipe = {
        "to_rank_frames": 8,
        "from_rank_frames": 9,
        "rx_dropped_full": 10,
        "rx_dropped_quota": 20,
        "tx_full": 30,
    }
    now["slots"][0]["pipe"] = pipe
    assert row(shown(rates(now, answer)), 4).endswith(" 12 8 9")
    answer["slots"][0]["pipe"] = {
        **pipe,
        "rx_dropped_full": 6,
        "rx_dropped_quota": 12,
        "tx_full": 0,
    }
    text = shown(rates(now, answer), 80)
    dropped = "rank 4: rx_dropped_full 2, rx_dropped_quota 4, tx_full 15 each second"
    assert dropped in text
    text = shown(totals(now))
    assert "rank 4: rx_dropped_full 10, rx_dropped_quota 20, tx_full 30" in text
    assert "rank 6: " not in text
    now["poller"]["pid"] = 19  # another poller, whose CPU time began at 0
    assert "CPU 25%, of the poller -" in shown(rates(now, answer))
