# SPDX-License-Identifier: BSD-3-Clause
"""Emulated NICs (hk_nic) on memif wires, in each variant.

A router in Python (hikyaku/devmem/model.py) predicts every byte of every packet that the NICs send.
It also predicts the number of bytes that each region holds.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from execute import execute
from hikyaku.bench.router import nics as bench
from hikyaku.devmem.model import SPECIAL, Out, Router
from hikyaku.devmem.sequences import sequence
from test_router import MACS, PEERS, play

pytestmark = pytest.mark.one_core  # NICs poll

FRAMES = 400
ROUTES = f"""port 0 mac {MACS[0]}
port 1 mtu 1500 mac {MACS[1]}
neighbour 198.18.0.2 port 0 mac {PEERS[0]}
neighbour 198.18.1.2 port 1 mac {PEERS[1]}
neighbour fd00:ff::2 port 1 mac {PEERS[1]}
neighbour fd00:fe::2 port 0 mac {PEERS[0]}
route 10.0.0.0/8 via 198.18.1.2 port 1
route 10.1.0.0/16 via 198.18.0.2 port 0
route 10.2.128.0/17 blackhole
route fd00:0::/32 via fd00:ff::2 port 1
route fd00:1::/32 unreachable
route fd00:2::/32 via fd00:fe::2 port 0
"""


class NicRouter(Router):
    """A router that sends no ICMP messages and makes no fragments. It adds up the bytes of the
    destinations that each port looks up."""

    def __init__(self) -> None:
        zero, one = (0, PEERS[0]), (1, PEERS[1])
        routes = {
            **SPECIAL,
            "198.18.0.2/32": zero,
            "198.18.1.2/32": one,
            "fd00:ff::2/128": one,
            "fd00:fe::2/128": zero,
            "10.0.0.0/8": one,
            "10.1.0.0/16": zero,
            "10.2.128.0/17": "blackhole",
            "fd00:0::/32": one,
            "fd00:1::/32": "unreachable",
            "fd00:2::/32": zero,
        }
        super().__init__(MACS, [[], []], routes, [2034, 1500])
        self.port, self.asked = 0, [0, 0]

    def put(self, port: int, frame: bytes) -> Out:
        self.port = port
        return super().put(port, frame)

    def lookup(self, address: bytes) -> tuple[int, str] | str:
        self.asked[self.port] += len(address)
        return super().lookup(address)

    def _icmp(self, _port: int, _frame: bytes, _why: str) -> None:
        return None

    def _fragments(self, _to: int, _station: str, _packet: bytes) -> Out:
        return Out(None, why="too_big")


@contextmanager
def nics(program, directory: Path, variant: str) -> Iterator[list[subprocess.Popen]]:
    """Two NICs, and for Pktpit the host's process. They end with the block."""
    (directory / "routes").write_text(ROUTES)
    base = [program("systems/devmem/nic/hk_nic"), "--variant", variant, "--nics", "2", "--yield"]
    base += ["--dir", str(directory), "--routes", str(directory / "routes"), "--wait", "20000"]
    argvs = [[*base, "--id", str(i)] for i in (0, 1)]
    for i, argv in enumerate(argvs):
        argv += ["--port", f"memif:socket={directory}/{i}.sock,role=server,frame=2048"]
    argvs += [[*base, "--host"]] if variant == "pktpit" else []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(argv, **pipes) for argv in argvs]
    try:
        yield running
    except AssertionError as error:
        for each in running:
            each.terminate()
        said = [text for each in running for text in each.communicate(timeout=20)]
        raise AssertionError("\n".join([str(error), "processes:", *said])) from error
    finally:
        for each in running:
            each.kill()
            each.wait()


def stop(running: list[subprocess.Popen]) -> list[dict]:
    """Ends processes in good order, and returns what they have counted."""
    said = []
    for each in running:
        each.terminate()
    for each in running:
        out, errors = each.communicate(timeout=20)
        assert each.returncode == 0, errors
        said.append(json.loads(out.splitlines()[-1]))
    return said


def moved(document: dict, what: str, way: str) -> dict[str, int]:
    """Bytes by region."""
    found = [t for t in document["transfers"] if (t["what"], t["way"]) == (what, way)]
    return {t["region"]: t["bytes"] for t in found}


@pytest.mark.parametrize("variant", ["wr", "rd", "bn", "pktpit"])
def test_every_byte_and_where_it_was(variant: str, tmp_path: Path, program) -> None:
    it = NicRouter()
    frames = [sequence(it, port, FRAMES, seed=port + 1) for port in (0, 1)]
    want: list[list[bytes]] = [[], []]
    back: list[list[int]] = [[], []]
    crossed = [0, 0]  # bytes from each NIC to the other
    for port in (0, 1):
        for frame in frames[port]:
            out = it.put(port, frame)
            back[port].append(len(out.frames))
            if out.port is not None:
                want[out.port] += out.frames
                crossed[port] += len(out.frames[0]) if out.port != port else 0
    with nics(program, tmp_path, variant) as running:
        came = play(program, tmp_path, frames, back)
        said = stop(running)
    assert [sorted(each) for each in came] == [sorted(each) for each in want]
    results = sum((Counter(nic["results"]) for nic in said[:2]), Counter())
    assert results == it.counts
    assert all(crossed)
    for i in (0, 1):
        region = {"rd": f"bar{i}", "bn": f"main{i}"}.get(variant, f"bar{1 - i}")
        assert moved(said[i], "payload", "write") == {region: crossed[i]}
        assert moved(said[1 - i], "payload", "read") == {region: crossed[i]}
        asked = {"host": it.asked[i]} if variant == "pktpit" else {}
        assert moved(said[i], "address", "write") == asked
    if variant == "pktpit":
        assert moved(said[2], "address", "read") == {"host": sum(it.asked)}
        assert moved(said[2], "payload", "read") == {}
    assert not list(tmp_path.glob("bar*")) + list(tmp_path.glob("main*")), "regions are left"


def test_a_killed_nic_is_named_and_ends_the_others(tmp_path: Path, program) -> None:
    it = NicRouter()
    frame = sequence(it, 0, 1, seed=1)
    with nics(program, tmp_path, "pktpit") as running:
        play(program, tmp_path, [frame, []], [[1], []])
        running[1].kill()
        for each in (running[0], running[2]):
            _, errors = each.communicate(timeout=20)
            assert each.returncode == 1
            assert "NIC 1 has died" in errors and "fix: start all" in errors


@pytest.mark.parametrize("variant", ["rd", "pktpit"])
def test_two_pairs_share_two_processes(variant: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    frames = 2 * bench.BATCH
    said = bench.run_variant(variant, 2, [cpus[0], cpus[-1]], frames=frames)
    assert [nic["received"] for nic in said[:4]] == [frames, frames, 0, 0]
    assert [nic["sent"] for nic in said[:4]] == [0, 0, frames, frames]
    assert all(nic["results"] == {"forwarded": frames} for nic in said[:2])
    if variant == "pktpit":
        assert said[4]["lookups"] == 2 * frames


def test_wrong_options(tmp_path: Path, program) -> None:
    (tmp_path / "routes").write_text("route 10.0.0.0/8 via 10.0.0.1 port 7\n")
    base = [program("systems/devmem/nic/hk_nic"), "--dir", tmp_path, "--routes"]
    base += [tmp_path / "routes", "--nics", "2"]
    for words, said in {
        "": "--variant is missing; fix: --variant wr",
        "--variant wr": "--id is missing; fix: --id I",
        "--variant wr --id 2": "an --id is not below --nics; fix: ",
        "--variant wr --id 1 --id 1": "--id 1 twice; fix: leave one out",
        "--variant wr --id 0 --id 1 --port memif:id=0": "several NICs cannot share a --port; fix: ",
        "--variant xy --id 1": "there is no variant 'xy'; fix: --variant wr, rd, bn or pktpit",
        "--variant wr --host": "only variant pktpit has a --host; fix: ",
        "--variant pktpit --host --id 1": "a --host is not a NIC; fix: leave out --id",
        "--variant wr --id 1 --frames many": "--frames many; fix: a number from 0 to ",
        "--nics 9 --variant wr --id 1": "--nics 9; fix: a number from 1 to ",
        "--variant wr --id 1 more": "unexpected argument 'more'\nusage: ",
    }.items():
        assert f"hk_nic: {said}" in execute([*base, *words.split()], code=2).stderr, words
    alone = base[:1]
    for missing in ("nics", "dir", "routes"):
        words = ["--variant", "wr", "--nics", "2", "--dir", "x", "--routes", "y"]
        at = words.index(f"--{missing}")
        said = execute([*alone, *words[:at], *words[at + 2 :]], code=2).stderr
        assert f"hk_nic: --{missing} is missing; fix: " in said
    done = execute([*base, "--variant", "wr", "--id", "1"], code=1)
    assert "routes:1: port 7" in done.stderr
