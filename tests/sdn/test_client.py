# SPDX-License-Identifier: BSD-3-Clause
"""The client finds a restarted controller, and shows the token to no other process."""

import http.server
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from click.testing import CliRunner

from hikyaku import lab
from hikyaku.cli.main import main
from hikyaku.errors import HikyakuError
from hikyaku.sdn import client as module
from hikyaku.sdn.client import Client, Refused, Unreachable
from hikyaku.sdn.store import Store


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"]))
        error = {"error": "no such page"} if self.path == "/no" else {}
        body = json.dumps({"port": self.server.server_address[1]} | error).encode()
        self.send_response(200 if self.path != "/no" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(port: int = 0) -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", port), Handler) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def controller(store: Store, port: int = 0) -> Iterator[http.server.HTTPServer]:
    with store.owned(), listening(port) as server:
        store.set_address(f"http://127.0.0.1:{server.server_address[1]}")
        yield server


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "sdn")


def test_a_restarted_controller_is_found_at_its_new_address(store):
    with controller(store) as first:
        client = Client(store.directory)
        assert client.get("/x") == {"port": first.server_address[1]}
        assert first.seen == [("/x", f"Bearer {store.token()}")]
        with pytest.raises(Refused, match=r"refused GET /no: no such page$") as refused:
            client.get("/no")
        assert refused.value.status == 404
    with listening(), pytest.raises(Unreachable, match="no controller runs"):
        client.get("/x")
    with controller(store) as second:
        assert client.get("/x") == {"port": second.server_address[1]}


def test_the_client_retries_until_a_controller_runs(store, monkeypatch):
    with controller(store):
        client = Client(store.directory, retry_s=60)
    begin, end = threading.Event(), threading.Event()
    monkeypatch.setattr(module.time, "sleep", lambda _: begin.set())

    def later() -> None:
        assert begin.wait(30)
        with controller(store):
            assert end.wait(30)

    thread = threading.Thread(target=later)
    thread.start()
    try:
        assert "port" in client.get("/x")
    finally:
        end.set()
        thread.join()


def test_the_token_is_not_shown_on_the_port_of_a_killed_controller(store):
    with controller(store) as first:
        client = Client(store.directory)
        address = client.address
        port = first.server_address[1]
    store.set_address(address)  # of a killed controller
    with listening(port) as stranger:
        with pytest.raises(HikyakuError, match="no controller runs with"):
            client.get("/x")
        with pytest.raises(HikyakuError, match="no controller runs with"):
            Client(store.directory)
        assert stranger.seen == []


def test_the_token_is_not_shown_if_the_address_changes_meanwhile(store, monkeypatch):
    """The client reads the address. Then the controller is killed, and the next one starts."""
    with controller(store), listening() as stranger:
        own = store.address()
        client = Client(store.directory)
        addresses = iter([f"http://127.0.0.1:{stranger.server_address[1]}", own])
        monkeypatch.setattr(Store, "address", lambda _: next(addresses))
        with pytest.raises(Unreachable):
            client.get("/x")
        assert stranger.seen == []


def test_a_controller_that_is_busy_is_not_started_again(store, monkeypatch):
    with controller(store):
        client = Client(store.directory)
    # what listens there does not answer in time
    monkeypatch.setattr(module, "LIMIT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, store.owned():
        store.set_address(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match="timed out") as error:
            client.get("/x")
    assert error.value.fix == f"see what process {os.getpid()} does: top -b -n 1 -p {os.getpid()}"


def test_the_client_uses_no_proxy(store, monkeypatch):
    with controller(store), listening() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        with suppress(HikyakuError):
            Client(store.directory).get("/x")
        assert proxy.seen == []


LAB_MPIRUN = "hikyaku lab mpirun --lab mine --tcp --tag -np 2 ./program"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("sdn status", "hikyaku sdn status --lab mine"),
        ("sdn stop", "hikyaku sdn stop --lab mine"),
        ("sdn forget 3", "hikyaku sdn forget 3 --lab mine"),
        ("tag run --sdn --iface lo -- true", LAB_MPIRUN),
    ],
)
def test_a_lab_s_controller_is_named(tmp_path, monkeypatch, words, fix):
    """Without --lab these ask the user's own controller, which does not run here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(lab, "all_names", lambda: ["bare", "mine"])
    monkeypatch.setattr(lab, "lab_directory", lambda name: tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["hikyaku", *words.split()])
    with Store(tmp_path / "mine/sdn").owned():
        done = CliRunner().invoke(main, words.split())
    assert isinstance(done.exception, HikyakuError)
    assert done.exception.fix == fix
