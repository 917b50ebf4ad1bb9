# SPDX-License-Identifier: BSD-3-Clause
"""hikyaku.rtc: nodes in Python, two of them in this process over UDP, polled in turn."""

import errno
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hikyaku import rtc
from hikyaku.errors import HikyakuError
from hikyaku.process import wait_until


@contextmanager
def opened(tmp_path: Path, *, more: tuple[dict, dict] = ({}, {})) -> Iterator[tuple[rtc.Node, ...]]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    lines = [f"{i} 127.0.0.1:{s.getsockname()[1]}\n" for i, s in enumerate(sockets)]
    for each in sockets:
        each.close()
    peers = tmp_path / "peers"
    peers.write_text("".join(lines))
    with (
        rtc.Node("udp", peers_file=peers, node=0, key=5, alive_ms=20, **more[0]) as a,
        rtc.Node("udp", peers_file=peers, node=1, key=5, alive_ms=20, **more[1]) as b,
    ):
        yield a, b


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[rtc.Node, ...]]:
    with opened(tmp_path) as nodes:
        yield nodes


def poll_until(nodes: tuple[rtc.Node, ...], what: str, condition: Callable[[], bool]) -> None:
    def look() -> bool:
        for node in nodes:
            node.poll()
        return condition()

    wait_until(what, look, 20)


def meet(pair: tuple[rtc.Node, rtc.Node]) -> None:
    poll_until(pair, "both are members", lambda: all(n.members == 2 for n in pair))


def secret(path: Path, mode: int = 0o600) -> Path:
    path.write_text(secrets.token_hex(32))
    path.chmod(mode)
    return path


def test_nodes_with_a_secret(tmp_path: Path) -> None:
    file = secret(tmp_path / "secret")
    heard: list[bytes] = []
    with opened(tmp_path, more=({"secret_file": file},) * 2) as (a, b):
        a.register(2, "news", on_message=lambda m: heard.append(m.data))
        b.register(2, "news")
        poll_until((a, b), "both are members", lambda: a.members == b.members == 2)
        b.send(0, 2, b"hello")
        poll_until((a, b), "the message", lambda: heard == [b"hello"])
        assert a.stats()["forged"] == a.stats()["replayed"] == 0


@pytest.mark.parametrize("other", ["another secret", "none"])
def test_nodes_without_the_secret_are_not_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setenv("HIKYAKU_RTC_SECRET", str(secret(tmp_path / "secret")))
    own = {"secret_file": secret(tmp_path / "other")}
    if other == "none":
        own = {"protection": "off"}
    with opened(tmp_path, more=({}, own)) as (a, b):

        def refused() -> bool:
            return a.stats()["forged"] > 3 and b.stats()["forged"] > 3

        poll_until((a, b), "messages to be refused", refused)
        assert a.members == b.members == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"secret_file": "{}/open"},
            "others can use the secret {}/open (mode 0644); fix: chmod 600",
        ),
        ({"secret_file": "{}/none"}, "openssl rand -hex 32 >{}/none"),
        ({"protection": "auth"}, "needs the job's secret"),
    ],
)
def test_a_secret_that_cannot_be_used(tmp_path: Path, more: dict[str, str], said: str) -> None:
    secret(tmp_path / "open", 0o644)
    more = {name: value.format(tmp_path) for name, value in more.items()}
    with (
        pytest.raises(HikyakuError) as refused,
        opened(tmp_path, more=(more, more)),
    ):
        pass
    assert said.format(tmp_path) in str(refused.value)
    assert "fix: " in str(refused.value)


def test_request_and_reply(pair: tuple[rtc.Node, rtc.Node]) -> None:
    a, b = pair
    replies = []
    for node in pair:
        node.register(
            3,
            "upper",
            delivery="retry",
            on_message=lambda m: m.data.upper(),
            on_reply=replies.append,
        )
    meet(pair)
    assert (a.id, b.id, a.nodes, a.neighbours(), a.pick()) == (0, 1, 2, [1], 1)
    number = a.send(1, 3, b"hello\0there")
    poll_until(pair, "a reply", lambda: bool(replies))
    assert replies == [rtc.Message(src=1, type=3, number=number, data=b"HELLO\0THERE")]
    assert "127.0.0.1" in a.address
    assert a.stats()


def test_latest_and_best_effort(pair: tuple[rtc.Node, rtc.Node]) -> None:
    a, _ = pair
    got = []
    for node in pair:
        node.register(1, "news", delivery="latest", on_message=lambda m: got.append(m.data))
        node.register(2, "more", on_message=lambda m: got.append(m.data))
    meet(pair)
    a.send(1, 1, b"first")
    a.send(1, 2, b"second")
    poll_until(pair, "both", lambda: len(got) == 2)
    assert sorted(got) == [b"first", b"second"]


def test_an_exception_in_a_handler_comes_out(pair: tuple[rtc.Node, rtc.Node]) -> None:
    a, b = pair

    def fail(message: rtc.Message) -> None:
        raise RuntimeError(f"no {message.data!r}")

    for node in pair:
        node.register(1, "fails", on_message=fail)
        node.register(2, "long", on_message=lambda m: bytes(m.number * 0 + 100000))
    meet(pair)
    a.send(1, 1, b"x")
    with pytest.raises(RuntimeError, match="no b'x'"):
        poll_until(pair, "it fails", lambda: False)
    a.send(1, 2)
    with pytest.raises(ValueError, match="a reply of 100000 bytes"):
        poll_until(pair, "it fails", lambda: False)
    b.poll()  # and it goes on


def test_timers_run_and_ctrl_c(pair: tuple[rtc.Node, rtc.Node]) -> None:
    a, _ = pair
    ticks = []
    timer = a.every(0.001, lambda: ticks.append(a.now))
    a.after(0.0, lambda: ticks.append("once"))
    a.run(seconds=0.1)
    assert ticks.count("once") == 1
    assert len(ticks) > 3
    a.cancel(timer)
    a.after(0.01, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        a.run()


def test_what_is_refused(pair: tuple[rtc.Node, rtc.Node], tmp_path: Path) -> None:
    a, _ = pair
    a.register(1, "one")
    with pytest.raises(HikyakuError):
        a.register(1, "again")
    with pytest.raises(OSError, match="node 1") as error:
        a.send(1, 1)
    assert error.value.errno == errno.ENOTCONN
    with pytest.raises(OSError, match="type 9"):
        a.send(1, 9)
    with pytest.raises(HikyakuError):
        rtc.Node("pigeon", peers_file=tmp_path / "peers")
    a.close()
    with pytest.raises(HikyakuError, match="closed"):
        a.poll()
