# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments are called as the fixtures that are imported)
"""The tagger: real jobs over TCP in the lab, as a capture on the wire sees them."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.lab import Lab
from hikyaku.sdn.tag import Function
from hikyaku.sdn.tagger import tag_command

from .tagging import (  # noqa: F401 (fixtures)
    SOON,
    TCP,
    UDP,
    Frame,
    busy,
    captured,
    endless_job,
    lab,
    mac_of,
    nothing_left,
    started,
    status,
)

# One thing after the other that is no MPI: a datagram, and a connection with a line each way.
STRANGER = """
import socket, sys
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20):
    plain.sendto(bytes([i]) * (100 + i), (sys.argv[1], 9009))
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as sock:
    sock.sendall(b"ping")
    assert sock.recv(4) == b"pong"
"""
SERVER = """
import socket
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1], flush=True)
while True:
    sock, _ = server.accept()
    assert sock.recv(4) == b"ping"
    sock.sendall(b"pong")
    sock.close()
"""


# ---- the tag, in the kernel ----------------------------------------------------------------------


def test_golden_tags_in_ebpf(program) -> None:
    at = "tests/unit/tagger/"
    done = process.run([program(at + "tag_vectors"), program(at + "vectors.bpf.o")])
    assert re.fullmatch(r"ok \d+ tags, \d+ refused\n", done)


# ---- real jobs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["bcast", "allreduce", "alltoall", "gather", "p2p"])
def test_the_wire_tells_the_function(lab: Lab, program, function: str) -> None:
    """An unmodified program over TCP: nearly all that it sends is of the one function that it uses.
    An acknowledgement may come late, so not quite all."""
    frames: list[Frame] = []
    mode = [program("tests/mpi/mpi_functions"), "--mode", function, "--rounds", "20"]
    with captured(lab, "node0", frames):
        done = lab.mpirun(2, mode, tcp=True, tag=True)
    assert done.returncode == 0, done.stderr
    assert "PASS functions" in done.stdout
    tags = [f.tag for f in frames if f.tag]
    ends = {(f.outgoing, f.tag.source, f.tag.destination, f.tag.group) for f in frames if f.tag}
    assert ends == {(True, 0, 1, False), (False, 1, 0, False)}
    assert len({t.job for t in tags}) == 1
    seen = Counter(t.function.name.lower() for t in tags)
    others = sum(n for name, n in seen.items() if name not in (function, "barrier"))
    assert seen[function] >= 10, seen
    assert others <= seen.total() * 0.2, seen


# What a Fortran compiler makes of a program: calls of libmpi_mpifh, whose handles are numbers.
FORTRAN = """
import ctypes
f = ctypes.CDLL("libmpi_mpifh.so.40", mode=ctypes.RTLD_GLOBAL)
def ref(n):
    return ctypes.byref(ctypes.c_int(n))
error, data = ctypes.c_int(), ctypes.create_string_buffer(5000)
world, byte, root = ref(0), ref(1), ref(0)
f.mpi_init_(ctypes.byref(error))
for i in range(20):
    f.mpi_bcast_(data, ref(5000), byte, root, world, ctypes.byref(error))
    assert error.value == 0
    f.mpi_barrier_(world, ctypes.byref(error))
f.mpi_finalize_(ctypes.byref(error))
print(f"done {error.value}")
"""


def test_fortran_calls(lab: Lab) -> None:
    frames: list[Frame] = []
    with captured(lab, "node0", frames):
        done = lab.mpirun(2, [sys.executable, "-c", FORTRAN], tcp=True, tag=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done 0") == 2  # whose lines mpirun may mix
    seen = Counter(f.tag.function for f in frames if f.outgoing and f.tag)
    assert seen[Function.BCAST] >= 10, seen
    assert seen[Function.BARRIER] >= 10, seen


# Long enough for a rendezvous: nearly all bytes go while the request is waited for or tested.
NONBLOCKING = """
import ctypes
f = ctypes.CDLL("libmpi_mpifh.so.40", mode=ctypes.RTLD_GLOBAL)
def ref(n):
    return ctypes.byref(ctypes.c_int(n))
error, flag, data = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(300000)
status = (ctypes.c_int * 16)()
world, byte, root = ref(0), ref(1), ref(0)
f.mpi_init_(ctypes.byref(error))
for i in range(20):
    requests = (ctypes.c_int * 2)()
    f.mpi_ibcast_(data, ref(300000), byte, root, world, requests, ctypes.byref(error))
    assert error.value == 0
    if i % 3 == 0:
        f.mpi_wait_(requests, status, ctypes.byref(error))
    elif i % 3 == 1:
        flag.value = 0
        while not flag.value:
            f.mpi_test_(requests, ctypes.byref(flag), status, ctypes.byref(error))
    else:
        second = ctypes.byref(requests, 4)
        f.mpi_ibarrier_(world, second, ctypes.byref(error))
        f.mpi_waitall_(ref(2), requests, status, ctypes.byref(error))
    assert error.value == 0
f.mpi_finalize_(ctypes.byref(error))
print(f"done {error.value}")
"""


# More than the tagger remembers at a time, and none of them is waited for.
FREED = """
for i in range(100):
    request = ctypes.c_int()
    f.mpi_ibarrier_(world, ctypes.byref(request), ctypes.byref(error))
    flag.value = 0
    while not flag.value:
        f.mpi_request_get_status_(
            ctypes.byref(request), ctypes.byref(flag), status, ctypes.byref(error)
        )
    f.mpi_request_free_(ctypes.byref(request), ctypes.byref(error))
    assert error.value == 0
"""


@pytest.mark.parametrize("freed", ["", FREED], ids=["waited", "freed"])
def test_nonblocking_collectives(lab: Lab, freed: str) -> None:
    frames: list[Frame] = []
    first, loop = NONBLOCKING.split("for i", 1)
    script = f"{first}{freed}for i{loop}"
    with captured(lab, "node0", frames):
        done = lab.mpirun(2, [sys.executable, "-c", script], tcp=True, tag=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done 0") == 2
    seen = Counter(f.tag.function for f in frames if f.outgoing and f.tag)
    assert seen[Function.BCAST] >= 100, seen
    assert seen[Function.P2P] <= seen.total() * 0.2, seen
    full = [f for f in frames if f.outgoing and f.tag and f.length > 1000]
    assert {f.tag.function for f in full} <= {Function.BCAST, Function.P2P}


def test_four_ranks_and_the_same_result(lab: Lab, program) -> None:
    """Two ranks a node: each pair has its own tags, and results are what they are without."""
    argv = [program("tests/mpi/mpi_digest"), "--rounds", "1", "--seed", "5"]
    frames: list[Frame] = []
    with captured(lab, "node1", frames):
        tagged = lab.mpirun(4, argv, tcp=True, tag=True)
    assert tagged.returncode == 0, tagged.stderr
    plain = lab.mpirun(4, argv, tcp=True)
    digest = re.compile("DIGEST ([0-9a-f]{16})")
    assert digest.search(tagged.stdout)[1] == digest.search(plain.stdout)[1]
    # ranks go round the nodes: 0 and 2 on node0, 1 and 3 on node1
    pairs = {(t.source, t.destination) for f in frames if f.outgoing and (t := f.tag)}
    assert pairs == {(1, 0), (1, 2), (3, 0), (3, 2)}


def test_what_is_no_mpi_is_not_touched(lab: Lab, program, hikyaku: list[str]) -> None:
    """Datagrams and a connection of a process of a job's own cgroup, and of one beside it while a
    job runs: as they are without a tagger, but for the numbers that the kernel draws."""
    peer = mac_of(lab, "node1")

    def strangers(before: list[str]) -> list[bytes]:
        frames: list[Frame] = []
        with started(lab, "node1", sys.executable, "-c", SERVER, stdout=subprocess.PIPE) as server:
            port = server.stdout.readline().strip()
            argv = [*before, sys.executable, "-c", STRANGER, "10.78.0.2", port]
            with captured(lab, "node0", frames, "untagged"):
                subprocess.run(lab.exec_argv("node0", argv), check=True, timeout=SOON)
        ours = [f for f in frames if f.outgoing and f.protocol in (UDP, TCP)]
        tcp = [f for f in ours if f.protocol == TCP and f.ports[1] == int(port)]
        udp = [f for f in ours if f.protocol == UDP and f.ports[1] == 9009]
        assert len(tcp) >= 4
        assert len(udp) == 20
        assert {f.to for f in tcp + udp} == {peer}
        assert not any(b"\xfe\x08HK" in f.raw for f in tcp)  # our TCP option
        # UDP's source port is drawn, too, and so its checksum: bytes 34, 35, 40 and 41
        cut = [f.same_but_for_its_number() for f in udp]
        return [raw[:30] + raw[32:36] + raw[38:] for raw in cut]

    without = strangers([])
    assert strangers(tag_command(interfaces=["tcp0"])) == without
    with endless_job(lab, program, hikyaku):
        busy(lab, hikyaku)
        assert strangers([]) == without


def test_status_while_a_job_runs(lab: Lab, program, hikyaku: list[str]) -> None:
    """Ranks, functions, connections and counts; and nothing of it after Ctrl-C."""
    assert status(lab, "node0", hikyaku) == []
    with endless_job(lab, program, hikyaku):
        found = busy(lab, hikyaku)
        assert [r["rank"] for r in found["ranks"]] == [0]
        assert found["ranks"][0]["function"] in {f.name.lower() for f in Function}
        command = Path(f"/proc/{found['ranks'][0]['pid']}/cmdline").read_bytes()
        assert b"mpi_functions" in command
        assert found["interfaces"] == ["tcp0"]
        live = [c for c in found["connections"] if c["frames"]]
        assert {(c["rank"], c["peer"]) for c in live} == {(0, 1)}
        assert {(c["local"], c["remote"]) for c in live} == {("10.78.0.1", "10.78.0.2")}
        assert found["restored"] > 0
        assert found["failed"] == 0
        (other,) = status(lab, "node1", hikyaku)
        assert (other["job"], [r["rank"] for r in other["ranks"]]) == (found["job"], [1])
        text = process.run(lab.exec_argv("node0", [*hikyaku, "tag", "status"]))
        assert "bcast" in text
        assert "10.78.0.2" in text
    assert status(lab, "node0", hikyaku) == []


def test_two_jobs_have_two_numbers(lab: Lab, hikyaku: list[str]) -> None:
    sleep = [*tag_command(interfaces=["tcp0"]), "sleep", "infinity"]

    def numbers() -> list[int]:
        return [job["job"] for job in status(lab, "node0", hikyaku)]

    with started(lab, "node0", *sleep):
        process.wait_until("the first", lambda: numbers() == [1], SOON)
        with started(lab, "node0", *sleep):
            process.wait_until("the second", lambda: numbers() == [1, 2], SOON)
        process.wait_until("the second to go", lambda: numbers() == [1], SOON)
        asked = tag_command(job=1, interfaces=["tcp0"])
        refused = subprocess.run(
            lab.exec_argv("node0", [*asked, "true"]),
            capture_output=True,
            text=True,
            timeout=SOON,
            check=False,
        )
        assert refused.returncode == 2
        assert "job 1 is tagged on this node already" in refused.stderr
    process.wait_until("the first to go", lambda: numbers() == [], SOON)
