# SPDX-License-Identifier: BSD-3-Clause
"""Who asks a controller: finds it again when it has begun anew, and shows the token to no other."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from hikyaku.errors import HikyakuError
from hikyaku.sdn import client as module
from hikyaku.sdn.client import Client, Refused, Unreachable
from hikyaku.sdn.store import Store


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"]))
        what = {"error": "no such page"} if self.path == "/no" else {}
        body = json.dumps({"port": self.server.server_address[1]} | what).encode()
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


def test_one_that_begins_anew_is_found_at_its_new_address(store):
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


def test_it_is_waited_for_as_long_as_was_said(store, monkeypatch):
    with controller(store):
        client = Client(store.directory, patience=3600)
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


def test_the_token_is_not_shown_to_who_has_a_dead_ones_port(store):
    with controller(store) as first:
        client = Client(store.directory)
        address = client.address
        port = first.server_address[1]
    store.set_address(address)  # it was killed
    with listening(port) as stranger:
        with pytest.raises(HikyakuError, match="no controller runs with"):
            client.get("/x")
        with pytest.raises(HikyakuError, match="no controller runs with"):
            Client(store.directory)
        assert stranger.seen == []


def test_nor_to_one_that_was_met_while_the_next_began(store, monkeypatch):
    """The address was read, then the controller was killed, and the next runs elsewhere."""
    with controller(store), listening() as stranger:
        own = store.address()
        client = Client(store.directory)
        addresses = iter([f"http://127.0.0.1:{stranger.server_address[1]}", own])
        monkeypatch.setattr(Store, "address", lambda _: next(addresses))
        with pytest.raises(Unreachable):
            client.get("/x")
        assert stranger.seen == []


def test_no_proxy_is_asked(store, monkeypatch):
    with controller(store), listening() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        with suppress(HikyakuError):
            Client(store.directory).get("/x")
        assert proxy.seen == []
