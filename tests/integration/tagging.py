# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the tagger's tests: captured frames, running taggers and jobs, and leftovers.

The tests import its fixtures by name.
"""

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

from execute import execute
from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab
from hikyaku.sdn.tag import NoTag, Tag

SOON = 30  # seconds, on a busy machine
OUTGOING = 4  # PACKET_OUTGOING
IPV4, UDP, TCP = b"\x08\x00", 17, 6

# A program that copies frames to its output, as lines, until its input ends. Its first line says
# that it listens. It prints frames only after a line of input, which acknowledges the first line:
# communicate() would lose bytes that readline() has read ahead. The tagged frames of an endless job
# would be too many, so a socket filter can drop them. At the end another filter drops all frames:
# otherwise reading would never end on a wire with constant traffic.
SNIFFER = """
import ctypes, itertools, select, socket, struct, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
sock.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA: the kernel takes VLAN tags off

def attach(*code):
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    fprog = struct.pack("HL", len(code), ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, 26, fprog)  # SO_ATTACH_FILTER

if sys.argv[2] == "untagged":
    # load the first two octets; if they are 66:48, drop the frame, else keep all of it
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
        frame, more, _, address = sock.recvmsg(1 << 17, socket.CMSG_SPACE(20))
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", more[0][2])
        vlan = tpid << 16 | tci if status & 0x10 else -1  # TP_STATUS_VLAN_VALID
        print(address[2], len(frame), vlan, frame[:256].hex())
    except BlockingIOError:
        if ended:
            break
        select.select([sock, 0], [], [])
"""


@dataclass
class Frame:
    """The start of a frame, as it was on the wire."""

    outgoing: bool
    size: int  # without a VLAN tag
    vlan: int | None  # such as 0x8100c000: EtherType and contents of a VLAN tag
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
        """The length of the IP packet."""
        return int.from_bytes(self.raw[16:18], "big")

    @property
    def tag(self) -> Tag | None:
        try:
            return Tag.parse(self.to)
        except NoTag:
            return None

    def without_ip_id(self) -> bytes:
        """The bytes without IP's identification and the checksum that covers it."""
        return self.raw[:18] + self.raw[20:24] + self.raw[26:]


@contextmanager
def started(lab: Lab, node: str | None, *argv: str, **options) -> Iterator[subprocess.Popen]:
    """A process on @node, or in the namespace of the switch, that prints a line when it is ready.
    It is killed at the end of the block."""
    if node:
        command = lab.exec_argv(node, list(argv))
    else:
        command = ["ip", "netns", "exec", lab.topology.switch_netns, *argv]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **options)
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=SOON)


@contextmanager
def captured(
    lab: Lab, node: str | None, frames: list[Frame], which: str = "all", link: str = "tcp0"
) -> Iterator[None]:
    """Appends the frames on @link of @node, or of the switch, to @frames. @which: "all" or
    "untagged"."""
    argv = [sys.executable, "-c", SNIFFER, link, which]
    with started(lab, node, *argv, stdout=subprocess.PIPE) as sniffer:
        assert sniffer.stdout.readline() == "ready\n"
        sniffer.stdin.write("\n")
        sniffer.stdin.flush()
        yield
        out, _ = sniffer.communicate(timeout=SOON)
        for line in out.splitlines():
            kind, size, vlan, raw = line.split()
            tag = None if vlan == "-1" else int(vlan)
            frames.append(Frame(int(kind) == OUTGOING, int(size), tag, bytes.fromhex(raw)))


def mac_of(lab: Lab, node: str) -> str:
    argv = lab.exec_argv(node, ["ip", "-json", "link", "show", "tcp0"])
    return json.loads(process.run(argv))[0]["address"]


def taggers_outside(lab: Lab) -> list[Path]:
    """The /proc directories of running taggers that do not belong to @lab."""
    ours = f"HIKYAKU_LAB_ID={lab.topology.lab_id}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            tagger = (place / "comm").read_text() == "hk-tagger\n"
            if tagger and ours not in (place / "environ").read_bytes().split(b"\0"):
                found.append(place)
    return found


def programs_of(place: Path) -> set[int]:
    """The eBPF programs that the process with the /proc directory @place has open."""
    held = set()
    for each in place.glob("fdinfo/*"):
        with suppress(OSError):
            held |= {int(n) for n in re.findall(r"^prog_id:\s*(\d+)", each.read_text(), re.M)}
    return held


def tagger_objects(lab: Lab) -> set[str]:
    """The eBPF programs and cgroups of taggers, except those of running taggers outside of @lab."""
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    programs = [
        p["id"]
        for p in json.loads(process.run([bpftool, "-j", "prog"]))
        if p.get("name", "").startswith("hk_")
    ]
    cgroups = [  # os.walk() skips directories that vanish meanwhile
        Path(above, name)
        for above, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith("hikyaku-tag-")
    ]
    # after the lists, so that the owner of each entry is found if it still runs
    outside = taggers_outside(lab)
    held = set().union(*map(programs_of, outside))
    pids = {place.name for place in outside}
    return {f"program {n}" for n in programs if n not in held} | {
        str(each) for each in cgroups if each.name.rpartition("-")[2] not in pids
    }


@pytest.fixture
def nothing_left(get_lab) -> Callable[[], bool]:
    """Returns whether all objects that this test's taggers made are gone. Objects from before the
    test do not count, nor those of taggers outside of the lab."""
    lab = get_lab(2, "memif", 1)
    before = tagger_objects(lab)
    return lambda: tagger_objects(lab) <= before


@pytest.fixture
def lab(get_lab, nothing_left) -> Iterator[Lab]:
    """Two nodes. The test fails if objects of the tagger are left at its end."""
    yield get_lab(2, "memif", 1)
    try:
        process.wait_until("the tagger's programs and cgroups to be gone", nothing_left, SOON)
    except HikyakuError as late:
        pytest.fail(f"{late}: {sorted(tagger_objects(get_lab(2, 'memif', 1)))}")


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


def status_of_busy_job(lab: Lab, hikyaku: list[str]) -> dict:
    """Waits until the job on node0 has used five MPI functions, and returns its status."""
    seen: list[dict] = []

    def busy() -> bool:
        seen[:] = status(lab, "node0", hikyaku)
        return len(seen) == 1 and len(seen[0]["tagged"]) >= 5

    process.wait_until("the job to use five functions", busy, SOON)
    return seen[0]


def holder(lab: Lab, hikyaku: list[str]) -> int:
    """Waits until a tagger runs on node0, and returns the PID of its holder."""

    def runs() -> bool:
        return len(status(lab, "node0", hikyaku)) == 1

    process.wait_until("the tagger to answer", runs, SOON)
    return status(lab, "node0", hikyaku)[0]["pid"]


def refused(argv: list[str]) -> str:
    """Runs a command that must be refused with one line of text, and returns that line."""
    done = execute(argv, code=2, timeout=SOON)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def tc(lab: Lab, node: str, *arguments: str) -> str:
    return process.run(lab.exec_argv(node, ["tc", *arguments]))


def filters(lab: Lab, node: str) -> list[str]:
    """The filters of tcp0 of @node, as tc shows them without -statistics."""
    return [
        line
        for direction in ("ingress", "egress")
        for line in tc(lab, node, "filter", "show", "dev", "tcp0", direction).splitlines()
    ]


@pytest.fixture
def clsact(lab: Lab) -> Iterator[Lab]:
    """The lab. At the end it removes the discipline clsact, and checks that no filter of ours is
    left."""
    yield lab
    for node in ("node0", "node1"):
        left = filters(lab, node)
        if "clsact" in tc(lab, node, "qdisc", "show", "dev", "tcp0"):
            tc(lab, node, "qdisc", "del", "dev", "tcp0", "clsact")
        assert not [line for line in left if "hk_" in line]
