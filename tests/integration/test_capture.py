# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku capture`: real jobs in the lab, in each host mode, as tshark and our dissector see them.

The files are also read by a few lines of our own (pcapng.py), which hold them to the letter.
"""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.lab import kill, network
from pcapng import IN, LUA, OUT, dissect, read

SOON = 30  # seconds, on a machine that does much else
MODES = ["inline", "hybrid", "daemon", "split"]
WHOSE = {
    "inline": ["rank"],
    "hybrid": ["rank", "poller"],
    "daemon": ["switch"],
    "split": ["switch", "rank", "poller"],
}
NUMBERED = (1, 2)  # DATA and PUT

# ---- jobs and captures ---------------------------------------------------------------------------


class Capture:
    """`hikyaku capture` in the background."""

    def __init__(self, argv: list[str], place: Path):
        self.file = place / "capture.pcapng"
        self.log = place / "said"
        with self.log.open("wb") as log:
            self.tool = subprocess.Popen(
                [*argv, "-w", str(self.file)], stdout=subprocess.DEVNULL, stderr=log
            )

    def said(self) -> str:
        return self.log.read_text()

    def captures(self, what: str) -> None:
        """Waits until it has begun with a process that is called so."""
        pattern = re.compile(rf"^hikyaku capture: {what}.* \(process \d+\)$", re.MULTILINE)
        process.wait_until(f"a capture of {what}", lambda: bool(pattern.search(self.said())), SOON)

    def size(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def grows(self, by: int = 10000) -> None:
        size = self.size()
        process.wait_until("frames", lambda: self.size() > size + by, SOON)

    def end(self, signum: int | None = signal.SIGINT) -> int:
        if signum:
            self.tool.send_signal(signum)
        return self.tool.wait(timeout=SOON)


@pytest.fixture
def capture(hikyaku, lab, tmp_path) -> Iterator[Callable[..., Capture]]:
    """capture("node0", "--count", "5")"""
    begun: list[Capture] = []

    def begin(node: str, *arguments: str) -> Capture:
        place = tmp_path / f"capture-{len(begun)}"
        place.mkdir()
        argv = [*hikyaku, "capture", "--lab", lab.name, "--node", node, *arguments]
        begun.append(Capture(argv, place))
        return begun[-1]

    yield begin
    for each in begun:
        each.tool.kill()
        each.tool.wait()


@pytest.fixture
def job(lab, hikyaku, program) -> Iterator[Callable[..., subprocess.Popen]]:
    """job("hybrid") starts two ranks that send until the test is over, or `rounds`."""
    jobs: list[subprocess.Popen] = []

    def start(mode: str, rounds: int = 100000, *mca: str) -> subprocess.Popen:
        argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--host", mode, *mca, "-np", "2"]
        argv += [program("tests/mpi/mpi_hand_over"), "--rounds", str(rounds), "--timeout", "100"]
        jobs.append(
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        return jobs[-1]

    yield start
    for each in jobs:
        each.send_signal(signal.SIGTERM)
        each.communicate(timeout=40)


def ask(hikyaku: list[str], *arguments: str) -> subprocess.CompletedProcess:
    argv = [*hikyaku, "capture", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


# ---- what is in a file ---------------------------------------------------------------------------


def packets(frames: list[dict], direction: int) -> Counter:
    return Counter(
        (f["src"], f["psn"], f["tsval"])
        for f in frames
        if f["direction"] == direction and f["type"] in NUMBERED
    )


@pytest.mark.parametrize("mode", MODES)
def test_frames_of_a_job(capture, job, mode):
    """From its first frame to its last, at both ends of the wire: what the one sent, the other
    received, and each packet once, whoever moved it."""
    ends = [capture("node0", "--wait"), capture("node1", "--wait")]
    tool = job(mode, 2)
    said, _ = tool.communicate(timeout=100)
    assert "PASS hand_over" in said
    frames = []
    for node, each in enumerate(ends):
        process.wait_until(
            "the job's end to be told", lambda each=each: "has ended" in each.said(), SOON
        )
        assert each.end() == 0
        assert " 0 dropped" in each.said()
        interfaces = read(each.file)
        whose = WHOSE[mode]
        assert {i.name.split()[0] for i in interfaces} <= set(whose)
        assert whose[0] in [i.name.split()[0] for i in interfaces]
        for i in interfaces:
            assert "memif:socket=" in i.name
            assert i.options[15] == b"net_memif"
            assert i.dropped == 0
            assert i.seen == i.packets == i.count(8)
        frames.append(dissect(each.file))
        mine = 1 << 20 | node
        for f in frames[node]:
            assert f["src" if f["direction"] == OUT else "dst"] == mine
        assert len({f["key"] for f in frames[node]}) == 1
    for here, there in ((0, 1), (1, 0)):
        sent = [f for f in frames[here] if f["direction"] == OUT and f["type"] in NUMBERED]
        first = [f["psn"] for f in sent if not f["resent"]]
        assert len(first) > 1500
        assert sorted(first) == list(range(min(first), max(first) + 1))
        out, came = packets(frames[here], OUT), packets(frames[there], IN)
        assert max(out.values()) == max(came.values()) == 1
        early = [key for key in came if key[1] < min(first)]  # before this end was captured
        assert not came.keys() - out.keys() - set(early)
        assert len(came) > 1500


def test_standard_output_is_for_tshark(hikyaku, lab, capture, job):
    job("inline")
    capture("node1", "--wait").captures("rank 1")  # so that there is one; node0's is not taken
    argv = [*hikyaku, "capture", "--lab", lab.name, "--node", "node0", "--wait", "--count", "200"]
    tool = subprocess.Popen([*argv, "-w", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader = ["tshark", "-X", f"lua_script:{LUA}", "-r", "-", "-T", "fields", "-e", "hikyaku.type"]
    done = subprocess.run(
        reader, stdin=tool.stdout, capture_output=True, text=True, timeout=60, check=True
    )
    tool.stdout.close()
    assert len(done.stdout.split()) == 200
    assert b"200 frames written" in tool.communicate(timeout=SOON)[1]
    assert tool.returncode == 0
    # a reader that goes early ends it, and that is no failure
    tool = subprocess.Popen([*argv[:-2], "-w", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tool.stdout.read(8)
    tool.stdout.close()
    assert tool.wait(timeout=SOON) == 0
    tool.stderr.close()


def test_filters_and_lengths(capture, job):
    """Of three, one sees all, one its 40 first bytes and one nothing."""
    job("inline", 100000)
    first = capture("node0", "--wait", "--snaplen", "20", "--rank", "1", "--count", "500")
    assert first.end(None) == 0
    (interface,) = read(first.file)
    assert (interface.packets, interface.longest, interface.snaplen) == (500, 20, 20)
    assert interface.options[11] == b"\0rank 1"
    none = capture("node0", "--rank", "7", "--duration", "0.5")
    assert none.end(None) == 0
    (interface,) = read(none.file)
    assert interface.packets == 0
    assert interface.seen > 0
    assert "0 frames written" in none.said()


# ---- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES[:3])
def test_a_killed_capturer_leaves_nothing(lab, capture, job, program, mode):
    """The job goes on, and the next one may capture at once."""
    tool = job(mode)
    first = capture("node0", "--wait")
    first.captures("rank 0")
    first.grows()
    first.end(signal.SIGKILL)
    inode = network.namespace_inode(lab.topology.nodes[0].netns)

    def rings() -> list[str]:
        held = []
        for pid in process.find(namespaces=[inode]):
            try:
                text = Path(f"/proc/{pid}/maps").read_text()
            except OSError:
                continue
            held += re.findall(r"hikyaku-capture.*", text)
        return held

    process.wait_until("the rings to be given back", lambda: not rings(), SOON)
    second = capture("node0")
    second.captures("rank 0")
    second.grows()
    assert tool.poll() is None
    assert second.end() == 0
    assert read(second.file)


@pytest.mark.parametrize("mode", MODES[:3])
def test_a_flood_is_dropped_and_counted(capture, job, mode):
    """A capturer that takes nothing for a while holds nobody up."""
    tool = job(mode)
    slow = capture("node0", "--wait", "--buffer", "1")
    slow.captures("rank 0")
    slow.grows()
    slow.tool.send_signal(signal.SIGSTOP)
    other = capture("node1", "--wait")  # the job goes on meanwhile
    other.captures("rank 1")
    other.grows(2 << 20)  # the other end of the same wire: more than the slow one's ring holds
    assert other.end() == 0
    slow.tool.send_signal(signal.SIGCONT)
    assert slow.end() == 0
    assert tool.poll() is None
    interfaces = read(slow.file)
    assert sum(i.dropped for i in interfaces) > 500
    for i in interfaces:
        assert i.seen == i.packets + i.dropped
    assert f" {sum(i.dropped for i in interfaces)} dropped; fix: a larger --buffer" in slow.said()
    dissect(slow.file)  # what is there is whole


@pytest.mark.parametrize("mode", ["inline", "daemon"])
def test_a_rank_that_is_killed_ends_it(lab, capture, job, mode):
    job(mode)
    it = capture("node0", "--wait")
    it.captures("rank 0")
    it.grows()
    pid = int(re.search(r"rank 0 .*process (\d+)", it.said()).group(1))
    plain = capture("node1", "--wait")
    plain.captures("rank 1")
    it_ends = mode == "inline"
    kill.kill_rank(lab.topology, 0)
    died = f"(process {pid}) has died"
    process.wait_until("its death to be told", lambda: died in it.said(), SOON)
    it.end()
    assert it.tool.returncode == 1
    read(it.file)
    assert it_ends or "switch" in it.said()


def test_it_ends_with_the_last_process(capture, job):
    tool = job("inline", 60)
    first = capture("node0", "--wait")
    first.captures("rank 0")
    first.end()
    it = capture("node0")
    it.captures("rank 0")
    assert "PASS" in tool.communicate(timeout=100)[0]
    assert it.end(None) == 0
    assert "has ended" in it.said()
    for interface in read(it.file):
        assert interface.packets == interface.seen


# ---- whom ----------------------------------------------------------------------------------------


def test_a_daemon_and_its_ranks(hikyaku, lab, capture, job):
    job("daemon")
    some = capture("node0", "--wait")
    for what in ("switch", "poller", "rank 0"):
        some.captures(what)
    some.end()
    (name,) = kill.daemons(lab.topology.nodes[0], lab.node_directory("node0") / "run")
    it = capture("node0", "--daemon", name)
    for what in ("switch", "poller", "rank 0"):
        it.captures(what)
    it.grows()
    assert it.end() == 0
    assert [i.name.split()[0] for i in read(it.file)] == ["switch"]
    # the rank alone: its pipe
    pid = re.search(r"rank 0 .*process (\d+)", some.said()).group(1)
    it = capture("node0", "--pid", pid)
    it.captures("rank 0")
    it.grows()
    assert it.end() == 0
    (interface,) = read(it.file)
    assert interface.options[15] == b"pipe"
    assert {f["direction"] for f in dissect(it.file)} == {IN, OUT}
    done = ask(hikyaku, "--lab", lab.name, "--node", "node0", "--daemon", "absent")
    assert "no hikyakud 'absent' runs here" in done.stderr


def test_only_its_user_may(lab, program, capture, job):
    """And root. A copy of the program, since checkouts may lie where others cannot look."""
    job("inline")
    some = capture("node0", "--wait")
    some.captures("rank 0")
    pid = re.search(r"rank 0 .*process (\d+)", some.said()).group(1)
    some.end()
    with tempfile.TemporaryDirectory(prefix="hk-capture-") as place:
        Path(place).chmod(0o755)
        tool = Path(place) / "tool"
        shutil.copy(program("capture/hikyaku-capture"), tool)
        tool.chmod(tool.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(tool)]

        def run(*arguments: str) -> subprocess.CompletedProcess:
            argv = lab.exec_argv("node0", [*drop, *arguments])
            return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

        done = run()
        assert done.returncode == 1
        assert "nobody here moves frames" in done.stderr
        done = run("--pid", pid)
        assert done.returncode == 1
        assert f"process {pid} is user 0's; fix: capture as that user" in done.stderr


def test_a_rank_may_refuse(lab, hikyaku, capture, job):
    job("inline", 100000, "--mca", "btl_hikyaku_capture", "0")
    process.wait_until("ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
    argv = ["--lab", lab.name, "--node", "node0"]
    pid = next(r.pid for r in kill.ranks(lab.topology) if r.number == 0)
    process.wait_until(
        "its helper thread",
        lambda: (
            "hk-helper" in [p.read_text().strip() for p in Path(f"/proc/{pid}/task").glob("*/comm")]
        ),
        SOON,
    )
    done = ask(hikyaku, *argv)
    assert done.returncode == 1
    assert "nobody here moves frames" in done.stderr
    done = ask(hikyaku, *argv, "--pid", str(pid))
    assert done.returncode == 1
    assert f"process {pid} moves no frames of Hikyaku" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--lab", "default"], "--lab needs --node"),
        (["--pid", "1", "--wait"], "--pid excludes"),
        (["--job", "xyz"], "not a number from 0 to 4294967295 (hexadecimal)"),
        (["--duration", "-1"], "not a number of seconds"),
        (["--duration", "0", "-w", "x"], "not a number of seconds"),
        (["--snaplen", "0"], "not in the range"),
        (["--buffer", "3"], "Invalid value for '--buffer'"),
        (["--endpoint", "4294967296"], "--endpoint 4294967296: not a number"),
    ],
)
def test_wrong_options(hikyaku, tmp_path, arguments, complaint):
    done = ask(hikyaku, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written(hikyaku, lab, job, capture):
    job("inline")
    capture("node0", "--wait", "--count", "1").end(None)
    argv = [*hikyaku, "capture", "--lab", lab.name, "--node", "node0", "-w"]

    def run(file: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*argv, file], capture_output=True, text=True, timeout=60, check=False
        )

    done = run("/no/such/place")
    assert done.returncode == 2
    assert "cannot write /no/such/place: No such file or directory" in done.stderr
    done = run("/dev/full")
    assert done.returncode == 1
    assert "cannot write /dev/full: No space left on device" in done.stderr
    main, tty = os.openpty()
    done = subprocess.run([*argv, "-"], stdout=tty, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(main)
    os.close(tty)
    assert done.returncode == 2
    assert b"standard output is a terminal" in done.stderr
