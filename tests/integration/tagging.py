# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the tagger share: frames as a capture on the wire sees them, taggers and jobs
that run, and what is left of them. Its fixtures are imported by name."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.lab import Lab
from hikyaku.sdn.tag import NoTag, Tag

SOON = 30  # seconds, on a machine that does much else
OUTGOING = 4  # PACKET_OUTGOING
IPV4, UDP, TCP = b"\x08\x00", 17, 6

# Copies frames to its output, as lines, until its input ends. Its first line says that it listens,
# and the others wait until that was read: communicate() loses what readline() has read too far.
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
sys.stdin.readline()
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
    def length(self) -> int:
        """Of the IP packet."""
        return int.from_bytes(self.raw[16:18], "big")

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
        sniffer.stdin.write("\n")
        sniffer.stdin.flush()
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


def busy(lab: Lab, hikyaku: list[str]) -> dict:
    """Waits until the job on node0 has been seen in five functions; its status."""
    seen: list[dict] = []

    def there() -> bool:
        seen[:] = status(lab, "node0", hikyaku)
        return len(seen) == 1 and len(seen[0]["tagged"]) >= 5

    process.wait_until("five functions to be seen", there, SOON)
    return seen[0]


def holder(lab: Lab, hikyaku: list[str]) -> int:
    def there() -> bool:
        return len(status(lab, "node0", hikyaku)) == 1

    process.wait_until("the tagger to answer", there, SOON)
    return status(lab, "node0", hikyaku)[0]["pid"]


def refused(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


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
