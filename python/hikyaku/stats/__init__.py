# SPDX-License-Identifier: BSD-3-Clause
"""Counters of ranks: from daemons (hostd/daemon_stats.c), and from ranks without a daemon.

A rank's counters are its own claim.

    ask.py         asks all daemons, and ranks without one
    inline.py      asks ranks of mode inline
    counters.py    the names and meanings of the counters
    prometheus.py  the counters as Prometheus' metrics
    exposition.py  Prometheus' text format
    tables.py      totals since the start, and rates between two answers
"""

from dataclasses import dataclass, field


@dataclass
class Sample:
    """The answers of all daemons and of ranks without one, and the complaints about missing
    answers."""

    daemons: list[dict] = field(default_factory=list)
    ranks: list[dict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def ranks(daemon: dict) -> list[dict]:
    return [slot for slot in daemon["slots"] if slot["state"] != "free"]
