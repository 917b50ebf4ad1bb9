# SPDX-License-Identifier: BSD-3-Clause
"""The registrar of a job: its requests to the controller, and the requests that it refuses."""

import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from hikyaku.cli import tag as cli_tag
from hikyaku.errors import HikyakuError
from hikyaku.sdn import client
from hikyaku.sdn import registrar as module
from hikyaku.sdn.registrar import FROM_US, TO_US, Registrar, job_name, sign

MAC = "02:00:00:00:00:07"
LIMIT_S = 10


class Controller:
    """In place of the client: records requests. @refuses: the error by which it answers PUTs."""

    def __init__(self, refuses: str | None = None):
        self.calls: list[tuple] = []
        self.located: list[int] = []
        self.looks = 0
        self.refuses = refuses
        self.refused: dict[str, str] = {}
        self.on_put: Callable[[], object] = lambda: None

    def post(self, path: str, data: object) -> dict:
        self.calls.append(("POST", path, data))
        return {"job": 9}

    def put(self, path: str, data: object) -> dict:
        self.calls.append(("PUT", path, data))
        self.on_put()
        if self.refuses:
            raise HikyakuError(self.refuses)
        return {}

    def get(self, path: str) -> dict:
        assert path == "/v1/jobs/9/ranks"
        self.looks += 1
        return {"located": self.located} | self.refused

    def delete(self, path: str) -> dict:
        self.calls.append(("DELETE", path))
        return {}


def reached(registrar: Registrar) -> socket.socket:
    if registrar.address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(LIMIT_S)
        sock.connect(registrar.address)
        return sock
    host, _, port = registrar.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


def signed(secret: str, nonce: str, text: str) -> bytes:
    key = secret.encode(errors="surrogateescape").hex() if not secret.isascii() else secret
    line = f"{sign(key, TO_US, nonce, text)} {text}\n"
    return line.encode(errors="surrogateescape")


def say(registrar: Registrar, line: bytes) -> str:
    """Sends @line, in which an HMAC stands for the secret, its first word. Checks the answer's."""
    secret, _, text = line.decode(errors="surrogateescape").strip("\n").partition(" ")
    with reached(registrar) as sock, sock.makefile() as answers:
        nonce = answers.readline().strip()
        sock.sendall(signed(secret, nonce, text))
        sock.shutdown(socket.SHUT_WR)
        given, _, answer = answers.read().partition(" ")
        assert given == sign(registrar.secret, FROM_US, nonce, answer.strip("\n"))
        return answer


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_job_from_start_to_end(tmp_path: Path, kind: str) -> None:
    controller = Controller()
    where = tmp_path / "r" if kind == "unix" else "localhost"
    with Registrar(controller, "solver", where) as registrar:
        assert registrar.job == 9
        secret = registrar.secret
        assert say(registrar, f"{secret} 3 {MAC}\n".encode()) == "ok\n"
        assert say(registrar, f"{secret} 5,4 {MAC}\n".encode()) == "ok\n"
        if kind == "unix":
            assert where.stat().st_mode & 0o077 == 0
    assert controller.calls == [
        ("POST", "/v1/jobs", {"name": "solver", "lease": 60}),
        ("PUT", "/v1/jobs/9/ranks", {"3": MAC}),
        ("PUT", "/v1/jobs/9/ranks", {"4": MAC, "5": MAC}),
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
        ("{secret} 3,,4 " + MAC, "there is no rank "),
        ("{secret} -1 " + MAC, "there is no rank -1"),
        ("{secret} 3 02:00", "'02:00' is not a MAC address"),
        ("{secret} located 2048", "there is no rank 2048"),
        ("{secret} group 1,,2", "there is no rank"),
        ("{secret} group 1,2048", "there is no rank 2048"),
        ("{secret} drop 1", "there is no group 1"),
        ("{secret} drop x", "there is no group x"),
        ("{secret} drop 0", "there is no group 0"),
        ("", "did not understand"),
        ("\xff" * 300, "did not understand"),
    ],
)
def test_invalid_requests_are_refused(tmp_path: Path, line: str, says: str) -> None:
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        text = line.replace("{secret}", registrar.secret).encode("latin-1")
        assert says in say(registrar, text + b"\n")
    assert [call[0] for call in controller.calls] == ["POST", "DELETE"]


def test_a_rank_is_located_or_not_yet(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_FRESH_S", 0.0)
    controller = Controller()
    controller.located = [2]
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        assert say(registrar, f"{secret} located 3\n".encode()) == "not yet\n"
        assert say(registrar, f"{secret} located 2\n".encode()) == "ok\n"
        controller.located = [2, 3]
        assert say(registrar, f"{secret} located 3\n".encode()) == "ok\n"
        controller.refused = {"refused": "no room; fix: wait"}  # a rank has rules from then on
        assert say(registrar, f"{secret} located 3\n".encode()) == "no room; fix: wait\n"


def test_ranks_that_ask_at_once_cost_the_controller_one_look(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_FRESH_S", 3600.0)
    controller = Controller()
    controller.located = list(range(20))
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        said = [say(registrar, f"{secret} located {r}\n".encode()) for r in range(21)]
        assert said == ["ok\n"] * 20 + ["not yet\n"]
        assert controller.looks == 1
        # a new address is not located yet, whatever was known of the one before
        assert say(registrar, f"{secret} 3 {MAC}\n".encode()) == "ok\n"
        assert say(registrar, f"{secret} located 3\n".encode()) == "not yet\n"


def test_nobody_waits_for_the_switches_of_another(tmp_path: Path) -> None:
    """Two ranks register at once, and a third asks for its location meanwhile."""
    both, located = threading.Barrier(3), threading.Event()
    controller = Controller()
    controller.located = [2]

    def settle() -> None:
        both.wait(LIMIT_S)
        assert located.wait(LIMIT_S)

    controller.on_put = settle
    with (
        Registrar(controller, "solver", tmp_path / "r") as registrar,
        ThreadPoolExecutor(2) as pool,
    ):
        secret = registrar.secret

        def tell(rank: int) -> str:
            return say(registrar, f"{secret} {rank} {MAC[:-1]}{rank}\n".encode())

        told = [pool.submit(tell, rank) for rank in (0, 1)]
        both.wait(LIMIT_S)
        assert say(registrar, f"{secret} located 2\n".encode()) == "ok\n"
        located.set()
        assert [t.result(LIMIT_S) for t in told] == ["ok\n", "ok\n"]


def test_the_same_ranks_share_a_group_until_the_last_has_dropped_it(tmp_path: Path) -> None:
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret

        def ask(text: str) -> str:
            return say(registrar, f"{secret} {text}\n".encode()).strip()

        everybody = ",".join(str(r) for r in range(2048))
        assert [ask("group 2,0,5"), ask("group 5,0,2"), ask(f"group {everybody}")] == [
            "ok 1",
            "ok 1",
            "ok 2",
        ]
        assert ask("drop 1") == "ok"
        assert ask("group 0,2,5") == "ok 1"
        puts = [c for c in controller.calls if c[0] == "PUT"]
        assert puts == [
            ("PUT", "/v1/jobs/9/groups/1", [0, 2, 5]),
            ("PUT", "/v1/jobs/9/groups/2", list(range(2048))),
        ]
        assert [ask("drop 1"), ask("drop 1")] == ["ok", "ok"]
        assert ask("drop 1") == "there is no group 1"
        assert controller.calls[-1] == ("PUT", "/v1/jobs/9/groups/1", [])
        assert ask("group 7,8") == "ok 1"


def test_groups_are_made_at_once_and_each_once(tmp_path: Path) -> None:
    """Two requests for one group wait for it together, but not for other groups."""
    controller = Controller()
    both = threading.Barrier(2)
    controller.on_put = lambda: both.wait(LIMIT_S)
    with (
        Registrar(controller, "solver", tmp_path / "r") as registrar,
        ThreadPoolExecutor(4) as pool,
    ):
        secret = registrar.secret
        lines = [f"{secret} group {ranks}\n".encode() for ranks in ("1,2", "2,1", "3,4", "3,4")]
        said = list(pool.map(lambda line: say(registrar, line), lines))
        assert said[0] == said[1]
        assert said[2] == said[3]
        assert {said[0], said[2]} == {"ok 1\n", "ok 2\n"}
    assert len([c for c in controller.calls if c[0] == "PUT"]) == 2


def test_a_group_that_is_ready_too_late_is_dropped(tmp_path: Path, monkeypatch) -> None:
    """The rank that requested it has given up, and will not drop it."""
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        line = f"{secret} group 1,2\n".encode()
        with monkeypatch.context() as slow:
            slow.setattr(module, "_ANSWER_IN_S", 0.0)
            assert "took too long" in say(registrar, line)
        puts = [c[1:] for c in controller.calls if c[0] == "PUT"]
        assert puts == [("/v1/jobs/9/groups/1", [1, 2]), ("/v1/jobs/9/groups/1", [])]
        assert say(registrar, line) == "ok 1\n"


def test_a_group_that_the_controller_refuses_is_not_kept(tmp_path: Path) -> None:
    controller = Controller("no room")
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        assert say(registrar, f"{secret} group 1,2\n".encode()) == "no room\n"
        controller.refuses = None
        assert say(registrar, f"{secret} group 1,2\n".encode()) == "ok 1\n"


def test_a_group_is_free_even_if_the_controller_refuses_to_remove_it(
    tmp_path: Path,
) -> None:
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret

        def ask(text: str) -> str:
            return say(registrar, f"{secret} {text}\n".encode()).strip()

        assert ask("group 1,2") == "ok 1"
        controller.refuses = "not now"
        assert ask("drop 1") == "not now"
        controller.refuses = None
        assert ask("drop 1") == "there is no group 1"
        assert ask("group 3,4") == "ok 1"
        assert controller.calls[-1] == ("PUT", "/v1/jobs/9/groups/1", [3, 4])


def connected(registrar: Registrar, nonces: list[str] | None = None) -> socket.socket:
    """A connection on which a nonce has come, which goes into @nonces."""
    sock, text = reached(registrar), b""
    while (part := sock.recv(1)) not in (b"\n", b""):
        text += part
    if nonces is not None:
        nonces.append(text.decode())
    return sock


def test_a_recorded_request_does_not_count_again(tmp_path: Path) -> None:
    """The secret is not sent. Each connection has a nonce of its own."""
    controller = Controller()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        nonces: list[str] = []
        with connected(registrar, nonces) as first, connected(registrar, nonces) as second:
            request = signed(registrar.secret, nonces[0], f"3 {MAC}")
            assert registrar.secret.encode() not in request
            for sock, said in ((first, "ok"), (second, "did not understand")):
                sock.sendall(request)
                assert said in sock.makefile().read()
    assert [call[0] for call in controller.calls] == ["POST", "PUT", "DELETE"]


def test_the_first_address_of_a_rank_counts(tmp_path: Path) -> None:
    controller = Controller("no room")
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        other = MAC[:-1] + "8"
        assert say(registrar, f"{secret} 3 {other}\n".encode()) == "no room\n"
        controller.refuses = None  # a refused address does not count
        for ranks, mac, said in (
            ("3", MAC, "ok\n"),
            ("2,3", other, "rank 3 is registered with another address; fix: "),
            ("2", other, "ok\n"),
            ("3", MAC, "ok\n"),
        ):
            assert say(registrar, f"{secret} {ranks} {mac}\n".encode()).startswith(said)
        assert registrar._told == {"2": other, "3": MAC}


def test_the_oldest_silent_connections_are_closed(tmp_path: Path, monkeypatch) -> None:
    """Any process can connect, but no rank waits because of it."""
    monkeypatch.setattr(module, "_SILENT", 4)
    with Registrar(Controller(), "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        nonces: list[str] = []
        silent = [connected(registrar, nonces) for _ in range(5)]
        assert silent[0].recv(1) == b""
        assert say(registrar, f"{secret} 3 {MAC}\n".encode()) == "ok\n"
        assert silent[1].recv(1) == b""
        silent[2].sendall(signed(secret, nonces[2], f"4 {MAC}"))
        assert silent[2].makefile().read().endswith(" ok\n")
        for each in silent:
            each.close()


def test_the_number_of_threads_is_limited(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_THREADS", 2)
    controller = Controller()
    both, end = threading.Barrier(3), threading.Event()
    controller.on_put = lambda: (both.wait(LIMIT_S), end.wait(LIMIT_S))
    with (
        Registrar(controller, "solver", tmp_path / "r") as registrar,
        ThreadPoolExecutor(2) as pool,
    ):
        secret = registrar.secret
        lines = [f"{secret} {rank} {MAC}\n".encode() for rank in (1, 2)]
        answers = [pool.submit(say, registrar, line) for line in lines]
        both.wait(LIMIT_S)
        with reached(registrar) as third:
            assert third.recv(1) == b""
        end.set()
        assert [each.result(LIMIT_S) for each in answers] == ["ok\n", "ok\n"]


def test_a_line_has_one_time_limit_for_all_its_parts(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    class Slow:
        limits: ClassVar[list[float]] = []

        def settimeout(self, seconds: float) -> None:
            self.limits.append(seconds)

        def recv(self, _size: int) -> bytes:
            now[0] += 2.0
            return b"x"

    with pytest.raises(TimeoutError):
        module._read_line(Slow())
    assert Slow.limits == [5.0, 3.0, 1.0]


def test_a_refusal_is_answered_in_one_line(tmp_path: Path) -> None:
    controller = Controller("the controller refused PUT:\nno such thing")
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        answer = say(registrar, f"{secret} 3 {MAC}\n".encode())
    assert answer == "the controller refused PUT: no such thing\n"


def test_without_a_controller_no_socket_is_left(tmp_path: Path) -> None:
    class Gone(Controller):
        def post(self, path: str, data: object) -> dict:
            raise HikyakuError("does not answer")

    with pytest.raises(HikyakuError, match="does not answer"):
        Registrar(Gone(), "solver", tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


class Leaves(Controller):
    directory = Path("state")

    def delete(self, path: str) -> dict:
        raise self.failure


def test_a_job_that_cannot_be_removed_is_reported_and_the_status_stays(tmp_path, capsys) -> None:
    """`tag run` ends by sys.exit(), with mpirun's status."""
    Leaves.failure = HikyakuError("has gone")
    with pytest.raises(SystemExit, match="3"), Registrar(Leaves(), "solver", tmp_path / "r"):
        sys.exit(3)
    error = capsys.readouterr().err
    assert "job 9 stays with the controller" in error
    assert error.endswith("has gone; to remove it now: hikyaku sdn forget 9 --state state\n")
    for status in (404, 503):
        Leaves.failure = client.Refused("there is no job 9", status)
        with Registrar(Leaves(), "x", tmp_path / "r"):
            pass
    assert capsys.readouterr().err == ""


def test_the_lease_is_renewed_while_the_job_runs(tmp_path, monkeypatch, capsys) -> None:
    """A failure is reported once."""
    monkeypatch.setattr(module, "_BEAT_S", 0.001)
    controller = Controller("not now")
    many = threading.Semaphore(0)
    controller.on_put = many.release
    with Registrar(controller, "solver", tmp_path / "r"):
        for _ in range(5):
            assert many.acquire(timeout=LIMIT_S)
    assert ("PUT", "/v1/jobs/9/lease", 60) in controller.calls
    assert capsys.readouterr().err == "hikyaku: job 9 is not renewed: not now\n"


class Forgetful(Controller):
    """Once `forgets` is set, it refuses renewals until the job is registered again."""

    def __init__(self):
        super().__init__()
        self.forgets = False
        self.renewed, self.again = threading.Event(), threading.Event()

    def put(self, path: str, data: object) -> dict:
        if path.endswith("/lease"):
            if self.forgets:
                raise client.Refused("there is no job 9", 404)
            if self.again.is_set():
                self.renewed.set()
            return {}
        return super().put(path, data)

    def post(self, path: str, data: object) -> dict:
        if self.forgets:
            self.forgets = False
            self.again.set()
        return super().post(path, data)


def test_a_running_job_is_registered_again_after_its_lease(tmp_path, monkeypatch, capsys) -> None:
    """Its registrar was stopped for longer than the lease."""
    monkeypatch.setattr(module, "_BEAT_S", 0.001)
    controller = Forgetful()
    with Registrar(controller, "solver", tmp_path / "r") as registrar:
        secret = registrar.secret
        for text, says in ((f"3,4 {MAC}", "ok\n"), ("group 3,4", "ok 1\n")):
            assert say(registrar, f"{secret} {text}\n".encode()) == says
        controller.forgets = True
        assert controller.renewed.wait(LIMIT_S)
    assert [c for c in controller.calls if c[0] == "POST"][1:] == [
        (
            "POST",
            "/v1/jobs",
            {
                "job": 9,
                "name": "solver",
                "lease": 60,
                "ranks": {"3": MAC, "4": MAC},
                "groups": {"1": [3, 4]},
            },
        )
    ]
    error = capsys.readouterr().err
    assert error == "hikyaku: the controller had forgotten job 9, and was told of it again\n"


# In place of mpirun: a rank that registers its address with the registrar of the BTL's parameters.
RANK = """
import os, socket, sys
from hikyaku.sdn.registrar import SECRET_ENV, TO_US, sign
secret = os.environ[SECRET_ENV]
assert not any(secret in value for name, value in os.environ.items() if "OMPI_MCA_" in name)
host, _, port = os.environ["OMPI_MCA_btl_hikyaku_registrar"].rpartition(":")
text = "3 02:00:00:00:00:07"
with socket.create_connection((host, int(port)), timeout=10) as sock:
    nonce = sock.makefile().readline().strip()
    sock.sendall(f"{sign(secret, TO_US, nonce, text)} {text}\\n".encode())
    answer = sock.makefile().read()
sys.exit(int(os.environ["OMPI_MCA_btl_hikyaku_tag"]) if answer.endswith(" ok\\n") else 1)
"""


def test_a_native_job_on_real_nodes(tmp_path: Path, monkeypatch) -> None:
    """`tag run --sdn --native` gives ranks their settings, and exits with the command's status."""
    controller = Controller()
    monkeypatch.setattr(client, "Client", lambda _state, **_: controller)
    options = ["--sdn", "--native", "--state", str(tmp_path), "--reach-as", "localhost"]
    command = [sys.executable, "-c", RANK]
    done = CliRunner().invoke(cli_tag.tag, ["run", *options, "--", *command])
    assert done.exit_code == 9
    assert controller.calls == [
        ("POST", "/v1/jobs", {"name": Path(sys.executable).name, "lease": 60}),
        ("PUT", "/v1/jobs/9/ranks", {"3": MAC}),
        ("DELETE", "/v1/jobs/9"),
    ]


def test_job_names() -> None:
    assert job_name(["mpirun", "-np", "2", "./bin/solver", "in/put.txt"]) == "solver"
    assert job_name(["true"]).startswith("process ")
