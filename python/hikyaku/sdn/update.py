# SPDX-License-Identifier: BSD-3-Clause
"""The state of the controller, and the update that writes it into the switches.

DESIGN NOTES. Problem: rules change on many switches while frames are under way, and no frame may be
lost or circle. Approach: make before break, with a barrier on every switch between two steps.

    1. Add new groups and new rules everywhere.
    2. Replace rules whose action changes. A tree that moves is first cut down to the part that the
       old and the new tree share, since parts of both could make a loop. Then it grows.
    3. Remove unwanted rules and groups.

A refused rule is sent again when a rule has been removed from its switch, and after a while.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator

from . import exact
from .balance import Balancer
from .disconnected import assumed
from .discovery import Discovery
from .hosts import EXPIRY, RIVAL_S, port_name
from .leases import Leases
from .names import Names
from .network import Job, Network
from .noise import Noise
from .openflow import Gone
from .parts import Interface, Lost, Separation, separation
from .program import compute
from .rules import Key, Program
from .store import Store
from .strays import Strays
from .switch import Switch
from .tag import to_mac

CALM = 0.05  # seconds between two checks while the network starts
WAIT_FOR_SWITCHES = 10.0  # seconds that a new controller waits for the switches of the one before
CONFIRM_S = 0.1  # seconds in which a rank that registers may be heard at another port
RETRY_FIRST, RETRY_MAX = 1.0, 64.0  # seconds until a refused rule is sent again
Port = tuple[int, int]  # switch and port
Link = tuple[Port, Port]
_NUMBER = re.compile(r"\bswitch (\d+)(?: port (\d+))?\b")


class Updates:
    """The state of the controller. Writes it into the switches, and into the store."""

    def __init__(
        self,
        store: Store,
        say: Callable[[str], None],
        *,
        clock=time.monotonic,
        host_expiry: float = EXPIRY,
        names: Names | None = None,
        whole: bool = False,
        repair: str = "",
    ):
        """@repair: the command that repairs the links whose names follow it, if there is one."""
        self.network = Network()
        self.store = store
        self.clock = clock
        self.events: deque[tuple[float, str]] = deque(maxlen=200)
        self._print = say
        self.discovery = Discovery(self.network.graph, store.key(), self.say, expiry=host_expiry)
        self.names = names or Names()
        self.repair = repair
        self.separated: Separation | None = None  # as it was reported
        self._look_for_parts = False  # the network has changed since
        self._elsewhere: set[tuple[int, tuple[int, int]]] = set()  # reported: address, port
        self._registered: dict[int, float] = {}  # by address of a rank: when it was told to us
        self.noise = Noise()
        self.balancer = Balancer()
        self.network.quiet = self.noise.quiet
        self.switches: dict[int, Switch] = {}
        # switches that forward without a connection: last state, and time
        self.disconnected: dict[int, tuple[Switch, float]] = {}
        self._passed_by: set[int] = set()  # those that have been disconnected for long
        self._taking_over: dict[int, float] = {}  # switches without writes yet, with their time
        self.refused: dict[str, str] = {}  # unusable switches, with the reasons
        self.jobs: dict[int, Job] = {}
        self.counts: Counter[str] = Counter()
        self.lost: asyncio.Future | None = None  # the reason for which the controller must end
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._unsaved = False
        self.masked: dict[int, Program] = {}  # as computed; wanted is this, or its exact form
        self._news_at: float | None = None  # since when an update is due
        self.wanted: dict[int, Program] = {}
        self._routed: set[Link] = set()  # the links by which the last update routed
        self._written: dict[int, dict[int, int]] = {}  # by job: ranks with rules, and addresses
        self._started = self._incomplete = clock()
        self.jobs, self.network.graph.hosts, self._assumed, self._links = store.load()
        self.discovery.assume(self._assumed, self._links)
        self.disconnected = {
            s: (Switch(s, None), self._started) for s in self.network.graph.disconnected
        }
        # for rules by whole addresses, exact.py; None: masked rules
        self.strays = Strays(self.network, self.jobs) if whole else None
        self.leases = Leases(time.monotonic())
        for job in self.jobs.values():
            self.renew(job)

    def switch_name(self, number: int) -> str:
        """The name of switch @number, if no other switch has the same one."""
        known = [*self.switches.values(), *(switch for switch, _ in self.disconnected.values())]
        own = [switch.name for switch in known if switch.number == number]
        if own and all(s.name != own[0] for s in known if s.number != number):
            return own[0]
        return f"switch {number}"

    def named(self, text: str) -> str:
        """@text, in which switches and links get their names: `switch 3 port 2` becomes
        `leaf0 port 2 (leaf0-spine1)`."""

        def name(match: re.Match) -> str:
            number = int(match[1])
            if not match[2]:
                return self.switch_name(number)
            link = self.names.link((number, int(match[2])))
            return f"{self.switch_name(number)} port {match[2]}" + (f" ({link})" if link else "")

        return _NUMBER.sub(name, text)

    def say(self, text: str) -> None:
        """Reports @text, with names (named())."""
        text = self.named(text)
        self.events.append((time.time(), text))
        self._print(text)

    # ---- the update ---------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._news_at is None:
            self._news_at = self.clock()
        self._news.set()
        self._idle.clear()

    def _save(self) -> None:
        """Marks the state as changed; the next update writes it once."""
        self._unsaved = True

    def _unkept(self) -> str | None:
        """The state, if it has changed since this was called."""
        graph = self.network.graph
        if not self._unsaved and graph.links == self._links:
            return None
        self._unsaved, self._links = False, dict(graph.links)
        return self.store.state_text(self.jobs, graph.hosts, self._remembered(), graph.links)

    @contextlib.contextmanager
    def _saving(self) -> Iterator[None]:
        """If the state is not written in this block, the next update tries again."""
        try:
            yield
        except OSError as bad:
            self._save()
            self.say(f"cannot write {bad.filename or self.store.directory}: {bad.strerror}")
        except asyncio.CancelledError:
            self._save()
            raise

    def keep(self) -> None:
        """Writes the changed state into the directory."""
        with self._saving():
            if text := self._unkept():
                self.store.save(text)

    async def _keep(self) -> None:
        """Like keep(). A disk may take long. Meanwhile others are answered."""
        with self._saving():
            if text := self._unkept():
                await asyncio.to_thread(self.store.save, text)

    def _remembered(self) -> set[int]:
        """The switches that the next controller waits for, including those that this one still
        expects."""
        return self.switches.keys() | self.disconnected.keys()

    def is_settled(self) -> bool:
        return self._idle.is_set()

    async def settled(self, limit: float = 20) -> None:
        """Returns when the switches have all rules."""
        async with asyncio.timeout(limit):
            await self._idle.wait()

    async def _updating(self) -> None:
        pause = RETRY_FIRST
        while True:
            again = any(s.refused for s in self.switches.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if again else None):
                    await self._news.wait()
            pause = RETRY_FIRST if self._news.is_set() else min(2 * pause, RETRY_MAX)
            while self._starting():
                await asyncio.sleep(CALM)
            self._news.clear()
            try:
                if await self._update():
                    self._news.set()
                    await asyncio.sleep(CALM)
            except Gone as gone:
                self.say(str(gone))
                self._news.set()
                await asyncio.sleep(CALM)
            if not self._news.is_set() and not self._taking_over:
                self._idle.set()

    def _starting(self) -> bool:
        """Must the first update wait? Ports may turn out to be links, and switches of the earlier
        controller may still connect."""
        if self.wanted:
            return False
        now = self.clock()
        waits = (self.disconnected or self._taking_over) and now - self._started < WAIT_FOR_SWITCHES
        return bool(waits or self.discovery.undecided(now))

    async def _update(self) -> bool:
        """Updates all switches once. Returns whether refused rules may fit now."""
        await self._keep()
        for number in self.disconnected.keys() - self.network.frozen.keys():
            self.network.frozen[number] = assumed(self.network.graph, self.network.standing, number)
        self._compute()
        self.counts["updates"] += 1
        located = {job.number: self._to_be_reached(job) for job in self.jobs.values()}
        switches = [
            s
            for s in self.switches.values()
            if s.number in self.wanted and s.number not in self._taking_over
        ]
        links = {(a, b) for a, b in self.network.graph.links.items() if a < b}
        changes = [n for s in switches if (n := s.changes(self.wanted[s.number]))]
        since, self._news_at = self._news_at, None

        async def everywhere(step: Callable[[Switch, Program], bool]) -> None:
            await self._barriers([s for s in switches if step(s, self.wanted[s.number])])

        await everywhere(Switch.prepare)
        await everywhere(Switch.add)
        await everywhere(Switch.change)
        held = {
            key: None if s.number in self._taking_over else s.name
            for s in self.switches.values()
            for key in s.uncut(self.wanted.get(s.number, {}))
        }
        await everywhere(lambda switch, program: switch.grow(program, held))
        await everywhere(Switch.remove)
        again = [s.answered(self.wanted[s.number]) for s in switches]
        if not self._taking_over:
            self._written = located
        self._say_rerouted(links, changes, since)
        self._look_for_parts = True
        return any(again)

    def _compute(self) -> None:
        """Computes the rules that the switches shall have. Disconnected ones keep theirs."""
        jobs = self.jobs.values()
        found = compute(self.network, jobs)
        frozen = {s: p for s, p in self.network.frozen.items() if s in found}
        self.masked = self.wanted = found | frozen
        if self.strays:
            self.wanted = exact.compiled(self.network, jobs, self.masked, self.strays.used) | frozen

    def _say_rerouted(self, links: set[Link], changes: list[int], since: float | None) -> None:
        """Reports a finished update that was due to a link. @changes: rules, by switch."""
        before, self._routed = self._routed, links
        if not before or not changes or since is None:
            return
        took = f"{sum(changes)} rules of {len(changes)} switches changed, in "
        took += f"{(self.clock() - since) * 1000:.0f} ms"
        gone = before - links
        last = {(a, b) for a, b in gone if not self.network.graph.reaches(a[0], b[0])}
        for text, some in (
            ("traffic avoids", gone - last),
            ("no path replaces", last),
            ("traffic may use", links - before),
        ):
            if some:
                names = sorted(self.link_name(*each) for each in some)
                self.say(f"{text} {', '.join(names)}: {took}")

    def link_name(self, a: Port, b: Port) -> str:
        """A link without a name of its own has that of its second end, or of its first one."""
        return self.names.link(b) or self.names.link(a) or f"{port_name(a)} to {port_name(b)}"

    def separation(self, only: Collection[int] | None = None) -> Separation | None:
        """The parts between which no path is left, by the known links and hosts. @only: between the
        interfaces with these addresses, called by their full names."""
        graph = self.network.graph
        lost = [Lost(a[0], b[0], self.link_name(a, b)) for a, b in self.discovery.lost_links()]
        interfaces = []
        for mac, at in graph.hosts.items():
            switch, port = at
            if only is not None and mac not in only:
                continue
            if switch not in graph.ports:  # not seen since the last controller
                continue
            up = port in graph.ports[switch]
            name = (self.names.name if only is None else self.names.full)(mac) or to_mac(mac)
            own = self.names.interface(mac) or to_mac(mac)
            interfaces.append(Interface(name, own, switch if up else at))
            if not up:
                lost.append(Lost(at, switch, self.names.link(at) or port_name(at)))
        return separation(interfaces, ((a[0], b[0]) for a, b in graph.links.items()), lost)

    def _say_separated(self) -> None:
        """To be called when all links are known."""
        self._look_for_parts = False
        found = self.separation()
        if found and found != self.separated:
            self.say(f"{found}; fix: {found.fix(self.repair)}")
        elif self.separated and not found:
            self.say("all nodes reach each other again")
        self.separated = found

    async def _barriers(self, switches: list[Switch]) -> None:
        """Waits until all switches have done what was sent. One that does not confirm is
        disconnected, since its state is unknown; then everything is computed again."""
        results = await asyncio.gather(
            *(s.channel.barrier() for s in switches), return_exceptions=True
        )
        gone = None
        for switch, result in zip(switches, results, strict=True):
            if isinstance(result, Gone):
                switch.channel.abort(str(result))
                gone = result
            elif isinstance(result, BaseException):
                raise result
        if gone:
            raise gone

    # ---- jobs ---------------------------------------------------------------------------------

    def refused_rules(self, job: int) -> dict[int, dict[Key, str]]:
        """The refused rules of @job, by switch, with the reasons, after the last complete
        update."""
        found = {s.number: s.refused_of(job, self.wanted) for s in self.switches.values()}
        return {switch: keys for switch, keys in found.items() if keys}

    def _to_be_reached(self, job: Job) -> dict[int, int]:
        """The ranks, with their addresses, that have rules after this update. A rank at a
        disconnected switch has only rules from before."""
        before = self._written.get(job.number, {})
        return {
            rank: job.ranks[rank]
            for rank, (switch, _) in self.network.located(job).items()
            if switch not in self.disconnected or before.get(rank) == job.ranks[rank]
        }

    def reached(self, job: Job) -> set[int]:
        """The ranks whose host is known and whose rules are in the switches. A rank that has just
        registered must be known for CONFIRM_S, in which it shows itself to its switch."""
        written = self._written.get(job.number, {})
        since = self.clock() - CONFIRM_S
        new = {mac for mac, at in self._registered.items() if at > since}
        located = self.network.located(job)
        return {r for r in located if written.get(r) == job.ranks[r] and job.ranks[r] not in new}

    def rivals(self, mac: int) -> str:
        """The reason for which no rank may have the address @mac now, or an empty text."""
        rivals = self.discovery.hosts.rivals(mac, self.clock())
        at = self.network.graph.hosts.get(mac)
        if not rivals or at is None:
            return ""
        heard = (at, *rivals)[:3]
        ports = ", ".join(f"{self.switch_name(number)} port {port}" for number, port in heard)
        return (
            f"{to_mac(mac)} was heard at {ports}, and one of them may be forged; fix: take the "
            f"wrong one down, wait {RIVAL_S:g} s, or bind it by the option --hosts of `sdn run` "
            "(docs/sdn.md)"
        )

    def set_job(self, job: Job) -> None:
        self.jobs[job.number] = job
        ranks = {mac for each in self.jobs.values() for mac in each.ranks.values()}
        now = self.clock()
        self._registered = {mac: self._registered.get(mac, now) for mac in ranks}
        self.renew(job)
        self._save()
        self._changed()

    def renew(self, job: Job) -> None:
        if job.lease is not None:
            self.leases.renew(job.number, job.lease)

    def remove_job(self, number: int) -> None:
        ranks = set(self.jobs.pop(number).ranks.values())
        self._elsewhere = {each for each in self._elsewhere if each[0] not in ranks}
        self.leases.drop(number)
        if self.strays:
            self.strays.forget(number)
        self._save()
        self._changed()
