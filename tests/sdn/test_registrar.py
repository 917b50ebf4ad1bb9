# SPDX-License-Identifier: BSD-3-Clause
"""The registrar of a job: what it tells the controller, and whom it does not believe."""

import socket
from pathlib import Path

import pytest

from hikyaku.errors import HikyakuError
from hikyaku.sdn.registrar import Registrar, job_name

MAC = "02:00:00:00:00:07"


class Controller:
    """In place of the client: what it was asked; refuses ranks if told so."""

    def __init__(self, refuses: str | None = None):
        self.calls: list[tuple] = []
        self.refuses = refuses

    def post(self, path: str, data: object) -> dict:
        self.calls.append(("POST", path, data))
        return {"job": 9}

    def put(self, path: str, data: object) -> dict:
        self.calls.append(("PUT", path, data))
        if self.refuses:
            raise HikyakuError(self.refuses)
        return {}

    def delete(self, path: str) -> dict:
        self.calls.append(("DELETE", path))
        return {}


def say(address: str, line: bytes) -> str:
    _, _, where = address.partition("@")
    if where.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(where)
    else:
        host, _, port = where.rpartition(":")
        sock = socket.create_connection((host, int(port)), timeout=10)
    with sock:
        sock.settimeout(10)
        sock.sendall(line)
        sock.shutdown(socket.SHUT_WR)
        return sock.makefile().read()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_job_from_its_begin_to_its_end(tmp_path: Path, kind: str) -> None:
    controller = Controller()
    where = tmp_path / "r" if kind == "unix" else "localhost"
    with Registrar(controller, "solver", where) as registrar:
        assert registrar.job == 9
        secret = registrar.address.partition("@")[0]
        assert say(registrar.address, f"{secret} 3 {MAC}\n".encode()) == "ok\n"
        if kind == "unix":
            assert where.stat().st_mode & 0o077 == 0
    assert controller.calls == [
        ("POST", "/v1/jobs", {"name": "solver"}),
        ("PUT", "/v1/jobs/9/ranks", {"3": MAC}),
        ("DELETE", "/v1/jobs/9"),
    ]
    assert kind == "tcp" or not where.exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("wrong 3 " + MAC, "did not understand"),
        ("{secret} 3", "did not understand"),
        ("{secret} 3 " + MAC + " more", "did not understand"),
        ("{secret} 2048 " + MAC, "there is no rank 2048"),
        ("{secret} -1 " + MAC, "there is no rank -1"),
        ("{secret} 3 02:00", "'02:00' is no MAC address"),
        ("", "did not understand"),
        ("\xff" * 300, "did not understand"),
    ],
)
def test_what_is_not_believed(tmp_path: Path, line: str, says: str) -> None:
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        text = line.replace("{secret}", registrar.address.partition("@")[0]).encode("latin-1")
        assert says in say(registrar.address, text + b"\n")
    assert [call[0] for call in controller.calls] == ["POST", "DELETE"]


def test_a_refusal_comes_back_in_one_line(tmp_path: Path) -> None:
    controller = Controller("the controller refused PUT:\nno such thing")
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.address.partition("@")[0]
        answer = say(registrar.address, f"{secret} 3 {MAC}\n".encode())
    assert answer == "the controller refused PUT: no such thing\n"


def test_no_controller_leaves_no_socket(tmp_path: Path) -> None:
    class Gone(Controller):
        def post(self, path: str, data: object) -> dict:
            raise HikyakuError("does not answer")

    with pytest.raises(HikyakuError, match="does not answer"):
        Registrar(Gone(), "solver", tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_job_names() -> None:
    assert job_name(["mpirun", "-np", "2", "./bin/solver", "in/put.txt"]) == "solver"
    assert job_name(["true"]).startswith("process ")
