# SPDX-License-Identifier: BSD-3-Clause
"""What daemons answer of their ranks (host/daemon_stats.c), and ranks that have none of
themselves, for programs and for people.

What stands there of a rank is its own word.

  inline.py      asks ranks of mode inline
  prometheus.py  the text exposition format
  tables.py      totals since the start, and rates between two answers
"""

from dataclasses import dataclass, field


@dataclass
class Sample:
    """The answers of all daemons, of ranks without one, and what those that did not answer have
    to say."""

    daemons: list[dict] = field(default_factory=list)
    ranks: list[dict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def ranks(daemon: dict) -> list[dict]:
    return [slot for slot in daemon["slots"] if slot["state"] != "free"]
