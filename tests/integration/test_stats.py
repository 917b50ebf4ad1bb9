# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats` and `hikyaku top`: both commands, `top` also on a terminal, and a real job."""

import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from execute import BEHIND, execute
from hikyaku import process
from hikyaku.hostd import Daemon
from hikyaku.lab import kill
from hikyaku.stats import Sample, prometheus
from hikyaku.stats import counters as names
from hikyaku.stats.ask import Place, nobody, places, take
from hikyaku.stats.tables import rates
from slots import daemons_of
from stats_text import labels, parse, row, shown

SOON = 30

# ---- the commands, with a fake daemon that needs no huge pages -----------------------------------


@pytest.fixture
def call(hikyaku, program, short_path) -> Iterator[Callable[..., subprocess.CompletedProcess]]:
    env = {
        **os.environ,
        "HIKYAKU_DAEMON": program("tests/unit/hostd/hikyakud_fake"),
        "HIKYAKU_RUNDIR": f"{short_path}/run",
        "XDG_RUNTIME_DIR": str(short_path),
        "TERM": "xterm",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess:
        argv = [*hikyaku, *arguments]
        return execute(argv, code=None, env=env)

    run.env = env
    run.start = lambda *more: run(
        "daemon", "start", "--port", f"fake:{short_path}", "--slots", "2", *more
    )
    yield run
    run("daemon", "stop", "--all")


@pytest.mark.parametrize("command", ["stats", "top"])
def test_the_fix_is_the_same_command(command, monkeypatch):
    monkeypatch.setattr("hikyaku.lab.all_names", lambda: ["red"])
    monkeypatch.setattr("hikyaku.lab.other_labs", list)
    monkeypatch.setattr("hikyaku.stats.ask._has_ranks", lambda _: True)
    error = nobody(command, places(None), None)
    assert error.fix == f"hikyaku {command} --lab red"


def test_a_node_without_ranks_is_named():
    """Another node of its lab may have some."""
    where = [Place(Path(f"/{node}"), None, node) for node in ("node0", "node1")]
    assert "runs in lab 'red'" in str(nobody("stats", where, "red"))
    assert "runs on node1 of lab 'red'" in str(nobody("stats", where[1:], "red"))


def test_without_a_daemon(call):
    for options in ([], ["--json"], ["--prometheus"]):
        done = call("stats", *options)
        assert done.returncode == 1
        assert "no hikyakud runs here" in done.stderr
    assert json.loads(call("stats", "--json").stdout) == {"schema": 1, "daemons": [], "ranks": []}
    assert "no hikyakud 'absent' runs here" in call("stats", "--name", "absent").stderr
    done = call("top", "--once")
    assert done.returncode == 1
    assert "no hikyakud runs here" in done.stderr
    assert "exclude each other" in call("stats", "--json", "--prometheus").stderr


def has_all(group: str, values: dict) -> bool:
    """Whether @values has each counter that is defined for @group."""
    return set(names.defined(group)) <= set(values)


def test_each_counter_is_in_json(call):
    """The counters of ranks and wires: test_ranks_of_a_job()."""
    assert call.start("--mode", "daemon").returncode == 0
    (daemon,) = json.loads(call("stats", "--json").stdout)["daemons"]
    assert has_all("daemon", daemon)
    assert has_all("poller", daemon["poller"])
    assert has_all("switch", daemon["switch"])
    assert has_all("port", daemon["port"]["counters"])
    assert has_all("steering", daemon["port"]["steering"])


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
    assert "standard output is not a terminal" in call("top").stderr


class Terminal:
    """`hikyaku top` on a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str]):
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.seen = b""
        # Ctrl-C goes to the session of the terminal: this one is its own
        self.tool = subprocess.Popen(
            ["setsid", "--ctty", *argv], env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.set_blocking(self.ours, False)

    def shows(self, text: bytes) -> bool:
        """Whether it has ever shown @text."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.ours, 65536):  # at most 4096 bytes each time
                self.seen += chunk
        return text in self.seen

    def key(self, byte: bytes) -> None:
        os.write(self.ours, byte)

    def end(self) -> int:
        """Waits for its end, and returns its exit status. Checks that it restored the terminal."""
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
    process.wait_until("the first table", lambda: terminal.shows(b"hikyakud 'default'"), SOON)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_a_key_ends_top(top, key):
    process.wait_until("a table with rates", lambda: top.shows(b"%, of the poller"), SOON)
    top.key(key)
    assert top.end() == 0
    assert b"Traceback" not in top.seen


def test_top_ends_with_its_daemon(top, call):
    assert call("daemon", "stop").returncode == 0
    again = call("daemon", "stop")
    assert (again.returncode, "nothing to stop" in again.stdout) == (0, True)
    assert top.end() == 0
    # The kernel hands over what a process wrote to a terminal later, also after its end.
    process.wait_until("the message of its end", lambda: top.shows(b"has ended"), SOON)
    assert b"Traceback" not in top.seen


def test_sigterm_ends_top(top):
    process.wait_until("a table with rates", lambda: top.shows(b"%, of the poller"), SOON)
    top.tool.send_signal(signal.SIGTERM)
    assert top.end() == 128 + signal.SIGTERM


# ---- a real job ----------------------------------------------------------------------------------


@pytest.fixture(params=["hybrid", "daemon", "split"])
def mode(request, lab, hikyaku, program) -> Iterator[str]:
    """The polling mode. Two ranks enter and leave MPI until the test ends."""
    argv = [*BEHIND, *hikyaku, "lab", "mpirun", "--lab", lab.name]
    argv += ["--mode", request.param, "-np", "2"]
    argv += [program("tests/mpi/mpi_hand_over"), "--rounds", "100000", "--timeout", "100"]
    tool = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield request.param
    tool.send_signal(signal.SIGTERM)
    tool.wait(timeout=40)


@pytest.mark.one_core
def test_ranks_of_a_job(lab, hikyaku, mode):
    def ask(*arguments: str) -> str:
        argv = lab.exec_argv("node1", [*hikyaku, *arguments])
        done = execute(argv, code=None)
        return done.stdout

    seen = {}

    def moves() -> bool:
        for daemon in daemons_of(lab, "node1"):
            for slot in daemon["slots"]:
                counters = slot.get("counters")
                if (
                    counters
                    and counters["proxy_backlogged"]
                    and counters["rx_packets"]
                    and slot["not_polling"]
                ):
                    seen.update(daemon=daemon, slot=slot, counters=counters)
        return bool(seen)

    process.wait_until("a rank that was not polling", moves, SOON)
    daemon, slot, counters = seen["daemon"], seen["slot"], seen["counters"]
    assert set(names.rank_counters()) <= set(counters)
    assert slot["pid"] in [rank.pid for rank in kill.ranks(lab.topology)]
    assert slot["polls"] in ("rank", "poller")
    assert slot["not_polling"] <= slot["poller_polls"]
    assert counters["tx_packets"] > 0
    assert counters["tx_bytes"] > counters["tx_packets"]
    assert daemon["poller"]["cpu_seconds"] > 0
    assert (daemon["switch"] is not None) == (mode != "hybrid")
    assert (slot["pipe"] is not None) == (mode != "hybrid")
    assert has_all("slot", slot)
    assert mode == "hybrid" or has_all("pipe", slot["pipe"])
    assert all(has_all("port", wire) for wire in daemon["wires"])
    assert daemon["mode"] == mode
    # A rank's frames go by its own queues or pipes. Acknowledgements are frames too.
    assert counters["rx_frames"] >= counters["rx_packets"]
    assert counters["tx_frames"] >= counters["tx_packets"]
    assert daemon["port"]["counters"] is None  # wires are counted one by one
    assert all(wire["rx_frames"] and wire["rx_bytes"] for wire in daemon["wires"])
    if mode != "hybrid":
        assert daemon["switch"]["rx_frames"] > 0
        assert daemon["switch"]["tx_frames"] > 0

    families = parse(ask("stats", "--prometheus"))
    rank = labels(job=slot["job"], endpoint=slot["endpoint"], daemon=daemon["name"])
    assert families["hikyaku_rank_tx_packets_total"][rank] >= counters["tx_packets"]
    start = f"1 {slot['job']} {slot['pid']} "
    assert row(ask("stats"), 1).startswith(start)
    nodes = json.loads(execute([*hikyaku, "stats", "--lab", lab.name, "--json"]).stdout)
    assert [each["host"] for each in nodes["daemons"]] == ["node0", "node1"]
    only = [*hikyaku, "stats", "--lab", lab.name, "--name", daemon["name"], "--json"]
    assert [d["host"] for d in json.loads(execute(only).stdout)["daemons"]] == ["node1"]
    one = [*hikyaku, "stats", "--lab", lab.name, "--node", "node0", "--json"]
    assert [d["host"] for d in json.loads(execute(one).stdout)["daemons"]] == ["node0"]
    assert "hikyakud" in execute([*hikyaku, "top", "--lab", lab.name, "--once"]).stdout

    def sends() -> bool:
        once = row(ask("top", "--once", "--interval", "0.5"), 1)
        assert once.startswith(start)
        return once.split()[5] not in ("-", "0")

    process.wait_until("an interval in which the rank sends", sends, SOON)


# ---- a rank that corrupts its memory -------------------------------------------------------------


@pytest.fixture
def unpolled(lab, program) -> Iterator[Path]:
    """The run directory of a daemon without a poller, on node0, for one rank."""
    home = lab.node_directory("node0")
    argv = [program("src/hikyakud"), "--name", "stats", "--background", "--poller", "off"]
    argv += ["--slots", "1", "--port", f"memif:dir={home}", "--huge-dir", str(home / "huge")]
    subprocess.run(lab.exec_argv("node0", argv), check=True, timeout=60)
    yield home / "run"
    with Daemon.connect(home / "run", "stats") as it:
        it.stop()


@pytest.mark.one_core
def test_stats_of_a_rank_that_corrupts_its_memory(lab, program, unpolled):
    """There is no poller, so the rank is not cut off. For each answer, the daemon reads counters in
    the corrupted memory, and it must not fail."""
    invalid = valid = 0
    for seed in range(1, 3):
        argv = [program("tests/integration/corrupt_rank"), "stats", str(seed), "2"]
        tool = subprocess.Popen(lab.exec_argv("node0", argv), stdout=subprocess.PIPE, text=True)
        try:
            assert tool.stdout.readline() == "READY\n"
            while tool.poll() is None:
                (daemon,) = take([Place(unpolled, None)], "stats").daemons
                (slot,) = daemon["slots"]
                if slot["state"] == "ready":
                    valid += slot["counters"] is not None
                    invalid += slot["counters"] is None
                parse(prometheus.prometheus(Sample([daemon])))
                shown(rates(daemon, daemon))
        finally:
            tool.kill()
            tool.wait()
        assert tool.returncode == 3  # it was never cut off
    assert valid
    assert invalid
