# SPDX-License-Identifier: BSD-3-Clause
"""The tags in use, for rules by whole addresses (exact.py), and frames whose tag has no rule yet.

Pure. A tag is in use from its first frame until its job ends. That frame, and those that arrive
before the switches have the rules, are delivered by the controller. A token bucket for each port
limits these; more are dropped, and their sender repeats them.
"""

from .network import Job, Network, Port
from .noise import Noise
from .tag import NoTag, Tag, to_mac

Copy = tuple[Port, bytes]  # a frame, and the port by which it leaves for its receiver


class Strays:
    def __init__(self, network: Network, jobs: dict[int, Job]):
        self.used: dict[int, set[int]] = {}  # tags, by job
        self._network, self._jobs = network, jobs
        self._limit = Noise()

    def know(self, tags: set[tuple[int, int]]) -> None:
        """Adds what the rules of an earlier controller have in use: jobs and tags."""
        for job, address in tags:
            if job in self._jobs:
                self.used.setdefault(job, set()).add(address)

    def forget(self, job: int) -> None:
        self.used.pop(job, None)

    def receive(self, port: Port, frame: bytes, now: float) -> tuple[bool, list[Copy]]:
        """A frame without a rule came into @port. Returns whether its tag is new, and the copies
        to send. Frames that no rank of a job has sent, or that nobody gets, are dropped."""
        address, source = (int.from_bytes(frame[i : i + 6], "big") for i in (0, 6))
        try:
            tag = Tag.parse(to_mac(address))
        except NoTag:
            return False, []
        job = self._jobs.get(tag.job)
        if job is None or job.ranks.get(tag.source) != source:
            return False, []
        located = self._network.located(job)
        ranks = job.members(tag.destination) if tag.group else {tag.destination}
        to = {job.ranks[r]: located[r] for r in ranks if r in located and job.ranks[r] != source}
        if not to:
            return False, []
        tags = self.used.setdefault(tag.job, set())
        new = address not in tags
        tags.add(address)
        if not self._limit.admits(port, now):
            return new, []
        return new, [(at, mac.to_bytes(6, "big") + frame[6:]) for mac, at in sorted(to.items())]
