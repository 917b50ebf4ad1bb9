# SPDX-License-Identifier: BSD-3-Clause
"""The slots of a daemon in a lab."""

import json

from execute import execute
from hikyaku.lab import Lab


def slots_of(lab: Lab, hikyaku: list[str], node: str, name: str) -> list[str]:
    """The states of the slots of daemon @name of @node, from `hikyaku daemon status`."""
    argv = [*hikyaku, "daemon", "status", "--name", name, "--json"]
    done = execute(lab.exec_argv(node, argv))
    return [slot["state"] for slot in json.loads(done.stdout)["daemons"][0]["slots"]]
