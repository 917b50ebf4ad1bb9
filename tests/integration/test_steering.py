# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that share a port whose NIC steers frames: jobs, and hikyakud's report of its rules.

The NIC is simulated in hikyakud (tests/unit/port/sim_nic.h), on a veth wire. Rules and frames are
real, and ranks run as with any other port.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from execute import BEHIND, execute
from hikyaku import process
from hikyaku.checkout import built
from hikyaku.lab import Lab
from slots import daemons_of

pytestmark = pytest.mark.one_core

SOON = 60
PORT = "vdev:net_af_packet0,iface=hk0,qpairs=3,framesz=2000,blocksz=512000,framecnt=512"


@pytest.fixture
def lab(lab_of_jobs) -> Lab:
    return lab_of_jobs(2, "veth", 2, huge_mb=384)


@pytest.fixture
def job(lab, hikyaku, program, tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """job(abilities, rules, "p2p_random") starts that program on four ranks. The arguments
    @abilities and @rules are those of the simulated NIC."""
    tools = []

    def go(abilities: str, rules: int, name: str, *options: str) -> subprocess.Popen:
        daemon = tmp_path / "hikyakud"
        daemon.write_text(
            f"#!/bin/sh\nexport LD_PRELOAD={built('tests/unit/port/hk_sim_nic.so')} "
            f"HK_SIM_NIC={abilities} HK_SIM_NIC_RULES={rules}\n"
            f'exec {built("src/hikyakud")} "$@"\n'
        )
        daemon.chmod(0o755)
        shell = f'export OMPI_MCA_btl_hikyaku_port="{PORT}"; exec "$@"'
        behind = BEHIND if name == "hand_over" else ()
        argv = [*behind, *hikyaku, "lab", "mpirun", "--lab", lab.name]
        argv += ["--mode", "daemon", "-np", "4"]
        argv += ["sh", "-c", shell, "sh", program(f"tests/mpi/mpi_{name}"), *options]
        tools.append(
            subprocess.Popen(
                [*argv, "--timeout", "100"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "HIKYAKU_DAEMON": str(daemon)},
            )
        )
        return tools[-1]

    yield go
    for tool in tools:
        tool.send_signal(signal.SIGTERM)
        tool.communicate(timeout=40)


def ask(lab: Lab, hikyaku: list[str], *command: str) -> str:
    done = execute(lab.exec_argv("node0", [*hikyaku, *command]), code=None)
    return done.stdout


@pytest.mark.parametrize(
    ("abilities", "rules"),
    [("endpoint", 64), ("endpoint-abs", 64), ("mac", 64), ("mac-type", 1), ("mac,lies", 64)],
)
def test_a_job(job, abilities, rules):
    tool = job(abilities, rules, "p2p_random")
    said, _ = tool.communicate(timeout=150)
    assert tool.returncode == 0, said
    assert re.search(r"^PASS p2p_random \(\d+ checks\)$", said, re.M), said


def wait_for_stats(lab: Lab, ready: Callable[[dict], bool]) -> dict:
    """The answer of node0's daemon, once both of its ranks are attached and @ready accepts it."""
    seen = {}

    def accepted() -> bool:
        for daemon in daemons_of(lab, "node0"):
            seen.update(daemon)
            attached = [s for s in daemon["slots"] if s["state"] == "ready"]
            return len(attached) == 2 and ready(daemon)
        return False

    process.wait_until("both ranks and enough frames", accepted, SOON)
    return seen


@pytest.mark.parametrize(
    ("abilities", "room", "method", "rules", "refused"),
    [
        ("endpoint,mac", 64, "endpoint", 2, 0),
        ("mac", 64, "mac", 2, 0),
        ("mac", 1, "mac", 1, 1),
        ("mac,lies", 64, "software", 0, 0),
    ],
)
def test_report_of_the_rules(lab, hikyaku, job, abilities, room, method, rules, refused):
    job(abilities, room, "hand_over", "--rounds", "100000")
    counter = "rx_steered" if rules else "rx_frames"
    seen = wait_for_stats(lab, lambda daemon: daemon["switch"][counter] > 100)
    steering = seen["port"]["steering"]
    assert (steering["method"], steering["rules"], steering["rules_refused"]) == (
        method,
        rules,
        refused,
    )
    assert steering["queues"] == 3
    assert seen["port"]["counters"]["rx_frames"] >= 100  # the driver's own
    assert seen["switch"]["rx_missteered"] == 0
    if not rules:
        assert seen["switch"]["rx_steered"] == 0
    why = {b["method"]: b["why"] for b in steering["better"]}
    assert ("endpoint" in why) == (method != "endpoint")
    if refused:
        assert "is full" in steering["refusal"]
    if "lies" in abilities:
        assert "has lied" in why["mac"]
    if method == "mac":
        text = ask(lab, hikyaku, "stats")
        assert f"port    told apart by hardware rule by MAC: {rules} of 2 ranks" in text
        text = ask(lab, hikyaku, "stats", "--prometheus")
        assert re.search(rf'^hikyaku_port_steering_rules{{.*method="mac".*}} {rules}', text, re.M)


SEND = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("hk0", 0))
s.send(bytes.fromhex(sys.argv[1]))
"""


def test_a_frame_in_the_wrong_queue(lab, job):
    """A sender can use any address. Here a rule steers the frame to one rank, but the frame names
    the other."""
    tool = job("mac", 64, "hand_over", "--rounds", "100000")
    seen = wait_for_stats(lab, lambda daemon: daemon["switch"]["rx_steered"] > 100)
    first, second = seen["slots"]
    own = bytes.fromhex(
        json.loads(
            subprocess.run(
                lab.exec_argv("node0", ["ip", "-json", "link", "show", "hk0"]),
                capture_output=True,
                check=True,
            ).stdout
        )[0]["address"].replace(":", "")
    )
    queue_of_first = bytes([((own[0] ^ (first["slot"] + 1) << 2) & 0xFC) | 2]) + own[1:]
    header = bytearray(48)
    header[0] = 0x20  # version 2; most other fields stay 0, which is not valid
    header[4:8] = int(second["job"], 16).to_bytes(4, "little")
    header[12:16] = second["endpoint"].to_bytes(4, "little")
    frame = queue_of_first + b"\x02\0\0\0\0\x07" + b"\x88\xb5" + header
    subprocess.run(
        lab.exec_argv("node1", [sys.executable, "-c", SEND, frame.hex()]), check=True, timeout=60
    )
    before = seen["switch"]
    seen = wait_for_stats(
        lab,
        lambda daemon: (
            daemon["switch"]["rx_missteered"] == 1
            and daemon["switch"]["rx_steered"] > before["rx_steered"] + 100
        ),
    )
    assert seen["switch"]["rx_no_rank"] == before["rx_no_rank"]  # it went to the rank that it names
    assert tool.poll() is None
