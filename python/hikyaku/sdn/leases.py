# SPDX-License-Identifier: BSD-3-Clause
"""Jobs go when nobody has said for a while that they still run. Pure."""

STEP_MAX = 5.0  # seconds


class Leases:
    """Time counts in steps of STEP_MAX at most: a controller that was stopped for long has heard
    nobody, and that is no job's fault."""

    def __init__(self, now: float):
        self._left: dict[int, float] = {}  # seconds, of each job
        self._then = now

    def renew(self, job: int, seconds: float) -> None:
        self._left[job] = seconds

    def drop(self, job: int) -> None:
        self._left.pop(job, None)

    def expired(self, now: float) -> list[int]:
        """Those whose time is over at @now, of a clock that never jumps back."""
        step = min(now - self._then, STEP_MAX)
        self._then = now
        for job in self._left:
            self._left[job] -= step
        return [job for job, left in self._left.items() if left <= 0]
