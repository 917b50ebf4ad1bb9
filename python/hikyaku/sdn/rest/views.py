# SPDX-License-Identifier: BSD-3-Clause
"""The calls that only read: status, topology, jobs, and the path of a frame."""

from collections import defaultdict
from difflib import get_close_matches

from aiohttp import web

from ..controller import Controller
from ..exact import count
from ..follow import Frame
from ..network import Job
from ..parts import Separation
from ..paths import Paths
from ..rules import Key
from ..store import job_to_json
from ..tag import Function, NoTag, Tag, from_mac, to_mac
from .forms import Refused, rank

Port = tuple[int, int]  # switch, port


def known_job(controller: Controller, request: web.Request) -> Job:
    """The job that the path of @request names."""
    number = int(request.match_info["job"])
    if number not in controller.jobs:
        jobs = ", ".join(map(str, sorted(controller.jobs)))
        none = "start one with --tag" if request.method != "DELETE" else "nothing is to be done"
        fix = f"use one of: {jobs}" if jobs else f"none is registered: {none}"
        raise Refused(404, f"there is no job {number}; fix: {fix}")
    return controller.jobs[number]


def refusal(controller: Controller, job: Job, refused: dict[int, dict[Key, str]]) -> str:
    """An error text for rules that switches refused, short enough for a rank's message.

    A message has 243 bytes (sdn/tagger/socket.h).
    """
    switch, rules = min(refused.items())
    others = f", {len(refused) - 1} others too" if len(refused) > 1 else ""
    return (
        f"{controller.switch_name(switch)} refused {len(rules)} rules of job {job.number} "
        f"({next(iter(rules.values()))}){others}; fix: wait until other jobs have ended, or use "
        "switches with larger flow tables"
    )


class Views:
    def __init__(self, controller: Controller):
        self.c = controller
        self._paths = Paths()

    async def status(self, _: web.Request) -> web.Response:
        c = self.c
        switches = {
            str(s.number): {
                "name": c.switch_name(s.number),
                "rules": len(s.rules),
                **{kind: n for kind, n in count(s.rules)._asdict().items() if kind != "groups"},
                "groups": len(s.groups),
                "refused": len(s.refused),
            }
            for s in c.switches.values()
        }
        return web.json_response(
            {
                "switches": switches,
                "disconnected": sorted(c.disconnected),
                "settled": c.is_settled(),
                "refused_switches": c.refused,
                "separated": self._separated(self.c.separated),
                "hosts": len(c.network.graph.hosts),
                "links": len(c.network.graph.links) // 2,
                "jobs": len(c.jobs),
                "counts": dict(c.counts + c.discovery.counts),
                "events": [{"time": when, "text": text} for when, text in c.events],
            }
        )

    def _separated(self, found: Separation | None) -> dict | None:
        """The parts between which no path is left; None: all nodes reach each other."""
        if not found:
            return None
        text = self.c.named(f"{found}; fix: {found.fix(self.c.repair)}")
        return {"parts": found.parts, "links": found.links, "text": text}

    async def topology(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "switches": self._switches(),
                "links": self._links(),
                "lost_links": [self._link(*ends) for ends in self.c.discovery.lost_links()],
                "hosts": self._hosts(),
            }
        )

    def _switches(self) -> list[dict]:
        c = self.c
        switches = c.switches | {number: switch for number, (switch, _) in c.disconnected.items()}
        return [
            {
                "switch": number,
                "name": c.switch_name(number),
                "ports": {str(p): name for p, name in sorted(s.ports.items())},
                "rules": len(s.rules),
                "disconnected": number in c.disconnected,
            }
            for number, s in sorted(switches.items())
        ]

    def _end(self, port: Port) -> dict:
        """A port, with the name of its switch."""
        number, at = port
        return {"switch": number, "switch_name": self.c.switch_name(number), "port": at}

    def _node(self, mac: int, at: Port) -> dict:
        """The host with address @mac at @at, with its names."""
        names = self.c.names
        return {
            "address": to_mac(mac),
            "name": names.name(mac),
            "interface": names.interface(mac),
            **self._end(at),
            "link": names.link(at),
        }

    def _link(self, a: Port, b: Port) -> dict:
        ends = [self._end(port) | {"name": self.c.names.link(port)} for port in (a, b)]
        return {"name": self.c.link_name(a, b), "a": ends[0], "b": ends[1]}

    def _links(self) -> list[dict]:
        graph, load = self.c.network.graph, self.c.network.load
        return [
            {
                **self._link(a, b),
                "bits_a_to_b": load.get(a, 0.0),
                "bits_b_to_a": load.get(b, 0.0),
            }
            for a, b in sorted(graph.links.items())
            if a < b
        ]

    def _up(self, at: Port) -> bool:
        return at[1] in self.c.network.graph.ports.get(at[0], ())

    def _hosts(self) -> list[dict]:
        c = self.c
        ranks: dict[int, list[dict]] = defaultdict(list)
        for job in c.jobs.values():
            for number, mac in job.ranks.items():
                ranks[mac].append({"job": job.number, "rank": number})
        return [
            {
                **self._node(mac, at),
                "up": self._up(at),
                "ranks": ranks.get(mac, []),
                "bits_to_host": c.network.load.get(at, 0.0),
            }
            for mac, at in sorted(c.network.graph.hosts.items())
        ]

    async def functions(self, _: web.Request) -> web.Response:
        """The functions of tags, by their names in a path call."""
        return web.json_response([each.name.lower() for each in Function])

    async def jobs(self, _: web.Request) -> web.Response:
        return web.json_response([job_to_json(job) for _, job in sorted(self.c.jobs.items())])

    async def job(self, request: web.Request) -> web.Response:
        job = known_job(self.c, request)
        entries = {
            str(s): sum(d.job == job.number for d in p.values()) for s, p in self.c.wanted.items()
        }
        missing = sorted(set(job.ranks) - set(self.c.network.located(job)))
        return web.json_response(job_to_json(job) | {"entries": entries, "not_located": missing})

    async def located(self, request: web.Request) -> web.Response:
        """The ranks that are reached. Cheap, since ranks ask often while a job starts."""
        job = known_job(self.c, request)
        answer: dict = {"located": sorted(self.c.reached(job))}
        if refused := self.c.refused_rules(job.number):
            answer["refused"] = refusal(self.c, job, refused)
        if disputed := {
            str(r): self.c.rivals(mac)
            for r, mac in job.ranks.items()
            if mac in self.c.network.disputed
        }:
            answer["disputed"] = disputed
        return web.json_response(answer)

    async def path(self, request: web.Request) -> web.Response:
        """The links that a frame with a tag takes, by following the rules (follow.py)."""
        job, query = known_job(self.c, request), request.query
        name = query.get("function", "p2p").upper()
        if name not in Function.__members__:
            names = ", ".join(each.lower() for each in Function.__members__)
            raise Refused(
                400, f"there is no function '{name[:40].lower()}'; fix: use one of {names}"
            )
        source = rank(query.get("source", "0"), "source")
        group = "group" in query
        to = rank(query.get("group", query.get("destination", "0")), "destination")
        located = self.c.network.located(job)
        if source not in located:
            raise Refused(404, f"the host of rank {source} of job {job.number} is unknown")
        tag = Tag(job.number, Function[name], source, to, group)
        frame = Frame(job.ranks[source], int(tag))
        return web.json_response({"tag": tag.mac} | self._way(located[source], frame))

    async def untagged_path(self, request: web.Request) -> web.Response:
        """The links that a frame from one host to another takes, if it has no tag."""
        hosts = self.c.network.graph.hosts
        source, destination = (self._address(request, end) for end in ("source", "destination"))
        if source not in hosts:
            raise Refused(404, f"the host with address {to_mac(source)} is unknown")
        way = self._way(hosts[source], Frame(source, destination))
        there = hosts.get(destination)
        arrives = separated = None
        if there is not None:
            arrives = any(self._end(there).items() <= each.items() for each in way["receivers"])
        if arrives is False:
            separated = self._separated(self.c.separation({source, destination}))
        return web.json_response(way | {"arrives": arrives, "separated": separated})

    def _address(self, request: web.Request, what: str) -> int:
        """The host's address that the query of @request gives as @what: itself, or by a name."""
        text = request.query.get(what, "")
        try:
            return from_mac(text)
        except NoTag as bad:
            names = self.c.names
            named = [mac for mac in self.c.network.graph.hosts if names.matches(mac, text)]
            if len(named) == 1:
                return named[0]
            if named:
                one = ", ".join(f"{names.full(mac)} ({to_mac(mac)})" for mac in sorted(named))
                said = f"'{text}' has {len(named)} addresses; fix: give one of {one}"
            else:
                known = sorted({names.full(mac) for mac in self.c.network.graph.hosts} - {""})
                near = get_close_matches(text, known, n=3, cutoff=0.7)
                fix = " or ".join(near) or "a name or address that hikyaku sdn status shows"
                said = f"{bad}, nor a host's name; fix: give {fix}"
            raise Refused(400, f"{what}: {said}") from None

    def _way(self, at: Port, frame: Frame) -> dict:
        """The way of @frame, which a host at @at sends. Its links are in the order in which the
        frame crosses them, each with the number of its hop. Hosts that get the frame although it is
        for another one are receivers, too: switches flood a frame whose host they do not know."""
        graph = self.c.network.graph
        journey = self._paths.journey(graph, self.c.masked, at, frame)
        links, hops = [], {at[0]: 0}
        for end in journey.crossed:
            if end not in graph.links:  # it has been lost since
                continue
            other = graph.links[end]
            hop = hops.get(end[0], 0) + 1
            hops.setdefault(other[0], hop)
            name = self.c.link_name(*sorted((end, other)))
            links.append({**self._link(end, other), "name": name, "hop": hop})
        at_port = {there: mac for mac, there in graph.hosts.items()}
        receivers = []
        for switch, port, mac in journey.delivered:
            there = switch, port
            if self._up(there):
                here = mac if graph.hosts.get(mac) == there else at_port.get(there, mac)
                receivers.append(self._node(here, there))
        return {"source": self._node(frame.src, at), "links": links, "receivers": receivers}
