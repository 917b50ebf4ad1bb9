# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku stats` and `top` ask ranks of mode inline directly, since these have no hikyakud."""

import copy
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from rich.console import Console

from execute import execute
from hikyaku import process
from hikyaku.cli import stats as cli_stats
from hikyaku.cli import top as cli_top
from hikyaku.lab import kill
from hikyaku.stats import Sample, inline, tables
from hikyaku.stats.counters import rank_counters
from hikyaku.stats.prometheus import prometheus

SOON = 30
REFUSED = 3  # port/tap_ring.h


@pytest.fixture
def answer() -> dict:
    """The reply of process 71."""
    return {
        "mode": "inline",
        "pid": 71,
        "job": "00c0ffee",
        "endpoint": (1 << 20) + 3,
        "polls": "thread",
        "counters": {**dict.fromkeys(rank_counters(), 0), "tx_packets": 5, "unpolled_ns": 7},
    }


# ---- what is believed ----------------------------------------------------------------------------


def test_good_answer_is_believed(answer):
    assert inline.checked(answer, 71) == answer


def wrong(answer: dict, member: str, value: object) -> dict:
    bad = copy.deepcopy(answer)
    where = bad["counters"] if member in bad["counters"] else bad
    if value is None:
        del where[member]
    else:
        where[member] = value
    return bad


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("pid", 72),
        ("pid", "71"),
        ("job", "c0ffee"),
        ("job", "00C0FFEE"),
        ("endpoint", -1),
        ("endpoint", 1 << 32),
        ("polls", "\x1b[2J"),
        ("polls", []),
        ("mode", "hybrid"),
        ("counters", []),
        ("tx_resends", None),
        ("tx_resends", -1),
        ("tx_resends", 1 << 64),
        ("tx_resends", True),
        ("tx_resends", 1.5),
    ],
)
def test_nonsense_is_not_believed(answer, member, value):
    assert inline.checked(wrong(answer, member, value), 71) is None


@pytest.mark.parametrize("answer", [None, 1, [], {}, "rank"])
def test_what_is_no_object_is_not_believed(answer):
    assert inline.checked(answer, 71) is None


# ---- who answers ---------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[Callable[[list[bytes]], None]]:
    """listener([...]) answers the next request to this process's tap with those messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(f"\0hikyaku/tap/{os.getpid()}")
        s.listen()
        s.settimeout(SOON)
        threads = []

        def answer(messages: list[bytes]) -> None:
            def serve() -> None:
                connection, _ = s.accept()
                with connection:
                    connection.recv(4096)
                    for message in messages:
                        connection.send(message)

            threads.append(threading.Thread(target=serve))
            threads[-1].start()

        yield answer
        for thread in threads:
            thread.join()


def head(kind: int, size: int = 0) -> bytes:
    return inline._MESSAGE.pack(inline._MAGIC, inline._VERSION, kind, 0, 0, 0, size, b"")


def ours(found: tuple[list[dict], list[str]]) -> tuple[list[dict], list[str]]:
    """Returns only what concerns this process: other ranks may run on this machine."""
    me = os.getpid()
    return [r for r in found[0] if r["pid"] == me], [t for t in found[1] if f"process {me} " in t]


def test_who_speaks_nonsense_is_named(listener):
    for text in (b"{", b"\xff", b"7", b'{"mode": "inline"}', b"[" * 4096):
        listener([head(inline._STATS, len(text)), text])
        found, complaints = ours(inline.ask_all())
        assert not found
        assert len(complaints) == 1
        assert "says nonsense" in complaints[0]


def test_who_has_no_counters_is_passed_over(listener):
    for messages in ([head(REFUSED)], [], [b"short"]):
        listener(messages)
        assert ours(inline.ask_all()) == ([], [])


def test_good_answer_is_shown(listener, answer):
    text = json.dumps({**answer, "pid": os.getpid()}).encode()
    listener([head(inline._STATS, len(text)), text])
    (found,), complaints = ours(inline.ask_all())
    assert not complaints
    assert found["counters"] == answer["counters"]
    assert found["clock_ms"] > 0


def test_strange_names_of_others_do_no_harm():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(b"\0\xff\xfe-hikyaku-test")
        s.listen()
        assert ours(inline.ask_all()) == ([], [])


def test_a_stopped_one_is_named_every_time(monkeypatch):
    """Also if its queue is full of earlier requests."""
    monkeypatch.setattr(inline, "_TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(f"\0hikyaku/tap/{os.getpid()}")
        s.listen(1)
        for _ in range(4):
            found, complaints = ours(inline.ask_all())
            assert not found
            assert len(complaints) == 1
            assert "is it stopped?" in complaints[0]


def test_another_users_socket_is_not_asked():
    """Any user may listen under the name of a process that does not exist."""
    code = "import os, socket, sys; os.setuid(65534)\n"
    code += "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
    code += "s.bind(f'\\0hikyaku/tap/{os.getpid()}'); s.listen(); print('up', flush=True)\n"
    code += "c, _ = s.accept(); print(len(c.recv(4096)), flush=True)\n"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "up\n"
        found, complaints = inline.ask_all()
        assert other.stdout.readline() == "0\n"  # nothing was said to it
    assert all(rank["pid"] != other.pid for rank in found)
    assert not any(f"process {other.pid} " in text for text in complaints)


# ---- forms ---------------------------------------------------------------------------------------


def shown(what: object, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        console.print(what)
    return text.get()


def test_forms(answer):
    before = {**answer, "clock_ms": 1000}
    now = copy.deepcopy(before) | {"clock_ms": 3000}
    now["counters"]["tx_packets"] += 80
    text = prometheus(Sample(ranks=[now]))
    line = 'hikyaku_rank_tx_packets_total{endpoint="1048579",job="00c0ffee"} 85.0'
    assert line in text.splitlines()
    assert "00c0ffee" in shown(tables.totals_inline([now]), 150)
    top = shown(tables.picture(Sample(ranks=[now]), Sample(ranks=[before])))
    assert "thread" in top
    assert " 40 " in top
    again = now | {"pid": 72}  # another process: no rate yet
    assert " 40 " not in shown(tables.picture(Sample(ranks=[again]), Sample(ranks=[before])))


@pytest.mark.parametrize("command", [cli_stats.stats, cli_top.top], ids=lambda c: c.name)
def test_the_help_explains_each_column(command):
    shown = CliRunner().invoke(command, ["--help"]).output
    columns = shown[shown.index("Columns:") :]
    words = " ".join([*tables._TOTALS, *tables._RATES, "rank job pid polls no poll backlog"])
    missing = {w for w in re.findall(r"[a-z]+", words) if not re.search(rf"\b{w}\b", columns)}
    assert missing - {"s"} == set(), "/s is a second"


# ---- a real job ----------------------------------------------------------------------------------


@pytest.mark.one_core
def test_ranks_of_a_job(lab, get_lab, hikyaku, program, tmp_path):
    """The ranks of both nodes answer, also while they compute; a killed one disappears at once."""
    idle = get_lab(3, "memif")

    def stats(node: str, *options: str) -> subprocess.CompletedProcess:
        argv = lab.exec_argv(node, [*hikyaku, "stats", *options])
        return execute(argv, code=None)

    def ranks(node: str) -> list[dict]:
        done = stats(node, "--json")
        return json.loads(done.stdout)["ranks"]

    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2"]
    argv += [program("tests/mpi/mpi_hand_over"), "--rounds", "100000", "--timeout", "100"]
    with (tmp_path / "said").open("wb") as said:
        job = subprocess.Popen(argv, stdout=said, stderr=said)
    try:
        for rank in range(2):
            process.wait_until(
                f"rank {rank} to count",
                lambda r=rank: (
                    (told := ranks(f"node{r}")) and told[0]["counters"]["rx_packets"] > 100
                ),
                SOON,
            )
        (first,) = ranks("node0")
        assert first["endpoint"] & 0xFFFFF == 0
        process.wait_until(
            "more packets",
            lambda: ranks("node0")[0]["counters"]["tx_packets"] > first["counters"]["tx_packets"],
            SOON,
        )
        assert 'hikyaku_rank_tx_packets_total{endpoint="' in stats("node1", "--prometheus").stdout
        assert "mode inline" in stats("node1").stdout
        nodes = execute([*hikyaku, "stats", "--lab", lab.name, "--json"])
        assert [r["endpoint"] & 0xFFFFF for r in json.loads(nodes.stdout)["ranks"]] == [0, 1]
        here = execute([*hikyaku, "stats"], code=1).stderr
        assert f"stats --lab {lab.name}" in here
        assert idle.name not in here, "no rank runs there"
        kill.kill_rank(lab.topology, 0)
        process.wait_until("its end", lambda: not ranks("node0"), SOON)
        assert stats("node0").returncode == 1
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=40)
