# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments have the names of imported fixtures)
"""The tagger: tags in captured frames of real jobs over TCP, in the lab."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.lab import Lab
from hikyaku.sdn.tag import Function
from hikyaku.sdn.tagger import tag_command

from .tagging import (  # noqa: F401 (fixtures)
    SOON,
    TCP,
    UDP,
    Frame,
    captured,
    endless_job,
    lab,
    mac_of,
    nothing_left,
    started,
    status,
    status_of_busy_job,
)

# A program without MPI: it sends datagrams, and one message each way on a TCP connection.
WITHOUT_MPI = """
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
    at = "tests/unit/sdn/tagger/"
    done = process.run([program(at + "tag_vectors"), program(at + "vectors.bpf.o")])
    assert re.fullmatch(r"ok \d+ tags, \d+ refused\n", done)


# ---- real jobs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["bcast", "allreduce", "alltoall", "gather", "p2p"])
def test_tags_name_the_mpi_function(lab: Lab, program, function: str) -> None:
    """An unmodified program over TCP uses one MPI function. Nearly all of its frames have that
    function's tag. A few acknowledgements may be sent after the call has ended."""
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


# A compiled Fortran program calls libmpi_mpifh, where handles are numbers. This one does the same.
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
    assert done.stdout.count("done 0") == 2  # counts, as mpirun may mix the lines of two ranks
    seen = Counter(f.tag.function for f in frames if f.outgoing and f.tag)
    assert seen[Function.BCAST] >= 10, seen
    assert seen[Function.BARRIER] >= 10, seen


# The messages are long enough for a rendezvous, so nearly all bytes go while the program waits for
# the request or tests it.
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


# More requests than the tagger remembers at a time. The program frees them without a wait.
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


def test_tags_of_four_ranks(lab: Lab, program) -> None:
    """Two ranks per node. Each pair has tags of its own, and the result is the same as without
    tagger."""
    argv = [program("tests/mpi/mpi_digest"), "--rounds", "1", "--seed", "5"]
    frames: list[Frame] = []
    with captured(lab, "node1", frames):
        tagged = lab.mpirun(4, argv, tcp=True, tag=True)
    assert tagged.returncode == 0, tagged.stderr
    plain = lab.mpirun(4, argv, tcp=True)
    digest = re.compile("DIGEST ([0-9a-f]{16})")
    assert digest.search(tagged.stdout)[1] == digest.search(plain.stdout)[1]
    # ranks 0 and 2 are on node0, ranks 1 and 3 on node1
    pairs = {(t.source, t.destination) for f in frames if f.outgoing and (t := f.tag)}
    assert pairs == {(1, 0), (1, 2), (3, 0), (3, 2)}


def test_traffic_other_than_mpi_is_unchanged(lab: Lab, program, hikyaku: list[str]) -> None:
    """A process sends datagrams, and uses a connection. Its frames are the same without tagger, in
    the cgroup of a job, and outside of it while a job runs. Only numbers that the kernel draws at
    random differ."""
    peer = mac_of(lab, "node1")

    def sent(before: list[str]) -> list[bytes]:
        """The frames of the process, which the command @before starts."""
        frames: list[Frame] = []
        with started(lab, "node1", sys.executable, "-c", SERVER, stdout=subprocess.PIPE) as server:
            port = server.stdout.readline().strip()
            argv = [*before, sys.executable, "-c", WITHOUT_MPI, "10.78.0.2", port]
            with captured(lab, "node0", frames, "untagged"):
                subprocess.run(lab.exec_argv("node0", argv), check=True, timeout=SOON)
        ours = [f for f in frames if f.outgoing and f.protocol in (UDP, TCP)]
        tcp = [f for f in ours if f.protocol == TCP and f.ports[1] == int(port)]
        udp = [f for f in ours if f.protocol == UDP and f.ports[1] == 9009]
        assert len(tcp) >= 4
        assert len(udp) == 20
        assert {f.to for f in tcp + udp} == {peer}
        assert not any(b"\xfe\x08HK" in f.raw for f in tcp)  # our TCP option
        # The kernel draws UDP's source port too: without it and its checksum (bytes 34, 35, 40, 41)
        cut = [f.without_ip_id() for f in udp]
        return [raw[:30] + raw[32:36] + raw[38:] for raw in cut]

    without = sent([])
    assert sent(tag_command(interfaces=["tcp0"])) == without
    with endless_job(lab, program, hikyaku):
        status_of_busy_job(lab, hikyaku)
        assert sent([]) == without


def test_status_while_a_job_runs(lab: Lab, program, hikyaku: list[str]) -> None:
    """The status has ranks, functions, connections and counts. After Ctrl-C it is empty."""
    assert status(lab, "node0", hikyaku) == []
    with endless_job(lab, program, hikyaku):
        found = status_of_busy_job(lab, hikyaku)
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
        process.wait_until("the first job", lambda: numbers() == [1], SOON)
        with started(lab, "node0", *sleep):
            process.wait_until("the second job", lambda: numbers() == [1, 2], SOON)
        process.wait_until("the second job to end", lambda: numbers() == [1], SOON)
        asked = tag_command(job=1, interfaces=["tcp0"])
        refused = execute(lab.exec_argv("node0", [*asked, "true"]), code=2, timeout=SOON)
        assert "job 1 is tagged on this node already" in refused.stderr
    process.wait_until("the first job to end", lambda: numbers() == [], SOON)
