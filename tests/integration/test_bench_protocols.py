# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench protocols`: its document, and that a protocol is forced."""

import json
import sys

import pytest

from execute import execute
from hikyaku.bench.protocols.run import EAGER, OWN, PROTOCOLS, RENDEZVOUS, limits


@pytest.mark.one_core
@pytest.mark.usefixtures("lab_name")  # root, and no labs of killed test runs
def test_document_of_a_tiny_run(hikyaku, tmp_path):
    file, picture = tmp_path / "p.json", tmp_path / "p.png"
    argv = [*hikyaku, "bench", "protocols", "--carriers", "tcp,split", "--sizes", "2K,64K"]
    argv += ["--repeats", "1", "--sample-ms", "2", "--json", str(file), "--plot", str(picture)]
    done = execute(argv, timeout=200)
    assert "Hikyaku, split: latency" in done.stdout and "lower: " in done.stdout
    rows = json.loads(file.read_text())["rows"]
    wanted = [(c, p, s) for c in ("tcp", "split") for p in PROTOCOLS for s in (2048, 65536)]
    assert [(r["carrier"], r["protocol"], r["size"]) for r in rows] == wanted
    assert all(r["median"] > 0 for r in rows)
    assert picture.stat().st_size > 10_000


# Rank 1 receives the long message last. Only an eager send completes before.
SEND = """
import time
from mpi4py import MPI

world, data, one = MPI.COMM_WORLD, bytearray(40000), bytearray(1)
if world.rank == 0:
    sent = world.Isend(data, 1, tag=1)
    world.Ssend(one, 1, tag=2)
    end = time.monotonic() + 1
    while not (complete := sent.Test()) and time.monotonic() < end:
        pass
    print("EAGER" if complete else "RENDEZVOUS", flush=True)
    world.Send(one, 1, tag=3)
    sent.Wait()
else:
    world.Recv(one, 0, tag=2)
    world.Recv(one, 0, tag=3)
    world.Recv(data, 0, tag=1)
"""


@pytest.mark.one_core
@pytest.mark.parametrize("protocol", [EAGER, RENDEZVOUS])
@pytest.mark.parametrize("btl", ["tcp", "hikyaku"])
def test_a_protocol_is_forced(get_lab, btl, protocol):
    lab = get_lab(2, "memif")
    mca = limits(btl, protocol)
    done = lab.mpirun(2, [sys.executable, "-c", SEND], tcp=btl == "tcp", mca=mca)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{protocol.upper()}\n"


def test_limits():
    assert limits("tcp", OWN) == {}
    assert limits("tcp", RENDEZVOUS)["btl_tcp_eager_limit"] == "128"


def test_sizes_that_cannot_be_forced_are_refused(hikyaku):
    done = execute([*hikyaku, "bench", "protocols", "--sizes", "8,2K"], code=1)
    assert "a protocol can be forced from 256 to 65536 bytes; fix: --sizes 256..64K" in done.stderr
