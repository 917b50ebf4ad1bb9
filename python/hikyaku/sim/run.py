# SPDX-License-Identifier: BSD-3-Clause
"""Runs hikyaku-sim (tools/sim)."""

import json
import subprocess
import tempfile
from contextlib import ExitStack

from ..checkout import built
from ..errors import HikyakuError
from ..process import option_words
from .messages import Messages

SCENARIOS = {
    "incast": "all keep a 64 KiB put outstanding to one host",
    "longflows": "long flows from all hosts to one",
    "alltoall": "each host sends to each other one, all in the same order",
    "mixed": "messages of 8 B to 2 MiB between random hosts, at --load",
    "burst": "64 messages of 8 B from each host to one, all at once",
    "eager": "one message of 16 KiB from each host to one",
    "bulk": "one put of 64 KiB from each host to one",
    "lone": "one long flow, after each other host sent one message",
    "pingpong": "8 B back and forth, beside long flows to the same host",
    "silent": "the first message to a host, after others to hosts that never answer",
    "idle": "8 B back and forth, beside hosts that sent one message",
    "exchange": "the messages of --messages, again and again, between neighbours",
}
RATES = ("100M", "1G", "10G", "25G", "40G", "50G", "100G", "200G", "400G")
PROGRAM = "tools/sim/hikyaku-sim"
WORKERS = "tools/sim-worker/hikyaku-sim-worker"


def simulate(
    scenario: str,
    workers: bool = False,
    messages: Messages | None = None,
    **options: int | None,
) -> dict:
    """The results of one run. @messages: of the scenario exchange. @options are those of
    hikyaku-sim; None leaves its default."""
    argv = [str(built(WORKERS if workers else PROGRAM)), scenario, *option_words(**options)]
    with ExitStack() as stack:
        if messages:
            file = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="hikyaku-messages-"))
            file.write(messages.lines())
            file.flush()
            argv += ["--messages", file.name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise HikyakuError(f"the simulation was ended by signal {-done.returncode}")
    if done.returncode:
        raise HikyakuError.said(done.stderr.removeprefix("hikyaku-sim: "))
    return {"schema": 1, "workers": workers, **json.loads(done.stdout)}
