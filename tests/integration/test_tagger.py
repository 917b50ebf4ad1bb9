# SPDX-License-Identifier: BSD-3-Clause
"""The tagger: real jobs over TCP in the lab, as a capture on the wire sees them; its life."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.checkout import built
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab
from hikyaku.lab.run import Job
from hikyaku.sdn import tag
from hikyaku.sdn.registrar import Registrar
from hikyaku.sdn.tag import Function, NoTag, Tag
from hikyaku.sdn.tagger import tag_command

from .mpi_programs import assert_passed

SOON = 30  # seconds, on a machine that does much else
OUTGOING = 4  # PACKET_OUTGOING
IPV4, UDP, TCP = b"\x08\x00", 17, 6

# Copies frames to its output, as lines, until its input ends. Its first line says that it listens.
# Tagged ones of an endless job would be too many: a filter of the kernel's leaves them out. At the
# end one lets nothing more in: a wire that is never silent could not be read to its end.
SNIFFER = """
import ctypes, itertools, select, socket, struct, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE

def attach(*code):
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    fprog = struct.pack("HL", len(code), ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, 26, fprog)  # SO_ATTACH_FILTER

if sys.argv[2] == "untagged":
    # the first two octets; 66:48? then nothing of it, else all
    attach((0x28, 0, 0, 0), (0x15, 1, 0, 0x6648), (0x06, 0, 0, 0xffffffff), (0x06, 0, 0, 0))
sock.bind((sys.argv[1], 3))
sock.setblocking(False)
print("ready", flush=True)
ended = False
for n in itertools.count():
    if not ended and n % 64 == 0 and select.select([0], [], [], 0)[0]:
        attach((0x06, 0, 0, 0))
        ended = True
    try:
        frame, address = sock.recvfrom(1 << 17)
        print(address[2], frame[:256].hex())
    except BlockingIOError:
        if ended:
            break
        select.select([sock, 0], [], [])
"""

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


@dataclass
class Frame:
    """The start of a frame, as it lay on the wire."""

    outgoing: bool
    raw: bytes

    @property
    def to(self) -> str:
        return self.raw[:6].hex(":")

    @property
    def protocol(self) -> int | None:
        return self.raw[23] if self.raw[12:14] == IPV4 else None

    @property
    def ports(self) -> tuple[int, int]:
        return int.from_bytes(self.raw[34:36], "big"), int.from_bytes(self.raw[36:38], "big")

    @property
    def tag(self) -> Tag | None:
        try:
            return Tag.parse(self.to)
        except NoTag:
            return None

    def same_but_for_its_number(self) -> bytes:
        """Without IP's identification and the checksum that covers it."""
        return self.raw[:18] + self.raw[20:24] + self.raw[26:]


@contextmanager
def started(lab: Lab, node: str, *argv: str, **options) -> Iterator[subprocess.Popen]:
    """A process on @node that says a first line when it is ready, and is ended with the block."""
    child = subprocess.Popen(
        lab.exec_argv(node, list(argv)), stdin=subprocess.PIPE, text=True, **options
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=SOON)


@contextmanager
def captured(
    lab: Lab, node: str, frames: list[Frame], which: str = "all", link: str = "tcp0"
) -> Iterator[None]:
    """Puts what goes over @link of @node into @frames; @which: "all" or "untagged"."""
    argv = [sys.executable, "-c", SNIFFER, link, which]
    with started(lab, node, *argv, stdout=subprocess.PIPE) as sniffer:
        assert sniffer.stdout.readline() == "ready\n"
        yield
        out, _ = sniffer.communicate(timeout=SOON)
        for line in out.splitlines():
            kind, raw = line.split()
            frames.append(Frame(int(kind) == OUTGOING, bytes.fromhex(raw)))


def mac_of(lab: Lab, node: str) -> str:
    argv = lab.exec_argv(node, ["ip", "-json", "link", "show", "tcp0"])
    return json.loads(process.run(argv))[0]["address"]


def others(lab: Lab) -> list[Path]:
    """The processes of taggers that live and are none of @lab's."""
    ours = f"HIKYAKU_LAB_ID={lab.topology.lab_id}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            tagger = (place / "comm").read_text() == "hk-tagger\n"
            if tagger and ours not in (place / "environ").read_bytes().split(b"\0"):
                found.append(place)
    return found


def programs_of(place: Path) -> set[int]:
    """Those that the process in @place holds."""
    held = set()
    for each in place.glob("fdinfo/*"):
        with suppress(OSError):
            held |= {int(n) for n in re.findall(r"^prog_id:\s*(\d+)", each.read_text(), re.M)}
    return held


def things(lab: Lab) -> set[str]:
    """Programs of taggers in the kernel, and their cgroups, but for those of others that live."""
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    programs = [
        p["id"]
        for p in json.loads(process.run([bpftool, "-j", "prog"]))
        if p.get("name", "").startswith("hk_")
    ]
    cgroups = [  # os.walk() passes over what vanishes meanwhile
        Path(above, name)
        for above, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith("hikyaku-tag-")
    ]
    strange = others(lab)  # after the lists: what is in them and lives is found
    held = set().union(*map(programs_of, strange))
    pids = {place.name for place in strange}
    return {f"program {n}" for n in programs if n not in held} | {
        str(each) for each in cgroups if each.name.rpartition("-")[2] not in pids
    }


@pytest.fixture
def nothing_left(get_lab) -> Callable[[], bool]:
    """Tells whether all that this test's taggers made has gone. What was there before, and what
    others have, is not theirs."""
    lab = get_lab(2, "memif", 1)
    before = things(lab)
    return lambda: things(lab) <= before


@pytest.fixture
def lab(get_lab, nothing_left) -> Iterator[Lab]:
    """Two nodes. What hangs on them at the end is a fault."""
    yield get_lab(2, "memif", 1)
    process.wait_until("everything of the tagger to be gone", nothing_left, SOON)


def status(lab: Lab, node: str, hikyaku: list[str]) -> list[dict]:
    out = process.run(lab.exec_argv(node, [*hikyaku, "tag", "status", "--json"]))
    return json.loads(out)


@contextmanager
def endless_job(
    lab: Lab, program: Callable[[str], str], hikyaku: list[str], *options: str
) -> Iterator[None]:
    """A tagged job of two ranks, ended by Ctrl-C."""
    argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "--tag", *options]
    argv += ["-np", "2", program("tests/mpi/mpi_functions"), "--rounds", "1000000"]
    job = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        job.send_signal(signal.SIGINT)
        job.wait(timeout=SOON)


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
print("done", error.value)
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
print("done", error.value)
"""


def test_nonblocking_collectives(lab: Lab) -> None:
    frames: list[Frame] = []
    with captured(lab, "node0", frames):
        done = lab.mpirun(2, [sys.executable, "-c", NONBLOCKING], tcp=True, tag=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done 0") == 2
    seen = Counter(f.tag.function for f in frames if f.outgoing and f.tag)
    assert seen[Function.BCAST] >= 100, seen
    assert seen[Function.P2P] <= seen.total() * 0.2, seen


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


def busy(lab: Lab, hikyaku: list[str]) -> dict:
    """Waits until the job on node0 has been seen in five functions; its status."""
    seen: list[dict] = []

    def there() -> bool:
        seen[:] = status(lab, "node0", hikyaku)
        return len(seen) == 1 and len(seen[0]["tagged"]) >= 5

    process.wait_until("five functions to be seen", there, SOON)
    return seen[0]


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


# ---- native tags ---------------------------------------------------------------------------------


def native(lab: Lab, program: str, job: int, *arguments: str, **more: str):
    mca = {"btl_hikyaku_port": "af_packet:iface=hk0", "btl_hikyaku_tag": str(job)} | more
    return lab.mpirun(2, [program, *arguments], mca=mca)


@pytest.mark.parametrize(("function", "sender"), [("bcast", 0), ("gather", 1), ("p2p", 0)])
def test_native_tags(get_lab, program, function: str, sender: int) -> None:
    """The BTL's own frames, as they come in at the other end: of long messages too, whose bytes are
    got by the receiver (all but the halves that Gather sends are beyond the eager limit)."""
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with captured(lab, f"node{1 - sender}", frames, link="hk0"):
        done = native(lab, program("tests/mpi/mpi_functions"), 5, "--mode", function)
    assert done.returncode == 0, done.stderr
    ours = [f for f in frames if not f.outgoing and f.raw[12:14] == b"\x88\xb5"]
    assert ours
    assert {(f.tag.job, f.tag.source, f.tag.destination) for f in ours if f.tag} == {
        (5, sender, 1 - sender)
    }
    assert all(f.tag for f in ours)
    # base header: type at byte 1 (DATA 1, PUT 2, ACK 3)
    seen = Counter((f.raw[15], f.tag.function) for f in ours)
    here = Function[function.upper()]
    assert sum(n for (_, fn), n in seen.items() if fn == here) >= 20, seen
    got = {fn for kind, fn in seen if kind == 2}
    assert got == (set() if function == "gather" else {here}), seen


def test_no_native_tags_unless_asked(get_lab, program) -> None:
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with captured(lab, "node1", frames, link="hk0"):
        done = native(lab, program("tests/mpi/mpi_functions"), 0, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    ours = [f for f in frames if not f.outgoing and f.raw[12:14] == b"\x88\xb5"]
    assert ours
    argv = lab.exec_argv("node1", ["ip", "-json", "link", "show", "hk0"])
    assert {f.to for f in ours} == {json.loads(process.run(argv))[0]["address"]}


def test_a_job_that_tags_cannot_name(get_lab, program) -> None:
    done = native(get_lab(2, "veth", 1), program("tests/mpi/mpi_functions"), 64)
    assert "btl_hikyaku_tag is 64; fix: give the job a number from 1 to 63" in done.stderr


class Knowing:
    """A controller that knows all ranks but those that it is to refuse, in place of the client."""

    def __init__(self, refuses: set[str]):
        self.refuses = refuses
        self.ranks: list[int] = []

    def post(self, _path: str, _data: object) -> dict:
        return {"job": 5}

    def put(self, _path: str, data: dict[str, str]) -> None:
        if data.keys() & self.refuses:
            raise HikyakuError("no room")
        self.ranks += map(int, data)

    def get(self, _path: str) -> dict:
        return {"located": self.ranks}

    def delete(self, _path: str) -> None:
        pass


@pytest.mark.parametrize("refused", [set(), {"1"}])
def test_a_rank_that_the_controller_does_not_take(
    get_lab, program, tmp_path, refused: set[str]
) -> None:
    """The others send it no tags, which the first switch would drop."""
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with (
        Registrar(Knowing(refused), "native", tmp_path / "r") as registrar,
        captured(lab, "node1", frames, link="hk0"),
    ):
        argv = program("tests/mpi/mpi_functions"), 5, "--rounds", "1"
        done = native(lab, *argv, btl_hikyaku_registrar=registrar.address)
    assert done.returncode == 0, done.stderr
    assert ("rank 1 sends without tags: no room" in done.stderr) == bool(refused)
    ours = [f for f in frames if f.raw[12:14] == b"\x88\xb5" and not f.raw[0] & 1]
    assert {(f.outgoing, f.tag is None) for f in ours} == {(False, bool(refused))}


@pytest.mark.parametrize(
    ("host", "why"),
    [("hybrid", "hikyakud has this node's"), (None, "memif has wires")],
)
def test_ranks_without_a_port_of_their_own_do_not_tag(run, host: str | None, why: str) -> None:
    """No controller could tell them apart; so the registrar is not even asked."""
    mca = {"btl_hikyaku_tag": "5", "btl_hikyaku_registrar": "secret@/nobody/there"}
    done = run(("memif", 2, 1), "p2p_modes --rounds 1", host=host, mca=mca)
    assert_passed(done, "p2p_modes")
    for rank in (0, 1):
        assert f"rank {rank} sends without tags: a tag stands for a port" in done.stderr
    assert why in done.stderr


# ---- life ----------------------------------------------------------------------------------------


def holder(lab: Lab, hikyaku: list[str]) -> int:
    def there() -> bool:
        return len(status(lab, "node0", hikyaku)) == 1

    process.wait_until("the tagger to answer", there, SOON)
    return status(lab, "node0", hikyaku)[0]["pid"]


def test_the_commands_end_is_the_taggers(lab: Lab) -> None:
    """Its exit status is the command's; the fixture looks that nothing is left."""
    argv = [*tag_command(interfaces=["tcp0"]), "sh", "-c", "cat /proc/self/cgroup; exit 7"]
    done = subprocess.run(
        lab.exec_argv("node0", argv), capture_output=True, text=True, timeout=SOON, check=False
    )
    assert done.returncode == 7
    assert re.search(r"^0::.*/hikyaku-tag-1-\d+$", done.stdout, re.M)


def test_the_holder_is_killed(lab: Lab, hikyaku: list[str]) -> None:
    """Its programs are gone at once, the command goes on, and the next run sweeps up."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        os.kill(holder(lab, hikyaku), signal.SIGKILL)
        process.wait_until("its programs to go", lambda: status(lab, "node0", hikyaku) == [], SOON)
        assert command.poll() is None
    again = lab.exec_argv("node0", [*tag_command(interfaces=["tcp0"]), "true"])
    subprocess.run(again, check=True, timeout=SOON)


def test_the_holder_is_ended_before_its_job(
    lab: Lab, hikyaku: list[str], nothing_left: Callable[[], bool]
) -> None:
    """The command goes on, in the cgroup that it came from."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity") as command:
        pid = holder(lab, hikyaku)
        assert not nothing_left()
        os.kill(pid, signal.SIGTERM)
        process.wait_until("everything of the tagger to be gone", nothing_left, SOON)
        assert command.poll() is None


# ---- clsact: filters, which outlive their process ------------------------------------------------


def tc(lab: Lab, node: str, *arguments: str) -> str:
    return process.run(lab.exec_argv(node, ["tc", *arguments]))


def filters(lab: Lab, node: str) -> list[str]:
    """Of node's tcp0, as tc shows them, without how long ago they were used."""
    return [
        line
        for way in ("ingress", "egress")
        for line in tc(lab, node, "filter", "show", "dev", "tcp0", way).splitlines()
    ]


@pytest.fixture
def clsact(lab: Lab) -> Iterator[Lab]:
    """At its end no filter of ours is there, and the interfaces are as they were."""
    yield lab
    for node in ("node0", "node1"):
        left = filters(lab, node)
        if "clsact" in tc(lab, node, "qdisc", "show", "dev", "tcp0"):
            tc(lab, node, "qdisc", "del", "dev", "tcp0", "clsact")
        assert not [line for line in left if "hk_" in line]


def test_tags_by_clsact_beside_other_peoples_filters(clsact: Lab, program) -> None:
    """What is there already is as it was, and the discipline that we made has nothing of ours."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "clsact")
    for number in (["prio", "5"], ["prio", "72", "handle", "1"]):  # ours is 72, too
        passes = ["bpf", "bytecode", "1,6 0 0 0"]
        tc(clsact, "node0", "filter", "add", "dev", "tcp0", "egress", *number, *passes)
    before = filters(clsact, "node0")
    assert before
    frames: list[Frame] = []
    argv = ["-np", "2", program("tests/mpi/mpi_functions"), "--mode", "bcast", "--rounds", "20"]
    with captured(clsact, "node0", frames):
        done = clsact.launch(Job(argv, tcp=True, tag=True, attach="clsact"))
    assert done.returncode == 0, done.stderr
    assert "PASS functions" in done.stdout
    seen = Counter((f.outgoing, f.tag.source, f.tag.function) for f in frames if f.tag)
    assert seen[True, 0, Function.BCAST] >= 10, seen
    assert {key[:2] for key in seen} == {(True, 0), (False, 1)}
    assert filters(clsact, "node0") == before
    assert filters(clsact, "node1") == []


def test_a_filter_whose_holder_was_killed(clsact: Lab, program, hikyaku: list[str]) -> None:
    """It stays, but nothing is tagged from that moment on; status names it, and the next run
    removes it."""
    with endless_job(clsact, program, hikyaku, "--attach", "clsact"):
        found = busy(clsact, hikyaku)
        assert found["attach"] == "clsact"
        assert found["failed"] == 0
        lines = filters(clsact, "node0")
        assert sum("hk_egress_jump" in line for line in lines) == 1
        assert sum("hk_ingress_jump" in line for line in lines) == 1
        for node in ("node0", "node1"):
            (job,) = status(clsact, node, hikyaku)
            os.kill(job["pid"], signal.SIGKILL)
            gone = partial(lambda node: status(clsact, node, hikyaku) == [], node)
            process.wait_until("the holder to go", gone, SOON)
        frames: list[Frame] = []
        with captured(clsact, "node0", frames):
            flowing = partial(sent_bytes, clsact, "node0")
            before = flowing()
            process.wait_until("the job to go on", lambda: flowing() > before + 100_000, SOON)
        assert len([f for f in frames if f.protocol == TCP]) > 10
        assert not [f for f in frames if f.tag]
        assert filters(clsact, "node0") == lines
    shown = process.run(clsact.exec_argv("node0", [*hikyaku, "tag", "status"]))
    assert "no job is tagged on this node" in shown
    where = [f"tcp0 {way} (job {found['job']})" for way in ("egress", "ingress")]
    assert f"do nothing any more: {', '.join(where)}; fix: hikyaku tag run" in shown
    for node in ("node1", "node0"):  # its cgroup lies in node0's, since all is one machine here
        again = clsact.exec_argv(node, [*tag_command(interfaces=["ctl0"]), "true"])
        subprocess.run(again, check=True, timeout=SOON)
        assert filters(clsact, node) == []


def sent_bytes(lab: Lab, node: str) -> int:
    argv = lab.exec_argv(node, ["ip", "-json", "-stats", "link", "show", "tcp0"])
    return json.loads(process.run(argv))[0]["stats64"]["tx"]["bytes"]


def test_a_living_ones_filter_is_not_taken(clsact: Lab, hikyaku: list[str]) -> None:
    """Nor its number, by somebody whose run directories are elsewhere."""
    sleep = [*tag_command(interfaces=["tcp0"], attach="clsact"), "sleep", "infinity"]
    with started(clsact, "node0", *sleep):
        holder(clsact, hikyaku)
        lines = filters(clsact, "node0")
        base = f"/tmp/hk-tag-elsewhere-{os.getpid()}"  # short, since a socket lies there
        elsewhere = ["env", f"HIKYAKU_RUNDIR={base}"]
        other = [*elsewhere, *tag_command(interfaces=["tcp0"], job=1, attach="clsact"), "true"]
        assert "job 1 is tagged on this node already, by another user" in refused(
            clsact.exec_argv("node0", other)
        )
        free = [*elsewhere, *tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        subprocess.run(clsact.exec_argv("node0", free), check=True, timeout=SOON)
        process.wait_until("the other to go", lambda: filters(clsact, "node0") == lines, SOON)
        process.wait_until("all of it", lambda: not list(Path(base).iterdir()), SOON)
        Path(base).rmdir()


def test_an_interface_that_takes_no_filter(clsact: Lab) -> None:
    """The discipline "ingress" stands where clsact would."""
    tc(clsact, "node0", "qdisc", "add", "dev", "tcp0", "ingress")
    try:
        argv = [*tag_command(interfaces=["tcp0"], attach="clsact"), "true"]
        text = refused(clsact.exec_argv("node0", argv))
        assert not filters(clsact, "node0")
    finally:
        tc(clsact, "node0", "qdisc", "del", "dev", "tcp0", "ingress")
    assert "tcp0 has the queueing discipline 'ingress'" in text
    assert "; fix: have its owner use clsact" in text


# ---- refusals ------------------------------------------------------------------------------------


def refused(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_address_within_the_prefix(lab: Lab) -> None:
    """Refused whatever interface has it, even one that is not tagged."""
    own = mac_of(lab, "node0")
    bad = "66:48:0d:00:00:05"
    assert tag.in_prefix(bad)

    def have(address: str) -> None:
        process.run(
            lab.exec_argv("node0", ["ip", "link", "set", "dev", "tcp0", "address", address])
        )

    have(bad)
    try:
        text = refused(lab.exec_argv("node0", [*tag_command(interfaces=["ctl0"]), "true"]))
    finally:
        have(own)
    assert bad in text
    fix = re.search(r"fix: (ip link set dev tcp0 address (\S+))", text)
    assert not tag.in_prefix(fix[2])
    have(fix[2])
    process.run(lab.exec_argv("node0", [*tag_command(interfaces=["tcp0"]), "true"]))
    have(own)


def test_without_the_privilege(lab: Lab) -> None:
    lacking = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    text = refused(lab.exec_argv("node0", [*lacking, *tag_command(), "true"]))
    assert "may not load eBPF programs; fix: run as root" in text


NEEDED = ("bpf", "perfmon", "net_admin")


@contextmanager
def as_user(lab: Lab, tmp_path: Path, capabilities: Iterable[str]) -> Iterator[list[str]]:
    """What comes before the arguments of a hk-tagger with these, run by an ordinary user in a
    cgroup of its own on node0."""
    binary = tmp_path / "hk-tagger"
    shutil.copy(built("tagger/hk-tagger"), binary)
    names = ",".join(f"cap_{name}" for name in capabilities)
    process.run(["setcap", f"{names}+ep", str(binary)])
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    place = next(at for _, at, kind, *_ in mounts if kind == "cgroup2")
    own = Path(place) / f"delegated-{os.getpid()}"
    own.mkdir()
    try:
        for each in (own, own / "cgroup.procs"):
            shutil.chown(each, "nobody")
        for each in (tmp_path, *tmp_path.parents[:2]):
            each.chmod(0o755)
        enter = f'echo $$ > {own}/cgroup.procs; exec "$@"'
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        yield lab.exec_argv("node0", ["sh", "-c", enter, "sh", *user, str(binary)])
    finally:

        def removed() -> bool:
            with suppress(OSError):  # while a process of the user's ends, it is busy
                own.rmdir()
            return not own.exists()

        process.wait_until("the user's job to end", removed, SOON)


@pytest.mark.parametrize("attach", ["tcx", "clsact"])
def test_an_ordinary_user_with_the_least_capabilities(clsact: Lab, tmp_path, attach) -> None:
    """What docs/tagger.md says; the command has none of them."""
    show = "cat /proc/self/cgroup; grep CapEff /proc/self/status"
    argv = ["--iface", "tcp0", "--restore", "--attach", attach, "--", "sh", "-c", show]
    with as_user(clsact, tmp_path, NEEDED) as tagger:
        said = process.run([*tagger, *argv])
    assert re.search(r"^0::/delegated-\d+/hikyaku-tag-1-\d+$", said, re.M)
    assert re.search(r"^CapEff:\s*0+$", said, re.M)


@pytest.mark.parametrize("lacking", NEEDED)
def test_an_ordinary_user_without_one_of_them(lab: Lab, tmp_path, lacking: str) -> None:
    with as_user(lab, tmp_path, [name for name in NEEDED if name != lacking]) as tagger:
        text = refused([*tagger, "--iface", "tcp0", "--", "true"])
    assert "fix: run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin+ep hk-tagger" in text


def test_without_cgroup2(lab: Lab) -> None:
    script = (
        'for m in $(awk \'$3 == "cgroup2" {print $2}\' /proc/self/mounts); do umount $m; done; "$@"'
    )
    argv = ["sh", "-c", script, "sh", *tag_command(), "true"]
    text = refused(lab.exec_argv("node0", argv))
    assert "no cgroup2 file system is mounted" in text
    assert "fix: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--job", "64"], "jobs have the numbers 1 to 63"),
        (["--attach", "x"], "--attach x: there are auto, tcx and clsact"),
        (["--job", "x"], "jobs have the numbers 1 to 63"),
        (["--iface", "nope0"], "no Ethernet interface 'nope0'"),
        (["--iface", "lo"], "no Ethernet interface 'lo'"),
        (["--library", "/nowhere"], "cannot read /nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options(lab: Lab, options: list[str], says: str) -> None:
    binary = str(built("tagger/hk-tagger"))
    assert says in refused(lab.exec_argv("node0", [binary, *options, "--", "true"]))


def test_others_taggers_are_not_ours(lab: Lab, nothing_left: Callable[[], bool]) -> None:
    """The tagger of somebody who is not of the lab does not keep this file's tests waiting."""
    argv = ["env", "HIKYAKU_LAB_ID=other", *tag_command(interfaces=["tcp0"]), "cat"]
    with started(lab, "node0", *argv, stdout=subprocess.PIPE) as command:
        command.stdin.write("it runs\n")
        command.stdin.flush()
        assert command.stdout.readline() == "it runs\n"
        (stranger,) = others(lab)
        assert programs_of(stranger)
        assert nothing_left()
        command.communicate(timeout=SOON)  # the end of cat's input


def test_who_is_not_of_the_job_cannot_join(lab: Lab, hikyaku: list[str]) -> None:
    """A process outside of the cgroup names itself a rank; others say what nobody says."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity"):
        holder(lab, hikyaku)
        (path,) = (lab.node_directory("node0") / "run").glob("tag-*/tagger")

        def say(message: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(SOON)
                sock.connect(str(path))
                sock.send(message)
                return sock.recv(512)

        magic = (0x47544B48).to_bytes(4, sys.byteorder)
        join = magic + bytes([1, 0, 1, 0]) + bytes(4) + bytes([2, 0, 0, 0])
        assert b"is not of job 1" in say(join)
        for bad in (
            b"x",
            join[:-1],
            join + b"x",
            bytes(16),
            magic + bytes([9, 0, 1, 0]) + bytes(8),
        ):
            assert say(bad) == b"", bad
        assert status(lab, "node0", hikyaku)[0]["ranks"] == []


def test_a_registrar_that_nobody_is(lab: Lab, program) -> None:
    """The program runs all the same, untagged, and says why."""
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "1", program("tests/mpi/mpi_functions")]
    tagger = tag_command(interfaces=["tcp0"], registrar="secret@/nowhere/socket")
    done = subprocess.run(
        lab.exec_argv("node0", [*tagger, *mpirun]),
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "PASS functions" in done.stdout
    said = "this rank is not tagged: the job's registrar at /nowhere/socket is not reached"
    assert said in done.stderr
    assert "; fix: it runs beside mpirun" in done.stderr


def test_decode(hikyaku: list[str]) -> None:
    good = process.run([*hikyaku, "tag", "decode", "66:48:0d:00:00:05"])
    assert good == "job 3 bcast from rank 0 to rank 5\n"
    bad = subprocess.run(
        [*hikyaku, "tag", "decode", "02:00:00:00:00:01"],
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert bad.returncode == 1
    assert "outside of the tags' prefix; fix:" in bad.stderr
