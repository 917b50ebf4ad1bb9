# SPDX-License-Identifier: BSD-3-Clause
"""REST, all of it, with a controller that has no switches: what it takes and refuses, and noise."""

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import networks
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from hikyaku.errors import HikyakuError
from hikyaku.sdn import update
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.follow import Frame, Tables
from hikyaku.sdn.leases import Leases
from hikyaku.sdn.names import Names
from hikyaku.sdn.network import Job
from hikyaku.sdn.program import compute
from hikyaku.sdn.rest import app
from hikyaku.sdn.rest.app import make_app, serving
from hikyaku.sdn.run import Options, server_names
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch

TOKEN = "secret"
MAC = "02:00:00:00:00:01"


@dataclass
class Rest:
    """The interface of the controller @c, and a client of it; @said: the bugs that it reports."""

    c: Controller
    runner: asyncio.Runner
    client: TestClient | None = None
    said: list[str] = field(default_factory=list)

    def app(self) -> web.Application:
        return make_app(self.c, TOKEN, self.said.append)

    def start(self) -> None:
        async def started() -> TestClient:
            client = TestClient(TestServer(self.app()))
            await client.start_server()
            return client

        self.client = self.runner.run(started())


@pytest.fixture
def rest(tmp_path, monkeypatch) -> Iterator[Rest]:
    controller = Controller(Store(tmp_path / "sdn"), lambda _: None)

    async def settled(_limit: float = 0) -> None:
        pass

    monkeypatch.setattr(controller, "settled", settled)
    with asyncio.Runner() as runner:
        made = Rest(controller, runner)
        made.start()
        yield made
        runner.run(made.client.close())


def ask(rest: Rest, method: str, path: str, data=None, token: str | None = TOKEN, **query: str):
    body = data if isinstance(data, bytes) else b"" if data is None else json.dumps(data).encode()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def answered() -> tuple[int, object]:
        url = rest.client.make_url("/").with_path(path, encoded=True).with_query(query)
        answer = await rest.client.session.request(method, url, data=body, headers=headers)
        is_json = answer.content_type == "application/json"
        return answer.status, await (answer.json() if is_json else answer.text())

    found = rest.runner.run(answered())
    assert rest.said == [], "a request found a bug"
    return found


def test_the_life_of_a_job(rest, tmp_path):
    assert ask(rest, "POST", "/v1/jobs", {"name": "a", "ranks": {"0": MAC}}) == (
        201,
        {"job": 1, "name": "a", "ranks": {"0": MAC}, "groups": {}},
    )
    told = ask(rest, "PUT", "/v1/jobs/1/ranks", {"7": "02:00:00:00:00:08"})
    assert told == (200, {"job": 1}), "not all ranks to each of very many"
    assert ask(rest, "PUT", "/v1/jobs/1/groups/2", [0, 7])[0] == 200
    _, job = ask(rest, "GET", "/v1/jobs/1")
    assert job["groups"] == {"2": [0, 7]}
    assert job["not_located"] == [0, 7]
    rest.c.keep()  # as before each update
    jobs, *_ = Store(tmp_path / "sdn").load()
    assert jobs[1].ranks == {0: 0x0200_0000_0001, 7: 0x0200_0000_0008}, "kept for a restart"
    assert ask(rest, "POST", "/v1/jobs", {})[1]["job"] == 2, "the lowest number that is free"
    assert ask(rest, "DELETE", "/v1/jobs/1")[0] == 200
    assert [j["job"] for j in ask(rest, "GET", "/v1/jobs")[1]] == [2]


def test_which_ranks_are_located(rest, monkeypatch):
    """Said when their rules have been written, without a look at these: there may be very many."""
    ask(rest, "POST", "/v1/jobs", {"ranks": {"0": MAC, "7": "02:00:00:00:00:08"}})
    graph = rest.c.network.graph
    graph.add_switch(1, [2])
    graph.hosts[0x0200_0000_0008] = (1, 2)
    monkeypatch.setattr(update, "CONFIRM_S", 0.0)
    assert ask(rest, "GET", "/v1/jobs/1/ranks") == (200, {"located": []})
    asyncio.run(rest.c._update())
    monkeypatch.setattr(rest.c, "wanted", None)
    assert ask(rest, "GET", "/v1/jobs/1/ranks", token=None) == (200, {"located": [7]})
    ask(rest, "PUT", "/v1/jobs/1/ranks", {"7": MAC[:-1] + "9"})
    graph.hosts[0x0200_0000_0009] = (1, 2)
    assert ask(rest, "GET", "/v1/jobs/1/ranks") == (200, {"located": []}), "not yet there"
    assert ask(rest, "GET", "/v1/jobs/2/ranks")[0] == 404


def test_a_rank_with_an_address_of_two_ports_is_refused(rest):
    graph = rest.c.network.graph
    graph.add_switch(1, [2, 3])
    hosts = rest.c.discovery.hosts
    for port in (2, 3):
        hosts.learn((1, port), 0x0200_0000_0001, rest.c.clock())
    ask(rest, "POST", "/v1/jobs", {})
    for method, path, data in (
        ("PUT", "/v1/jobs/1/ranks", {"0": MAC}),
        ("POST", "/v1/jobs", {"ranks": {"0": MAC}}),
    ):
        status, answer = ask(rest, method, path, data)
        assert status == 409
        assert "was heard at switch 1 port 3, switch 1 port 2" in answer["error"]
    rest.c.set_job(Job(1, ranks={0: 0x0200_0000_0001}))
    rest.c.network.disputed.add(0x0200_0000_0001)
    _, answer = ask(rest, "GET", "/v1/jobs/1/ranks")
    assert "was heard at" in answer["disputed"]["0"]


def test_only_the_token_changes_anything(rest):
    for token in (None, "", "secret2", "Secret", "sécret"):
        for method, path in (
            ("POST", "/v1/jobs"),
            ("DELETE", "/v1/jobs/1"),
            ("PUT", "/v1/jobs/1/ranks"),
            ("PUT", "/v1/jobs/1/groups/0"),
        ):
            status, answer = ask(rest, method, path, {}, token)
            assert status == 401
            assert "fix: send the header 'Authorization: Bearer TOKEN'" in answer["error"]
    assert ask(rest, "GET", "/v1/jobs", token=None) == (200, [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "the body: Invalid JSON"),
        (b"[" * 100_000, "the body: Invalid JSON: recursion limit"),
        ([], "the body: Input should be an object"),
        ({"color": 1}, "color: Extra inputs are not permitted"),
        ({"name": 3}, "name: Input should be a valid string"),
        ({"name": "x" * 65}, "name: String should have at most 64 characters"),
        ({"name": "a\nb"}, "name: use printable characters only"),
        ({"job": 0}, "job: Input should be greater than or equal to 1"),
        ({"job": 64}, "job: Input should be less than 64"),
        ({"job": True}, "job: Input should be a valid integer"),
        ({"job": 1.5}, "job: Input should be a valid integer"),
        ({"ranks": [MAC]}, "ranks: Input should be an object"),
        ({"ranks": {"2048": MAC}}, "ranks.2048: Input should be less than 2048"),
        ({"ranks": {"-1": MAC}}, "ranks.-1: Input should be greater than or equal to 0"),
        ({"ranks": {"0": "02:00"}}, "ranks.0: '02:00' is not a MAC address"),
        ({"ranks": {"0": 5}}, "ranks.0: Input should be a valid string"),
        ({"ranks": {"0": "66:48:00:00:00:01"}}, "cannot be a rank's"),
        ({"ranks": {"0": "ff:ff:ff:ff:ff:ff"}}, "cannot be a rank's"),
        ({"groups": {"1": [5000]}}, "groups.1.0: Input should be less than 2048"),
        ({"groups": {"1": {}}}, "groups.1: Input should be a valid"),
        ({"lease": 9}, "lease: Input should be greater than or equal to 10"),
        ({"groups": {"x": []}}, "groups.x: Input should be a valid integer"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(rest, data, said):
    status, answer = ask(rest, "POST", "/v1/jobs", data)
    assert status == 400
    assert said in answer["error"]
    assert rest.c.jobs == {}


def refusing(rest: Rest, monkeypatch, job: int) -> None:
    refused = {7: {"a rule": "no room"}}
    monkeypatch.setattr(rest.c, "refused_rules", lambda n: refused if n == job else {})


def test_what_a_switch_refuses_is_taken_back(rest, monkeypatch):
    ask(rest, "POST", "/v1/jobs", {"ranks": {"0": MAC}, "groups": {"1": [0]}})
    refusing(rest, monkeypatch, 1)
    status, answer = ask(
        rest, "PUT", "/v1/jobs/1/ranks", {"0": MAC[:-1] + "2", "4": MAC[:-1] + "3"}
    )
    assert status == 507
    assert "switch 7 refused 1 rules of job 1 (no room); fix: " in answer["error"]
    assert ask(rest, "PUT", "/v1/jobs/1/groups/1", [])[0] == 507
    assert ask(rest, "PUT", "/v1/jobs/1/groups/2", [0])[0] == 507
    _, job = ask(rest, "GET", "/v1/jobs/1")
    assert (job["ranks"], job["groups"]) == ({"0": MAC}, {"1": [0]})
    assert "no room" in ask(rest, "GET", "/v1/jobs/1/ranks")[1]["refused"]
    refusing(rest, monkeypatch, 2)
    assert ask(rest, "POST", "/v1/jobs", {})[0] == 507
    assert ask(rest, "PUT", "/v1/jobs/1/groups/2", [0])[0] == 200, "another job's are its own"
    assert list(rest.c.jobs) == [1]


def test_a_rank_has_room_for_the_whole_refusal(rest, monkeypatch):
    ask(rest, "POST", "/v1/jobs", {"job": 63})
    full = "OFPFMFC_TABLE_FULL(1)"
    refused = {n: dict.fromkeys(range(10_000), full) for n in range(100_000, 100_100)}
    monkeypatch.setattr(rest.c, "refused_rules", lambda _: refused)
    _, answer = ask(rest, "PUT", "/v1/jobs/63/ranks", {})
    assert ", 99 others too; fix: " in answer["error"]
    assert len(f"the controller refused PUT /v1/jobs/63/ranks: {answer['error']}") < 244


def test_what_the_switches_do_not_answer_to_in_time_is_taken_back(rest, monkeypatch):
    ask(rest, "POST", "/v1/jobs", {})

    async def never(_limit: float = 0) -> None:
        raise TimeoutError

    monkeypatch.setattr(rest.c, "settled", never)
    assert ask(rest, "POST", "/v1/jobs", {"ranks": {"0": MAC}})[0] == 503
    assert list(rest.c.jobs) == [1]
    assert ask(rest, "PUT", "/v1/jobs/1/ranks", {"0": MAC})[0] == 503
    assert rest.c.jobs[1].ranks == {}
    assert ask(rest, "DELETE", "/v1/jobs/1")[0] == 503
    assert rest.c.jobs == {}


def test_what_is_taken_back_late_undoes_nobody_elses(rest, monkeypatch):
    ask(rest, "POST", "/v1/jobs", {})

    async def meanwhile(_limit: float = 0) -> None:
        rest.c.jobs[1].groups[1] = frozenset({5})
        raise TimeoutError

    monkeypatch.setattr(rest.c, "settled", meanwhile)
    assert ask(rest, "PUT", "/v1/jobs/1/groups/1", [0])[0] == 503
    assert rest.c.jobs[1].groups == {1: {5}}

    async def ends(_limit: float = 0) -> None:
        rest.c.remove_job(1)
        raise TimeoutError

    monkeypatch.setattr(rest.c, "settled", ends)
    assert ask(rest, "PUT", "/v1/jobs/1/groups/1", [0])[0] == 503
    assert rest.c.jobs == {}, "a job that has ended does not come back"


def test_numbers_of_jobs_are_given_once_and_run_out(rest):
    for number in range(1, 64):
        assert ask(rest, "POST", "/v1/jobs", {})[1]["job"] == number
    status, answer = ask(rest, "POST", "/v1/jobs", {})
    assert status == 409
    assert "fix: end a job, or remove one" in answer["error"]
    assert answer["error"].endswith(f"hikyaku sdn status --state {rest.c.store.directory}")
    assert ask(rest, "POST", "/v1/jobs", {"job": 5})[0] == 409


def test_a_lease_is_renewed_and_kept_for_a_restart(rest, tmp_path, monkeypatch):
    assert ask(rest, "POST", "/v1/jobs", {"lease": 60})[1]["lease"] == 60
    renewed: list[tuple[int, float]] = []
    monkeypatch.setattr(rest.c.leases, "renew", lambda *what: renewed.append(what))
    assert ask(rest, "PUT", "/v1/jobs/1/lease", 60) == (200, {"job": 1})
    assert ask(rest, "PUT", "/v1/jobs/1/ranks", {"0": MAC})[0] == 200, "a sign of life, too"
    assert ask(rest, "PUT", "/v1/jobs/1/lease", 30)[0] == 200
    assert renewed == [(1, 60), (1, 60), (1, 30)]
    assert ask(rest, "PUT", "/v1/jobs/1/lease", 1)[0] == 400
    assert ask(rest, "PUT", "/v1/jobs/2/lease", 60)[0] == 404
    rest.c.keep()
    again = Controller(Store(tmp_path / "sdn"), lambda _: None)
    assert again.jobs[1].lease == 30
    assert again.leases.expired(again.leases._then) == []
    assert again.leases._left == {1: 30}


def test_leases_end_by_time_that_the_controller_ran():
    leases = Leases(100.0)
    leases.renew(1, 12.0)
    leases.renew(2, 60.0)
    assert leases.expired(5000.0) == [], "it was stopped for long"
    assert leases.expired(5005.0) == []
    assert leases.expired(5007.0) == [1]
    leases.drop(1)
    assert leases.expired(5008.0) == []
    leases.renew(2, 1.0)
    assert leases.expired(5009.0) == [2]


def test_a_job_that_nobody_renews_is_taken_away(rest, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(rest.c, "_print", said.append)
    for lease in ({"lease": 60}, {}):
        ask(rest, "POST", "/v1/jobs", lease)
    rest.c.leases.renew(1, 0.0)  # as if it had passed

    async def until_said() -> None:
        task = asyncio.create_task(rest.c._ending_leases())
        while not said:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(until_said(), 30))
    assert list(rest.c.jobs) == [2]
    assert "its registrar has been silent for 60 s" in said[0]


def test_paths_that_are_not_there(rest):
    page = "fix: use a call of the table in docs/sdn.md"
    assert ask(rest, "GET", "/v2") == (404, {"error": f"Not Found: GET /v2; {page}"})
    none = "there is no job 9; fix: none is registered: "
    assert ask(rest, "GET", "/v1/jobs/9") == (404, {"error": f"{none}start one with --tag"})
    assert ask(rest, "DELETE", "/v1/jobs/9") == (404, {"error": f"{none}nothing is to be done"})
    said = {"error": f"Method Not Allowed: POST /v1/status; {page}"}
    assert ask(rest, "POST", "/v1/status") == (405, said)
    assert ask(rest, "GET", "/../../etc/passwd")[0] == 404
    ask(rest, "POST", "/v1/jobs", {})
    assert ask(rest, "GET", "/v1/jobs/1/path", function="dance")[0] == 400
    assert ask(rest, "GET", "/v1/jobs/1/path", source="-1")[0] == 400
    assert ask(rest, "GET", "/v1/jobs/1/path")[0] == 404, "rank 0 is nowhere"
    said = "there is no job 9; fix: use one of: 1"
    assert ask(rest, "DELETE", "/v1/jobs/9") == (404, {"error": said})
    status, answer = ask(rest, "GET", "/v1/path", source="node0")
    assert status == 400
    assert answer["error"].startswith(
        "source: 'node0' is not a MAC address, nor a host's name; fix: "
    )


def test_a_path_by_the_names_of_hosts(rest):
    """A host with several interfaces is named with one of them."""
    a, b, c = 0x0200_0000_0001, 0x0200_0000_0002, 0x0200_0000_0003
    rest.c.names = Names({a: ("node0", "tcp0"), b: ("node0", "hk0"), c: ("node1", "tcp0")})
    graph = rest.c.network.graph
    graph.add_switch(1, [1, 2, 3])
    graph.hosts |= {a: (1, 1), b: (1, 2), c: (1, 3)}
    asyncio.run(rest.c._update())
    by_address = ask(rest, "GET", "/v1/path", source=MAC, destination="02:00:00:00:00:03")
    assert by_address[0] == 200
    assert ask(rest, "GET", "/v1/path", source="node0:tcp0", destination="node1") == by_address
    status, answer = ask(rest, "GET", "/v1/path", source="node0", destination="node1")
    assert status == 400
    assert answer["error"] == (
        "source: 'node0' has 2 addresses; fix: give one of node0:tcp0 (02:00:00:00:00:01), "
        "node0:hk0 (02:00:00:00:00:02)"
    )
    assert ask(rest, "GET", "/v1/path", source="", destination="node1")[0] == 400
    status, answer = ask(rest, "GET", "/v1/path", source="node0:tpc0", destination="node1")
    assert status == 400
    assert answer["error"].endswith(
        "nor a host's name; fix: give node0:tcp0 or node1:tcp0 or node0:hk0"
    )


def test_a_path_to_a_host_that_is_cut_off(rest):
    """Its frames are flooded. The hosts that get them have their own names, and it is not there."""
    a, b, c = 0x0200_0000_0001, 0x0200_0000_0002, 0x0200_0000_0003
    rest.c.names = Names({mac: (f"node{mac % 8}", "tcp0") for mac in (a, b, c)})
    graph = rest.c.network.graph
    graph.add_switch(1, [1, 2])
    graph.add_switch(2, [1])
    graph.hosts |= {a: (1, 1), b: (1, 2), c: (2, 1)}
    asyncio.run(rest.c._update())

    def way(destination: str) -> tuple[list[str], bool | None]:
        status, answer = ask(rest, "GET", "/v1/path", source="node1", destination=destination)
        assert status == 200
        return [each["name"] for each in answer["receivers"]], answer["arrives"]

    assert way("node2") == (["node2"], True)
    assert way("node3") == (["node2"], False)
    assert way("02:00:00:00:00:09") == (["node2"], None)
    graph.ports[1].remove(2)  # the link of node2 is cut
    assert way("node2") == ([], False)


def test_a_path_is_followed_once_until_the_rules_change(rest, monkeypatch):
    network = rest.c.network = networks.of_wiring("leaf-spine:1x2x4")
    rest.c.jobs[1] = networks.job_on(network, 8)
    rest.c.masked = rest.c.wanted = compute(network, rest.c.jobs.values())
    followed: list[Frame] = []
    send = Tables.send

    def counted(tables: Tables, switch: int, port: int, frame: Frame):
        followed.append(frame)
        return send(tables, switch, port, frame)

    monkeypatch.setattr(Tables, "send", counted)

    def path(destination: int) -> tuple[int, int]:
        status, answer = ask(rest, "GET", "/v1/jobs/1/path", destination=str(destination))
        assert status == 200
        return len(answer["links"]), len(answer["receivers"])

    crossed = {path(n) for n in range(1, 8)}
    assert crossed == {(0, 1), (2, 1)}, "below the own leaf, and by the spine"
    assert {path(n) for n in range(1, 8)} == crossed
    assert len(followed) == 7
    far = next(n for n in range(1, 8) if path(n) == (2, 1))
    rest.c.masked = rest.c.wanted = dict(rest.c.wanted)
    assert path(far) == (2, 1)
    assert len(followed) == 8
    monkeypatch.setattr(network.graph, "links", {})
    assert path(far) == (0, 1), "a link that was lost since is not drawn"


def test_hosts_have_names(rest):
    graph = rest.c.network.graph
    graph.add_switch(1, [2])
    graph.hosts |= {0x0200_0000_0001: (1, 2), 0x0200_0000_0002: (1, 2)}
    rest.c.names = Names({0x0200_0000_0001: ("node0", "tcp0")})
    _, topology = ask(rest, "GET", "/v1/topology")
    found = [(host["name"], host["interface"]) for host in topology["hosts"]]
    assert found == [("node0", "tcp0"), (None, None)]


def test_metrics_are_well_formed(rest):
    """Beside the numbers of switches and ports are the names of switches and links."""
    leaf = rest.c.switches[3] = Switch(3, None)
    leaf.name, leaf.counts = "leaf0", {2: (1, 2, 3, 4)}
    rest.c.names = Names(links={(3, 2): "leaf0-spine1"})
    ask(rest, "POST", "/v1/jobs", {})
    status, text = ask(rest, "GET", "/metrics")
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    assert found["hikyaku_sdn_jobs"].samples[0].value == 1
    assert found["hikyaku_sdn_port_sent_bytes"].type == "counter"
    assert found["hikyaku_sdn_rules"].samples[0].labels == {"switch": "3", "name": "leaf0"}
    labels = {"switch": "3", "name": "leaf0", "port": "2", "link": "leaf0-spine1"}
    assert found["hikyaku_sdn_port_sent_bytes"].samples[0].labels == labels
    _, shown = ask(rest, "GET", "/v1/status")
    assert shown["switches"]["3"]["name"] == "leaf0"


def test_a_damaged_state_is_named(tmp_path):
    store = Store(tmp_path / "sdn")
    for text in ("{", "[]", '{"jobs": 3}', '{"jobs": [], "hosts": {"x": [1, 2]}, "switches": []}'):
        (store.directory / "state.json").write_text(text)
        with pytest.raises(HikyakuError, match=r"state\.json is damaged"):
            store.load()


def test_secrets_are_for_nobody_else(tmp_path):
    store = Store(tmp_path / "sdn")
    assert store.token() == store.token()
    assert (store.directory / "token").stat().st_mode & 0o077 == 0
    assert len(store.key()) == 32


# ---- HTTP ----------------------------------------------------------------------------------------


async def _exchange(rest: Rest, requests: list[bytes]) -> list:
    listening = socket.create_server(("127.0.0.1", 0))
    answers = []
    async with serving(rest.app(), listening):
        for request in requests:
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(request)
            answer = asyncio.create_task(reader.read())
            done, _ = await asyncio.wait([answer], timeout=0.1)
            if not done:  # it waits for the rest of the request
                writer.write_eof()
            try:
                answers.append(await asyncio.wait_for(answer, 20))
            except ConnectionError:
                answers.append(b"")
            writer.close()
    assert rest.said == [], "a request found a bug"
    return answers


GOOD = b"GET /v1/status HTTP/1.1\r\nHost: localhost:80\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (GOOD, b"200"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /\r\n\r\n", b"421"),
        (b"GET http://x/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n", b"413"),
        (
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"501",
        ),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"431"),
        (b"GET /?" + b"&a=b" * 50 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
    ],
)
def test_http(rest, request_, status):
    (answer,) = asyncio.run(_exchange(rest, [request_]))
    assert answer.split(b" ")[1] == status


@pytest.mark.parametrize(
    ("host", "us"),
    [
        ("ctl", True),
        ("CTL.:80", True),
        ("ctl.example.org:80", True),
        ("10.0.0.1", True),
        ("[fe80::1]:80", True),
        ("[::1]", True),
        ("evil.example", False),
        ("ctl.example.org.evil.example", False),
        ("10.0.0.1.evil.example:80", False),
        ("[evil.example]", False),
        ("", False),
    ],
)
def test_a_page_of_another_site_reads_nothing_though_rest_is_in_the_clear(host, us, monkeypatch):
    """Its name may resolve to us (DNS rebinding). An address in a URL is nobody else's name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "ctl")
    options = Options(
        *(None, ("0.0.0.0", 6653), ("0.0.0.0", 80)),
        rest_in_clear=True,
        rest_names=("ctl.example.org",),
    )
    assert app._addresses_us(host, server_names(options)) == us


def test_no_other_page_can_show_ours_in_a_frame(rest):
    (answer,) = asyncio.run(_exchange(rest, [GOOD]))
    head = answer.partition(b"\r\n\r\n")[0].decode().lower()
    assert "frame-ancestors 'none'" in head
    assert "x-frame-options: deny" in head


def test_a_connection_without_a_request_is_closed(rest, monkeypatch):
    monkeypatch.setattr(app, "CONNECTION_S", 0.2)

    async def silent() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        async with serving(rest.app(), listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(GOOD[:20])
            try:
                return await asyncio.wait_for(reader.read(), 20)
            finally:
                writer.close()

    assert asyncio.run(silent()) == b""


def test_http_and_rest_survive_noise(rest):
    rng = random.Random(3)
    parts = [b"/v1/jobs", b"/v1/jobs/1/ranks", b"/v1/jobs/1/path?source=", b"/v1/jobs/1/groups/9"]
    requests = [rng.randbytes(rng.randrange(1, 300)) for _ in range(100)]
    for _ in range(400):
        body = rng.choice(
            [rng.randbytes(20), b'{"ranks":{"1":"02:00:00:00:00:0%d"}}' % rng.randrange(9)]
        )
        method = rng.choice([b"GET", b"POST", b"PUT", b"DELETE", b"HEAD"])
        head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n" % (
            method,
            rng.choice(parts) + rng.choice([b"", b"7", b"%00", b"\xff"]),
            TOKEN.encode(),
        )
        whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        at = rng.randrange(len(whole))
        requests.append(rng.choice([whole, whole[:at] + rng.randbytes(3) + whole[at + 3 :]]))
    answers = asyncio.run(_exchange(rest, [*requests, GOOD]))
    assert answers[-1].startswith(b"HTTP/1.1 200")
    assert {a.split(b" ")[1] for a in answers if a} >= {b"200", b"400", b"404"}
