# SPDX-License-Identifier: BSD-3-Clause
"""What a daemon in a lab says of its slots."""

import json
import subprocess

from hikyaku.lab import Lab


def slots_of(lab: Lab, hikyaku: list[str], node: str, name: str) -> list[str]:
    """The states of the slots of daemon @name of @node, as it says."""
    argv = [*hikyaku, "daemon", "status", "--name", name, "--json"]
    done = subprocess.run(
        lab.exec_argv(node, argv), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [slot["state"] for slot in json.loads(done.stdout)["daemons"][0]["slots"]]
