# SPDX-License-Identifier: BSD-3-Clause
"""Leases of jobs: a job without renewal is removed. Pure."""

STEP_MAX = 5.0  # seconds


class Leases:
    """Time counts in steps of at most STEP_MAX: while the controller was stopped, it received no
    renewals."""

    def __init__(self, now: float):
        self._left: dict[int, float] = {}  # seconds, of each job
        self._then = now

    def renew(self, job: int, seconds: float) -> None:
        self._left[job] = seconds

    def drop(self, job: int) -> None:
        self._left.pop(job, None)

    def expired(self, now: float) -> list[int]:
        """The jobs whose lease is over at @now, by a monotonic clock."""
        step = min(now - self._then, STEP_MAX)
        self._then = now
        for job in self._left:
            self._left[job] -= step
        return [job for job, left in self._left.items() if left <= 0]
