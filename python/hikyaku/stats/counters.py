# SPDX-License-Identifier: BSD-3-Clause
"""The counters of ranks and daemons: their names, which JSON and Prometheus share, and meanings."""

import functools
import json

from ..checkout import built


@functools.cache
def defined(*groups: str) -> dict[str, tuple[str, str]]:
    """The kind and the meaning of each counter of @groups, by its name. The build writes them from
    their one definition (hikyaku/counters.h, hostd/counters.h)."""
    definitions = json.loads(built("src/hostd/counters.json").read_text())
    return {
        of["name"]: (of["kind"], of["help"] + ".") for of in definitions if of["group"] in groups
    }


def rank_counters() -> dict[str, tuple[str, str]]:
    """The counters in the memory of a rank."""
    return defined("engine", "worker", "queue")
