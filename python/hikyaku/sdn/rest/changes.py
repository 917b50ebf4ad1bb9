# SPDX-License-Identifier: BSD-3-Clause
"""The calls that change jobs.

Each answers when the switches have the new rules. If a switch refuses them, or does not answer, the
change is undone before the error is returned.
"""

import shlex
from collections.abc import Callable

from aiohttp import web

from ..controller import Controller
from ..network import Job
from ..store import job_to_json
from ..tag import JOBS
from .forms import LEASE, MEMBERS, NEW_JOB, RANKS_BODY, Refused, body, rank
from .views import known_job, refusal


class Changes:
    def __init__(self, controller: Controller):
        self.c = controller
        # the options that name this controller in commands
        self._which = f"--state {shlex.quote(str(controller.store.directory))}"

    async def _applied(self, job: Job, undo: Callable[[], None], status: int = 200) -> web.Response:
        """Waits until the switches have the new rules; on failure calls @undo and refuses."""
        try:
            await self.c.settled()
        except TimeoutError:
            undo()
            raise Refused(
                503,
                "the switches do not answer; fix: see which are disconnected: "
                f"hikyaku sdn status {self._which}",
            ) from None
        if refused := self.c.refused_rules(job.number):
            undo()
            raise Refused(507, refusal(self.c, job, refused))
        # not the whole job: each of its many ranks may call
        answer = job_to_json(job) if status == 201 else {"job": job.number}
        return web.json_response(answer, status=status)

    def _check_places(self, ranks: dict[int, int]) -> None:
        """Refuses addresses that were heard at two ports."""
        for mac in sorted(set(ranks.values())):
            if why := self.c.rivals(mac):
                raise Refused(409, why)

    async def _merged(self, job: Job, into: dict, new: dict) -> web.Response:
        """Adds @new to @into, which is a part of @job; later values replace earlier ones."""
        old = {key: into.get(key) for key in new}
        into |= new
        self.c.set_job(job)

        def undo() -> None:
            if self.c.jobs.get(job.number) is job:  # else it has ended meanwhile
                _restore(into, new, old)
                self.c.set_job(job)

        return await self._applied(job, undo)

    async def add_job(self, request: web.Request) -> web.Response:
        form = await body(request, NEW_JOB)
        self._check_places(form.ranks)
        if form.job in self.c.jobs:
            raise Refused(409, f"there is a job {form.job} already")
        free = set(range(1, JOBS)) - set(self.c.jobs)
        if not free:
            raise Refused(
                409,
                f"all {JOBS - 1} numbers of jobs are in use; fix: end a job, or remove one whose "
                f"mpirun has ended, by `hikyaku sdn forget {self._which} JOB`; to list them: "
                f"hikyaku sdn status {self._which}",
            )
        job = Job(form.job or min(free), form.name, form.ranks, form.groups, form.lease)
        self.c.set_job(job)

        def undo() -> None:
            if self.c.jobs.get(job.number) is job:
                self.c.remove_job(job.number)

        return await self._applied(job, undo, 201)

    async def remove_job(self, request: web.Request) -> web.Response:
        job = known_job(self.c, request)
        self.c.remove_job(job.number)
        return await self._applied(job, lambda: None)

    async def set_ranks(self, request: web.Request) -> web.Response:
        job = known_job(self.c, request)
        ranks = await body(request, RANKS_BODY)
        self._check_places({r: mac for r, mac in ranks.items() if job.ranks.get(r) != mac})
        return await self._merged(job, job.ranks, ranks)

    async def set_group(self, request: web.Request) -> web.Response:
        job = known_job(self.c, request)
        number = rank(request.match_info["group"], "a group")
        return await self._merged(job, job.groups, {number: await body(request, MEMBERS)})

    async def set_lease(self, request: web.Request) -> web.Response:
        """Sets or renews the lease. The switches are not concerned."""
        job = known_job(self.c, request)
        lease = await body(request, LEASE)
        if lease == job.lease:
            self.c.renew(job)
        else:
            job.lease = lease
            self.c.set_job(job)
        return web.json_response({"job": job.number})


def _restore(now: dict, new: dict, old: dict) -> None:
    """Replaces the values of @new in @now by those of @old, unless they have changed again."""
    for key, value in new.items():
        if now.get(key) != value:
            continue
        if old[key] is None:
            del now[key]
        else:
            now[key] = old[key]
