# SPDX-License-Identifier: BSD-3-Clause
"""What the controller says and takes over HTTP: JSON, Prometheus' text, the page.

docs/sdn.md lists the calls. Pure but for the controller that it is given: a request in, a response
out; http.py moves them. Everything in a request is checked before it is used, and what is wrong is
said.
"""

import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import NoReturn

from .controller import Controller
from .follow import Frame
from .network import Job
from .paths import Paths
from .rules import MULTICAST, Key
from .store import job_to_json
from .tag import JOBS, RANKS, Function, NoTag, Tag, from_mac, in_prefix, to_mac

MAX_NAME = 64
LEASES = (10, 86400)  # seconds
JSON, TEXT, HTML = "application/json", "text/plain; version=0.0.4", "text/html; charset=utf-8"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    token: str | None
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int
    content: str
    kind: str = JSON


class Refused(Exception):
    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


def _bad(text: str) -> NoReturn:
    raise Refused(400, text)


def _number(text: object, what: str, low: int, high: int) -> int:
    good = re.fullmatch(r"[0-9]{1,20}", text) if isinstance(text, str) else type(text) is int
    if not good or not low <= int(text) <= high:
        _bad(f"{what} is a whole number from {low} to {high}")
    return int(text)


def _mac(text: object) -> int:
    try:
        mac = from_mac(text) if isinstance(text, str) else _bad("an address is a string")
    except NoTag as bad:
        _bad(str(bad))
    if in_prefix(to_mac(mac)) or mac & MULTICAST or mac == 0:
        _bad(f"{to_mac(mac)} cannot be a rank's own address")
    return mac


def _ranks(data: object) -> dict[int, int]:
    if not isinstance(data, dict) or len(data) > RANKS:
        _bad(f"ranks is an object of at most {RANKS} ranks, as {{'0': '02:…'}}")
    return {_number(r, "a rank", 0, RANKS - 1): _mac(mac) for r, mac in data.items()}


def _members(data: object) -> frozenset[int]:
    if not isinstance(data, list) or len(data) > RANKS:
        _bad(f"a group is a list of at most {RANKS} ranks")
    return frozenset(_number(r, "a rank", 0, RANKS - 1) for r in data)


def _lease(data: object) -> int:
    return _number(data, "a lease, in seconds,", *LEASES)


class Rest:
    """@token: whoever changes something has to show it."""

    def __init__(self, controller: Controller, token: str):
        self.c = controller
        self._token = token
        self._paths = Paths()
        self._routes: list[tuple[str, re.Pattern, Callable]] = [
            (method, re.compile(pattern), call)
            for method, pattern, call in (
                ("GET", r"/", self._page),
                ("GET", r"/metrics", self._metrics),
                ("GET", r"/v1/status", self._status),
                ("GET", r"/v1/topology", self._topology),
                ("GET", r"/v1/jobs", self._jobs),
                ("GET", r"/v1/jobs/([0-9]{1,5})", self._job),
                ("GET", r"/v1/jobs/([0-9]{1,5})/path", self._path),
                ("GET", r"/v1/jobs/([0-9]{1,5})/ranks", self._located),
                ("POST", r"/v1/jobs", self._add_job),
                ("DELETE", r"/v1/jobs/([0-9]{1,5})", self._remove_job),
                ("PUT", r"/v1/jobs/([0-9]{1,5})/ranks", self._set_ranks),
                ("PUT", r"/v1/jobs/([0-9]{1,5})/lease", self._set_lease),
                ("PUT", r"/v1/jobs/([0-9]{1,5})/groups/([0-9]{1,5})", self._set_group),
            )
        ]

    async def answer(self, request: Request) -> Response:
        try:
            return await self._route(request)
        except Refused as refused:
            return _json({"error": str(refused)}, refused.status)

    async def _route(self, request: Request) -> Response:
        found = False
        for method, pattern, call in self._routes:
            match = pattern.fullmatch(request.path)
            if not match:
                continue
            found = True
            if method != request.method:
                continue
            if method != "GET" and not hmac.compare_digest(
                (request.token or "").encode(), self._token.encode()
            ):
                raise Refused(401, "the token is missing or wrong (Authorization: Bearer …)")
            return await call(request, *match.groups())
        raise Refused(405 if found else 404, f"no {request.method} {request.path[:100]}")

    # ---- looking ------------------------------------------------------------------------------

    async def _page(self, _: Request) -> Response:
        page = resources.files(__package__).joinpath("page.html").read_text()
        return Response(200, page, HTML)

    async def _status(self, _: Request) -> Response:
        c = self.c
        flows = {
            str(s.number): {
                "rules": len(s.rules),
                "groups": len(s.groups),
                "refused": len(s.refused),
            }
            for s in c.switches.values()
        }
        return _json(
            {
                "switches": flows,
                "away": sorted(c.away),
                "settled": c.is_settled(),
                "refused_switches": c.refused,
                "hosts": len(c.network.graph.hosts),
                "links": len(c.network.graph.links) // 2,
                "jobs": len(c.jobs),
                "counts": dict(c.counts + c.discovery.counts),
                "events": [{"time": when, "text": text} for when, text in c.events],
            }
        )

    async def _topology(self, _: Request) -> Response:
        c = self.c
        graph, load = c.network.graph, c.network.load
        switches = [
            {
                "switch": number,
                "name": s.name,
                "ports": {str(p): name for p, name in sorted(s.ports.items())},
                "rules": len(s.rules),
                "away": number in c.away,
            }
            for number, s in sorted((c.switches | {n: s for n, (s, _) in c.away.items()}).items())
        ]
        links = [
            {
                "a": {"switch": a[0], "port": a[1]},
                "b": {"switch": b[0], "port": b[1]},
                "bits_a_to_b": load.get(a, 0.0),
                "bits_b_to_a": load.get(b, 0.0),
            }
            for a, b in sorted(graph.links.items())
            if a < b
        ]
        ranks: dict[int, list] = {}
        for job in c.jobs.values():
            for rank, mac in job.ranks.items():
                ranks.setdefault(mac, []).append({"job": job.number, "rank": rank})
        hosts = [
            {
                "address": to_mac(mac),
                "switch": at[0],
                "port": at[1],
                "ranks": ranks.get(mac, []),
                "bits_to_host": load.get(at, 0.0),
            }
            for mac, at in sorted(graph.hosts.items())
        ]
        lost = [
            {"a": {"switch": a[0], "port": a[1]}, "b": {"switch": b[0], "port": b[1]}}
            for a, b in c.discovery.lost_links()
        ]
        return _json({"switches": switches, "links": links, "lost_links": lost, "hosts": hosts})

    async def _jobs(self, _: Request) -> Response:
        return _json([job_to_json(job) for _, job in sorted(self.c.jobs.items())])

    def _known(self, number: str) -> Job:
        job = self.c.jobs.get(int(number))
        if job is None:
            raise Refused(404, f"there is no job {int(number)}")
        return job

    async def _job(self, _: Request, number: str) -> Response:
        job = self._known(number)
        entries = {
            str(s): sum(d.job == job.number for d in p.values()) for s, p in self.c.wanted.items()
        }
        located = self.c.network.located(job)
        missing = sorted(set(job.ranks) - set(located))
        return _json(job_to_json(job) | {"entries": entries, "not_located": missing})

    async def _located(self, _: Request, number: str) -> Response:
        """Cheap: it is asked all the time while a job starts."""
        job = self._known(number)
        refused = self.c.refused_rules(job.number)
        located = sorted(self.c.reached(job))
        return _json(
            {"located": located} | ({"refused": _no_room(job, refused)} if refused else {})
        )

    async def _path(self, request: Request, number: str) -> Response:
        """The links that a frame of this tag takes: what the rules say, followed by follow.py."""
        job = self._known(number)
        q = request.query
        name = q.get("function", "p2p").upper()
        if name not in Function.__members__:
            _bad(f"function is one of {', '.join(f.lower() for f in Function.__members__)}")
        source = _number(q.get("source", "0"), "source", 0, RANKS - 1)
        group = "group" in q
        to = _number(q.get("group", q.get("destination", "0")), "destination", 0, RANKS - 1)
        located = self.c.network.located(job)
        if source not in located:
            raise Refused(404, f"rank {source} of job {job.number} is at no known host")
        tag = Tag(job.number, Function[name], source, to, group)
        graph = self.c.network.graph
        frame = Frame(job.ranks[source], int(tag))
        journey = self._paths.journey(graph, self.c.wanted, located[source], frame)
        return _json(
            {
                "tag": tag.mac,
                "links": [
                    {"a": {"switch": s, "port": p}, "b": {"switch": graph.links[s, p][0]}}
                    for s, p in journey.crossed
                    if (s, p) in graph.links  # not lost since
                ],
                "receivers": [
                    {"switch": s, "port": p, "address": to_mac(mac)}
                    for s, p, mac in journey.delivered
                ],
            }
        )

    async def _metrics(self, _: Request) -> Response:
        c = self.c
        lines: list[str] = []

        def metric(name: str, kind: str, text: str, values: list[tuple[str, object]]) -> None:
            lines.append(f"# HELP hikyaku_sdn_{name} {text}")
            lines.append(f"# TYPE hikyaku_sdn_{name} {kind}")
            lines.extend(f"hikyaku_sdn_{name}{labels} {value}" for labels, value in values)

        graph = c.network.graph
        metric("switches", "gauge", "Connected switches.", [("", len(c.switches))])
        metric("switches_away", "gauge", "Without a connection, not dead.", [("", len(c.away))])
        metric("links", "gauge", "Links between switches.", [("", len(graph.links) // 2)])
        metric("hosts", "gauge", "Known hosts.", [("", len(graph.hosts))])
        metric("jobs", "gauge", "Registered jobs.", [("", len(c.jobs))])
        each = sorted(c.switches.items())
        for name, text, count in (
            ("rules", "Rules in a switch.", lambda s: len(s.rules)),
            ("groups", "Groups in a switch.", lambda s: len(s.groups)),
            ("refused_rules", "Rules that a switch has refused.", lambda s: len(s.refused)),
        ):
            metric(name, "gauge", text, [(f'{{switch="{n}"}}', count(s)) for n, s in each])
        ports = [(f'{{switch="{n}",port="{p}"', c4) for n, s in each for p, c4 in s.counts.items()]
        for i, what in enumerate(
            ("sent_bytes", "received_bytes", "sent_frames", "received_frames")
        ):
            values = [(f"{labels}}}", c4[i]) for labels, c4 in ports]
            metric(f"port_{what}_total", "counter", "As the port counts.", values)
        counts = sorted((c.counts + c.discovery.counts).items())
        metric(
            "events_total",
            "counter",
            "What has happened, by kind.",
            [(f'{{kind="{kind}"}}', n) for kind, n in counts],
        )
        return Response(200, "\n".join(lines) + "\n", TEXT)

    # ---- changing -----------------------------------------------------------------------------

    def _object(self, request: Request, allowed: set[str]) -> dict:
        try:
            data = json.loads(request.body or b"{}")
        except (ValueError, RecursionError):
            _bad("the body is no JSON")
        if not isinstance(data, dict):
            _bad("the body is no JSON object")
        if unknown := set(data) - allowed:
            _bad(
                f"unknown: {', '.join(sorted(unknown))[:200]}; known: {', '.join(sorted(allowed))}"
            )
        return data

    async def _applied(self, job: Job, undo: Callable[[], None], status: int = 200) -> Response:
        """When this comes back, the switches know; or what was asked for is taken back by @undo."""
        try:
            await self.c.settled()
        except TimeoutError:
            undo()
            raise Refused(
                503, "the switches do not take it in; fix: hikyaku sdn status says which is away"
            ) from None
        if refused := self.c.refused_rules(job.number):
            undo()
            raise Refused(507, _no_room(job, refused))
        # not the whole job: each of its many ranks may call
        return _json(job_to_json(job) if status == 201 else {"job": job.number}, status)

    def _undo(self, job: Job, undo: Callable[[], object]) -> Callable[[], None]:
        """@undo, unless the job has ended meanwhile."""

        def undone() -> None:
            if self.c.jobs.get(job.number) is job:
                undo()
                self.c.set_job(job)

        return undone

    def _end(self, job: Job) -> None:
        if self.c.jobs.get(job.number) is job:
            self.c.remove_job(job.number)

    async def _add_job(self, request: Request) -> Response:
        data = self._object(request, {"job", "name", "ranks", "groups", "lease"})
        name = data.get("name", "")
        if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
            _bad(f"name is a string of at most {MAX_NAME} printable characters")
        if "job" in data:
            number = _number(data["job"], "job", 1, JOBS - 1)
            if number in self.c.jobs:
                raise Refused(409, f"there is a job {number} already")
        else:
            free = set(range(1, JOBS)) - set(self.c.jobs)
            if not free:
                raise Refused(
                    409,
                    f"all {JOBS - 1} numbers of jobs are taken; fix: hikyaku sdn status lists "
                    "them, and hikyaku sdn forget JOB takes one away whose mpirun has ended",
                )
            number = min(free)
        groups = data.get("groups", {})
        if not isinstance(groups, dict) or len(groups) > RANKS:
            _bad("groups is an object, as {'1': [0, 2]}")
        members = {_number(g, "a group", 0, RANKS - 1): _members(m) for g, m in groups.items()}
        lease = _lease(data["lease"]) if "lease" in data else None
        job = Job(number, name, _ranks(data.get("ranks", {})), members, lease)
        self.c.set_job(job)
        return await self._applied(job, lambda: self._end(job), 201)

    async def _remove_job(self, _: Request, number: str) -> Response:
        job = self._known(number)
        self.c.remove_job(job.number)
        return await self._applied(job, lambda: None)

    async def _set_ranks(self, request: Request, number: str) -> Response:
        """Adds to the ranks that are known; later ones win."""
        job = self._known(number)
        try:
            new = _ranks(json.loads(request.body))
        except (ValueError, RecursionError):
            _bad("the body is no JSON")
        old = {r: job.ranks.get(r) for r in new}
        job.ranks |= new
        self.c.set_job(job)
        return await self._applied(job, self._undo(job, lambda: _restore(job.ranks, new, old)))

    async def _set_lease(self, request: Request, number: str) -> Response:
        """From now on. The switches need not know."""
        job = self._known(number)
        try:
            lease = _lease(json.loads(request.body))
        except (ValueError, RecursionError):
            _bad("the body is no JSON")
        if lease == job.lease:
            self.c.renew(job)
        else:
            job.lease = lease
            self.c.set_job(job)
        return _json({"job": job.number})

    async def _set_group(self, request: Request, number: str, group: str) -> Response:
        job = self._known(number)
        try:
            members = _members(json.loads(request.body))
        except (ValueError, RecursionError):
            _bad("the body is no JSON")
        new = {_number(group, "a group", 0, RANKS - 1): members}
        old = {g: job.groups.get(g) for g in new}
        job.groups |= new
        self.c.set_job(job)
        return await self._applied(job, self._undo(job, lambda: _restore(job.groups, new, old)))


def _restore(now: dict, new: dict, old: dict) -> None:
    """Takes @new out of @now, but for what somebody else has changed since."""
    for key, value in new.items():
        if now.get(key) != value:
            continue
        if old[key] is None:
            del now[key]
        else:
            now[key] = old[key]


def _no_room(job: Job, refused: dict[int, dict[Key, str]]) -> str:
    """Short: a rank prints it, and has 243 bytes for it (tagger/ask.h)."""
    switch, rules = min(refused.items())
    others = f", {len(refused) - 1} others too" if len(refused) > 1 else ""
    return (
        f"switch {switch} refused {len(rules)} rules of job {job.number} "
        f"({next(iter(rules.values()))}){others}; fix: wait until other jobs have ended, or use "
        "switches with larger flow tables"
    )


def _json(data: object, status: int = 200) -> Response:
    return Response(status, json.dumps(data) + "\n")
