# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats` and `hikyaku top`: forms for programs, the terminal, and ranks of a real job."""

import copy
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from hikyaku import cli_stats, process
from hikyaku.cli_daemon import Daemon
from hikyaku.lab import kill

SOON = 30

# ---- a small parser of Prometheus' text format ---------------------------------------------------

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text: str) -> dict[str, dict[frozenset, float]]:
    """Samples by family and labels. Fails where a scraper would, or would complain."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    helps: set[str] = set()
    samples: dict[str, dict[frozenset, float]] = {}
    last = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helps
            helps.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helps
            assert name not in types
            assert kind in ("counter", "gauge")
            assert name.endswith("_total") == (kind == "counter")
            types[name] = kind
            last = name
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            assert found[1] == last, f"a sample away from its family: {line}"
            labels = frozenset(
                (key, re.sub(r"\\.", lambda m: _ESCAPED[m[0]], value))
                for key, value in _LABEL.findall(found[2])
            )
            family = samples.setdefault(found[1], {})
            assert labels not in family, f"twice: {line}"
            family[labels] = float(found[3])
    assert set(types) == set(samples)
    return samples


def labels(**given: object) -> frozenset:
    return frozenset((key, str(value)) for key, value in given.items())


# ---- forms ---------------------------------------------------------------------------------------


def rank(slot: int, **counters: int) -> dict:
    zero = dict.fromkeys([*cli_stats._RANK, "queued", "early", "unpolled_ns"], 0)
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
    answer["switch"] = dict.fromkeys(cli_stats._SWITCH, 3)
    answer["slots"][0]["pipe"] = {**dict.fromkeys(cli_stats._PIPE, 0), "to_rank": 8, "rx_full": 5}
    answer["wires"] = [{"node_id": "aa", "rx_frames": 1, "tx_frames": 2}]
    answer["port"]["counters"] = {**dict.fromkeys(cli_stats._PORT, 0), "rx_missed": 9}
    answer["slots"][0]["counters"]["rx_frames"] = 11
    other = copy.deepcopy(answer)
    other["name"] = 'a "b"\\c'
    other["poller"]["cpu_seconds"] = None
    other["slots"][2]["counters"] = None
    families = parse(cli_stats.prometheus(cli_stats.Sample([answer, other])))
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


def shown(what: object, width: int = 150) -> str:
    console = Console(width=width, record=True, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(what)
    return console.export_text()


def row(text: str, first: int) -> str:
    """The line that starts with this number, with single spaces."""
    lines = (x.split() for x in text.splitlines())
    (found,) = (words for words in lines if words[:1] == [str(first)])
    return " ".join(found)


def test_table_of_totals(answer):
    text = shown(cli_stats.totals(answer))
    assert "hikyakud 'default' on here: process 17, mode daemon, poller on" in text
    assert "  CPU 0.25 s, of the poller 1.50 s" in text
    assert row(text, 4) == "4 00c0ffee 70 rank 50% 1.00k 0 0 0 2 0 0 0 0 0 0 0 0"


def test_steering_is_shown(answer):
    by_mac = "told apart by hardware rule by MAC: 1 of 2 ranks, 1 refused (the table is full)"
    text = shown(cli_stats.totals(answer))
    assert f"port    {by_mac}" in text
    assert "no hardware rule by endpoint field: net_x: no such item" in text
    assert f"port  {by_mac}" in shown(cli_stats.rates(answer, None))
    answer["port"]["steering"].update(rung="software", text="software", rules=0, refused=0)
    lines = [line.strip() for line in shown(cli_stats.rates(answer, None)).splitlines()]
    assert "port  told apart by software" in lines


def test_port_and_wires_are_shown(answer):
    """What went well always, what went wrong if anything did."""
    counters = dict.fromkeys(cli_stats._PORT, 0) | {"rx_frames": 1000, "tx_bytes": 4}
    answer["port"]["counters"] = counters
    answer["wires"] = [{"node_id": "aa", **dict.fromkeys(cli_stats._WIRE, 0)}]
    fine = "rx_frames 1.00k, tx_frames 0, rx_bytes 0, tx_bytes 4"
    lines = [line.strip() for line in shown(cli_stats.totals(answer)).splitlines()]
    assert fine in lines
    assert "wire    to node aa: rx_frames 0, tx_frames 0, rx_bytes 0, tx_bytes 0" in lines
    now = copy.deepcopy(answer)
    now["clock_ms"] += 2000
    now["port"]["counters"].update(rx_frames=3000, rx_missed=8)
    now["wires"][0]["tx_frames"] = 100
    text = shown(cli_stats.totals(now))
    assert "tx_bytes 4, rx_missed 8" in text
    lines = [line.strip() for line in shown(cli_stats.rates(now, answer)).splitlines()]
    each = "port, each second  rx_frames 1.00k, tx_frames 0, rx_bytes 0, tx_bytes 0, rx_missed 4"
    assert each in lines
    moved = "wire to aa, each second  rx_frames 0, tx_frames 50, rx_bytes 0, tx_bytes 0"
    assert moved in lines
    assert "port, each second  -" in shown(cli_stats.rates(now, None))


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
    text = shown(cli_stats.rates(now, answer))
    assert "CPU 25%, of the poller 50%" in text
    assert "poller, each second  lay down 0, rung for 25, in vain 0" in text
    assert row(text, 4) == "4 00c0ffee 70 rank 70% 15.0k 0 0 0 - 2.50 0 12"
    assert row(text, 6) == "6 00c0ffee 72 rank - - - - - - - - 0"
    now["slots"][0]["pid"] = 4194304
    wide = row(text, 4).replace(" 70 ", " 4194304 ")
    assert row(shown(cli_stats.rates(now, answer), 80), 4) == wide  # no figure is cut
    pipe = {"to_rank": 8, "from_rank": 9, "rx_full": 10, "rx_share": 20, "tx_lost": 30}
    now["slots"][0]["pipe"] = pipe
    assert row(shown(cli_stats.rates(now, answer)), 4).endswith(" 12 8 9")
    answer["slots"][0]["pipe"] = {**pipe, "rx_full": 6, "rx_share": 12, "tx_lost": 0}
    text = shown(cli_stats.rates(now, answer), 80)
    assert "rank 4: frames dropped each second: rx_full 2, rx_share 4, tx_lost 15" in text
    text = shown(cli_stats.totals(now))
    assert "rank 4: frames dropped: rx_full 10, rx_share 20, tx_lost 30" in text
    assert "rank 6: frames dropped" not in text
    now["poller"]["pid"] = 19  # another poller: its CPU time is another clock
    assert "CPU 25%, of the poller -" in shown(cli_stats.rates(now, answer))


# ---- the commands, with a daemon that needs no huge pages ----------------------------------------


@pytest.fixture
def place() -> Iterator[str]:
    """A short path: sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="hk-stats-") as path:
        yield path


@pytest.fixture
def call(hikyaku, program, place) -> Iterator[Callable[..., subprocess.CompletedProcess]]:
    env = {
        **os.environ,
        "HIKYAKU_DAEMON": program("tests/unit/host/hikyakud_fake"),
        "HIKYAKU_RUNDIR": f"{place}/run",
        "XDG_RUNTIME_DIR": place,
        "TERM": "xterm",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess:
        argv = [*hikyaku, *arguments]
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    run.env = env
    run.start = lambda: run("daemon", "start", "--port", f"fake:{place}", "--slots", "2")
    yield run
    run("daemon", "stop", "--all")


def test_without_a_daemon(call):
    for options in ([], ["--json"], ["--prometheus"]):
        done = call("stats", *options)
        assert done.returncode == 1
        assert "no hikyakud runs here" in done.stderr
    assert json.loads(call("stats", "--json").stdout) == {"schema": 1, "daemons": []}
    assert "no hikyakud 'absent' runs here" in call("stats", "--name", "absent").stderr
    done = call("top", "--once")
    assert done.returncode == 1
    assert "no hikyakud runs here" in done.stderr
    assert "exclude each other" in call("stats", "--json", "--prometheus").stderr


def test_with_a_daemon(call):
    assert call.start().returncode == 0
    (daemon,) = json.loads(call("stats", "--json").stdout)["daemons"]
    assert daemon["cpu_seconds"] > 0
    assert [slot["state"] for slot in daemon["slots"]] == ["free", "free"]
    families = parse(call("stats", "--prometheus").stdout)
    assert labels(daemon="default") in families["hikyaku_daemon_cpu_seconds_total"]
    assert "no ranks" in call("stats").stdout
    done = call("top", "--once", "--interval", "0.1")
    assert done.returncode == 0
    assert "hikyakud 'default' on" in done.stdout
    assert "standard output is no terminal" in call("top").stderr


class Terminal:
    """`hikyaku top` on a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str]):
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.seen = b""
        # Ctrl-C is for whoever has the terminal: a session of its own
        self.tool = subprocess.Popen(
            ["setsid", "--ctty", *argv], env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.set_blocking(self.ours, False)

    def shows(self, text: bytes) -> bool:
        with suppress(BlockingIOError):
            self.seen += os.read(self.ours, 65536)
        return text in self.seen

    def key(self, byte: bytes) -> None:
        os.write(self.ours, byte)

    def end(self) -> int:
        """Its status; it has left the terminal as it was."""
        process.wait_until(
            "its end", lambda: self.shows(b"") and self.tool.poll() is not None, SOON
        )
        self.shows(b"")
        assert termios.tcgetattr(self.theirs) == self.before
        return self.tool.returncode

    def close(self) -> None:
        self.tool.kill()
        self.tool.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def top(call, hikyaku) -> Iterator[Terminal]:
    assert call.start().returncode == 0
    terminal = Terminal([*hikyaku, "top", "--interval", "0.1"], call.env)
    process.wait_until("a picture", lambda: terminal.shows(b"hikyakud 'default'"), SOON)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_top_ends_with_a_key(top, key):
    process.wait_until("a second one", lambda: top.shows(b"%, of the poller"), SOON)
    top.key(key)
    assert top.end() == 0
    assert b"Traceback" not in top.seen


def test_top_ends_with_its_daemon(top, call):
    assert call("daemon", "stop").returncode == 0
    assert top.end() == 0
    assert b"has ended" in top.seen
    assert b"Traceback" not in top.seen


def test_top_is_terminated(top):
    process.wait_until("a second one", lambda: top.shows(b"%, of the poller"), SOON)
    top.tool.send_signal(signal.SIGTERM)
    assert top.end() == 128 + signal.SIGTERM


# ---- a real job ----------------------------------------------------------------------------------


@pytest.fixture(params=["hybrid", "daemon", "split"])
def mode(request, lab, hikyaku, program) -> Iterator[str]:
    """Two ranks that go in and out of MPI until the test is over."""
    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--host", request.param, "-np", "2"]
    argv += [program("tests/mpi/mpi_hand_over"), "--rounds", "100000", "--timeout", "100"]
    tool = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield request.param
    tool.send_signal(signal.SIGTERM)
    tool.wait(timeout=40)


def test_ranks_of_a_job(lab, hikyaku, mode):
    def ask(*arguments: str) -> str:
        argv = lab.exec_argv("node1", [*hikyaku, *arguments])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    seen = {}

    def moves() -> bool:
        for daemon in json.loads(ask("stats", "--json"))["daemons"]:
            for slot in daemon["slots"]:
                counters = slot.get("counters")
                if counters and counters["kept"] and counters["rx_packets"] and slot["away"]:
                    seen.update(daemon=daemon, slot=slot, counters=counters)
        return bool(seen)

    process.wait_until("a rank that was away", moves, SOON)
    daemon, slot, counters = seen["daemon"], seen["slot"], seen["counters"]
    assert set(cli_stats._RANK) <= set(counters)
    assert slot["pid"] in [rank.pid for rank in kill.ranks(lab.topology)]
    assert slot["polls"] in ("rank", "poller")
    assert slot["away"] <= slot["looks"]
    assert counters["tx_packets"] > 0
    assert counters["tx_bytes"] > counters["tx_packets"]
    assert daemon["poller"]["cpu_seconds"] > 0
    assert (daemon["switch"] is not None) == (mode != "hybrid")
    assert (slot["pipe"] is not None) == (mode != "hybrid")
    assert daemon["mode"] == mode
    # in both a rank's frames pass its own queues or pipes; acknowledgements are frames too
    assert counters["rx_frames"] >= counters["rx_packets"]
    assert counters["tx_frames"] >= counters["tx_packets"]
    assert daemon["port"]["counters"] is None  # wires are counted one by one
    assert all(wire["rx_frames"] and wire["rx_bytes"] for wire in daemon["wires"])
    if mode != "hybrid":
        assert daemon["switch"]["rx_frames"] > 0
        assert daemon["switch"]["tx_frames"] > 0

    families = parse(ask("stats", "--prometheus"))
    who = labels(job=slot["job"], endpoint=slot["endpoint"], daemon=daemon["name"])
    assert families["hikyaku_rank_tx_packets_total"][who] >= counters["tx_packets"]
    start = f"1 {slot['job']} {slot['pid']} "
    assert row(ask("stats"), 1).startswith(start)

    def sends() -> bool:
        once = row(ask("top", "--once", "--interval", "0.5"), 1)
        assert once.startswith(start)
        return once.split()[5] not in ("-", "0")

    process.wait_until("an interval in which it sends", sends, SOON)


# ---- a rank gone mad -----------------------------------------------------------------------------


@pytest.fixture
def unpolled(lab, program) -> Iterator[Path]:
    """The run directory of a daemon without a poller, on node0, for one rank."""
    home = lab.node_directory("node0")
    argv = [program("host/daemon/hikyakud"), "--name", "stats", "--background", "--poller", "off"]
    argv += ["--slots", "1", "--port", f"memif:dir={home}", "--huge-dir", str(home / "huge")]
    subprocess.run(lab.exec_argv("node0", argv), check=True, timeout=60)
    yield home / "run"
    with Daemon.connect(home / "run", "stats") as it:
        it.stop()


def test_rank_that_scribbles_over_its_memory_is_only_shown(lab, program, unpolled):
    """Without a poller nobody else enters its memory; the daemon, asked all the while, reads only
    what lies in it."""
    nonsense = sense = 0
    for seed in range(1, 5):
        mad = [program("tests/integration/scribbler"), "stats", str(seed), "2"]
        tool = subprocess.Popen(lab.exec_argv("node0", mad), stdout=subprocess.PIPE, text=True)
        try:
            assert tool.stdout.readline() == "READY\n"
            while tool.poll() is None:
                (daemon,) = cli_stats.take(unpolled, "stats").daemons
                (slot,) = daemon["slots"]
                if slot["state"] == "served":
                    sense += slot["counters"] is not None
                    nonsense += slot["counters"] is None
                parse(cli_stats.prometheus(cli_stats.Sample([daemon])))
                shown(cli_stats.rates(daemon, daemon))
        finally:
            tool.kill()
            tool.wait()
        assert tool.returncode == 3  # never cut off
    assert sense
    assert nonsense
