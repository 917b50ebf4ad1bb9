# SPDX-License-Identifier: BSD-3-Clause
"""What daemons answer, as `hikyaku stats` and `hikyaku top` show it: no daemon is needed."""

import copy

import pytest

from hikyaku.stats import Sample, prometheus
from hikyaku.stats.tables import rates, totals
from stats_text import labels, parse, row, shown


def rank(slot: int, **counters: int) -> dict:
    zero = dict.fromkeys([*prometheus.RANK, "queued", "early", "unpolled_ns"], 0)
    return {
        "slot": slot,
        "state": "served",
        "generation": 1,
        "pid": 70 + slot,
        "job": "00c0ffee",
        "endpoint": slot + 4,
        "local_rank": slot,
        "seconds": 3,
        "looks": 10,
        "away": 5,
        "counters": {**zero, **counters},
        "polls": "rank",
        "pipe": None,
    }


@pytest.fixture
def answer() -> dict:
    """What a daemon with two ranks and a free slot says."""
    return {
        "schema": 1,
        "name": "default",
        "host": "here",
        "release": "0.1.0",
        "mode": "daemon",
        "pid": 17,
        "node_id": "0123456789abcdef",
        "ranks_seen": 2,
        "clock_ms": 5000,
        "seconds": 5,
        "cpu_seconds": 0.25,
        "poller": {
            "state": "on",
            "pid": 18,
            "starts": 1,
            "rounds": 9,
            "sleeps": 4,
            "rung": 3,
            "rung_in_vain": 0,
            "cpu_seconds": 1.5,
        },
        "switch": None,
        "port": {
            "spec": "vdev:net_x0",
            "driver": "net_x",
            "steering": {
                "rung": "mac",
                "text": "hardware rule by MAC",
                "queues": 4,
                "rules": 1,
                "refused": 1,
                "refusal": "the table is full",
                "better": [
                    {
                        "rung": "endpoint",
                        "text": "hardware rule by endpoint field",
                        "why": "net_x: no such item",
                    }
                ],
            },
            "counters": None,
        },
        "slots": [
            rank(0, tx_packets=1000, resends=2),
            {"slot": 1, "state": "free", "generation": 0},
            rank(2, tx_packets=7),
        ],
        "wires": [],
    }


def test_prometheus_is_parsed(answer):
    answer["switch"] = dict.fromkeys(prometheus.SWITCH, 3)
    answer["slots"][0]["pipe"] = {**dict.fromkeys(prometheus.PIPE, 0), "to_rank": 8, "rx_full": 5}
    answer["wires"] = [{"node_id": "aa", "rx_frames": 1, "tx_frames": 2}]
    answer["port"]["counters"] = {**dict.fromkeys(prometheus.PORT, 0), "rx_missed": 9}
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
    assert len(families["hikyaku_rank_poller_away_total"]) == 4
    assert families["hikyaku_rank_pipe_to_rank_frames"][labels(**who, endpoint=4)] == 8
    assert families["hikyaku_rank_pipe_full_frames_total"][labels(**who, endpoint=4)] == 5
    assert families["hikyaku_switch_stray_frames_total"][labels(daemon="default")] == 3
    assert families["hikyaku_wire_tx_frames_total"][labels(daemon="default", node="aa")] == 2
    assert len(families["hikyaku_poller_cpu_seconds_total"]) == 1
    assert families["hikyaku_rank_rx_frames_total"][labels(**who, endpoint=4)] == 11
    owned = labels(daemon="default", port="vdev:net_x0")
    assert families["hikyaku_port_rx_missed_total"][owned] == 9
    port = labels(daemon="default", port="vdev:net_x0", rung="mac")
    assert families["hikyaku_port_steering_rules"][port] == 1
    assert families["hikyaku_port_steering_rules_refused_total"][port] == 1
    assert families["hikyaku_switch_steered_frames_total"][labels(daemon="default")] == 3


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
    answer["port"]["steering"].update(rung="software", text="software", rules=0, refused=0)
    lines = [line.strip() for line in shown(rates(answer, None)).splitlines()]
    assert "port  told apart by software" in lines


def test_port_and_wires_are_shown(answer):
    """What went well always, what went wrong if anything did."""
    counters = dict.fromkeys(prometheus.PORT, 0) | {"rx_frames": 1000, "tx_bytes": 4}
    answer["port"]["counters"] = counters
    answer["wires"] = [{"node_id": "aa", **dict.fromkeys(prometheus.WIRE, 0)}]
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
    """By the daemon's clock. What has gone back is not shown, nor what was another's."""
    now = copy.deepcopy(answer)
    now["clock_ms"] += 2000
    now["cpu_seconds"] += 0.5
    now["poller"]["cpu_seconds"] += 1.0
    now["poller"]["rung"] += 50
    now["slots"][0]["counters"].update(tx_packets=31000, resends=0, no_credit=5, kept_now=12)
    now["slots"][0].update(looks=20, away=12)
    now["slots"][2]["generation"] = 2
    text = shown(rates(now, answer))
    assert "CPU 25%, of the poller 50%" in text
    assert "poller, each second  lay down 0, rung for 25, in vain 0" in text
    assert row(text, 4) == "4 00c0ffee 70 rank 70% 15.0k 0 0 0 - 2.50 0 12"
    assert row(text, 6) == "6 00c0ffee 72 rank - - - - - - - - 0"
    now["slots"][0]["pid"] = 4194304
    wide = row(text, 4).replace(" 70 ", " 4194304 ")
    assert row(shown(rates(now, answer), 80), 4) == wide  # no figure is cut
    pipe = {"to_rank": 8, "from_rank": 9, "rx_full": 10, "rx_share": 20, "tx_lost": 30}
    now["slots"][0]["pipe"] = pipe
    assert row(shown(rates(now, answer)), 4).endswith(" 12 8 9")
    answer["slots"][0]["pipe"] = {**pipe, "rx_full": 6, "rx_share": 12, "tx_lost": 0}
    text = shown(rates(now, answer), 80)
    assert "rank 4: frames dropped each second: rx_full 2, rx_share 4, tx_lost 15" in text
    text = shown(totals(now))
    assert "rank 4: frames dropped: rx_full 10, rx_share 20, tx_lost 30" in text
    assert "rank 6: frames dropped" not in text
    now["poller"]["pid"] = 19  # another poller: its CPU time is another clock
    assert "CPU 25%, of the poller -" in shown(rates(now, answer))
