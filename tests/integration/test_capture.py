# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku capture`: real jobs in the lab, in each mode. tshark and our dissector read the files.

pcapng.py reads them too, and checks each field of the format.
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

from execute import execute
from hikyaku import process
from hikyaku.lab import kill, network
from pcapng import IN, LUA, OUT, dissect, read

pytestmark = pytest.mark.one_core

SOON = 30  # seconds, on a busy machine
MODES = ["inline", "hybrid", "daemon", "split"]
CAPTURED = {  # the processes that move the frames of the port; the first one always does
    "inline": ["rank"],
    "hybrid": ["rank", "poller"],
    "daemon": ["switch"],
    "split": ["switch", "rank", "poller"],
}
NUMBERED = (1, 2)  # DATA and PUT
MANY = 300  # packets of two rounds; the fewer, the more messages waited and shared a frame

# ---- jobs and captures ---------------------------------------------------------------------------


class Capture:
    """`hikyaku capture` in the background."""

    def __init__(self, argv: list[str], place: Path):
        self.file = place / "capture.pcapng"
        self.log = place / "messages"
        with self.log.open("wb") as log:
            self.tool = subprocess.Popen(
                [*argv, "-w", str(self.file)], stdout=subprocess.DEVNULL, stderr=log
            )

    def messages(self) -> str:
        return self.log.read_text()

    def wait_for(self, name: str) -> None:
        """Waits until it captures the process @name, such as "rank 0" or "poller"."""
        line = re.compile(rf"^hikyaku capture: {name}.* \(process \d+\)$", re.MULTILINE)
        process.wait_until(f"a capture of {name}", lambda: bool(line.search(self.messages())), SOON)

    def size(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def wait_for_bytes(self, by: int = 10000) -> None:
        """Waits until the file has grown by so many bytes."""
        size = self.size()
        process.wait_until("frames", lambda: self.size() > size + by, SOON)

    def end(self, signum: int | None = signal.SIGINT) -> int:
        if signum:
            self.tool.send_signal(signum)
        return self.tool.wait(timeout=SOON)


@pytest.fixture
def capture(hikyaku, lab, tmp_path) -> Iterator[Callable[..., Capture]]:
    """capture("node0", "--count", "5") starts `hikyaku capture` on that node."""
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
    """job("hybrid") starts two ranks that send until the test ends, or for @rounds."""
    jobs: list[subprocess.Popen] = []

    def start(mode: str, rounds: int = 100000, *mca: str) -> subprocess.Popen:
        argv = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--mode", mode, *mca, "-np", "2"]
        argv += [program("tests/mpi/mpi_hand_over"), "--rounds", str(rounds), "--timeout", "100"]
        jobs.append(
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        return jobs[-1]

    yield start
    for each in jobs:
        end_job(each)


def end_job(tool: subprocess.Popen) -> None:
    """Ends it, if it has not ended. It uses both cores, and tshark would take three times as long
    beside it."""
    if tool.poll() is None:
        tool.send_signal(signal.SIGTERM)
        tool.communicate(timeout=40)


def ask(hikyaku: list[str], *arguments: str) -> subprocess.CompletedProcess:
    argv = [*hikyaku, "capture", *arguments]
    return execute(argv, code=None)


# ---- the frames in a file ------------------------------------------------------------------------


def packets(frames: list[dict], direction: int) -> Counter:
    return Counter(
        (f["src"], f["psn"], f["tsval"])
        for f in frames
        if f["direction"] == direction and f["type"] in NUMBERED
    )


@pytest.mark.parametrize("mode", MODES)
def test_frames_of_a_job(capture, job, mode):
    """Captures both ends of the wire, from the first frame to the last. Each end has each packet
    once, in every mode, and one end receives the packets that the other sends."""
    ends = [capture("node0", "--wait"), capture("node1", "--wait")]
    tool = job(mode, 2)
    said, _ = tool.communicate(timeout=100)
    assert "PASS hand_over" in said
    frames = []
    for node, each in enumerate(ends):
        process.wait_until(
            "the message that the job ended",
            lambda each=each: "has ended" in each.messages(),
            SOON,
        )
        assert each.end() == 0
        assert " 0 dropped" in each.messages()
        interfaces = read(each.file)
        expected = CAPTURED[mode]
        assert {i.name.split()[0] for i in interfaces} <= set(expected)
        assert expected[0] in [i.name.split()[0] for i in interfaces]
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
        assert len(first) > MANY
        assert sorted(first) == list(range(min(first), max(first) + 1))
        out, came = packets(frames[here], OUT), packets(frames[there], IN)
        assert max(out.values()) == max(came.values()) == 1
        early = [key for key in came if key[1] < min(first)]  # before the sender was captured
        assert not came.keys() - out.keys() - set(early)
        assert len(came) > MANY


def test_tshark_reads_standard_output(hikyaku, lab, capture, job):
    job("inline")
    # the job runs once rank 1 is captured; rank 0 stays free for the capture under test
    capture("node1", "--wait").wait_for("rank 1")
    argv = [*hikyaku, "capture", "--lab", lab.name, "--node", "node0", "--wait", "--count", "200"]
    tool = subprocess.Popen([*argv, "-w", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader = ["tshark", "-X", f"lua_script:{LUA}", "-r", "-", "-T", "fields", "-e", "hikyaku.type"]
    done = execute(reader, stdin=tool.stdout)
    tool.stdout.close()
    assert len(done.stdout.split()) == 200
    assert b"200 frames written" in tool.communicate(timeout=SOON)[1]
    assert tool.returncode == 0
    # a reader that closes the pipe early ends the capture, with status 0
    tool = subprocess.Popen([*argv[:-2], "-w", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tool.stdout.read(8)
    tool.stdout.close()
    assert tool.wait(timeout=SOON) == 0
    tool.stderr.close()


def test_filter_and_snaplen(capture, job):
    """One capture takes 20 bytes of each frame to one rank. Another has a filter that matches no
    frame."""
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
    assert "0 frames written" in none.messages()


# ---- the end of a capture, or of a process -------------------------------------------------------


@pytest.mark.parametrize("mode", MODES[:3])
def test_a_killed_capture_leaves_nothing(lab, capture, job, program, mode):
    """The job goes on, and another capture can begin at once."""
    tool = job(mode)
    first = capture("node0", "--wait")
    first.wait_for("rank 0")
    first.wait_for_bytes()
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

    process.wait_until("all processes to unmap the rings", lambda: not rings(), SOON)
    second = capture("node0")
    second.wait_for("rank 0")
    second.wait_for_bytes()
    assert tool.poll() is None
    assert second.end() == 0
    assert read(second.file)


@pytest.mark.parametrize("mode", MODES[:3])
def test_frames_that_do_not_fit_the_buffer_are_dropped_and_counted(capture, job, mode):
    """A capture that is stopped for a while does not delay the job."""
    tool = job(mode)
    slow = capture("node0", "--wait", "--buffer", "1")
    slow.wait_for("rank 0")
    slow.wait_for_bytes()
    slow.tool.send_signal(signal.SIGSTOP)
    other = capture("node1", "--wait")  # shows that the job goes on meanwhile
    other.wait_for("rank 1")
    other.wait_for_bytes(2 << 20)  # of the same wire, and more than the ring of @slow holds
    assert other.end() == 0
    slow.tool.send_signal(signal.SIGCONT)
    assert slow.end() == 0
    assert tool.poll() is None
    end_job(tool)
    interfaces = read(slow.file)
    assert sum(i.dropped for i in interfaces) > 500
    for i in interfaces:
        assert i.seen == i.packets + i.dropped
    dropped = sum(i.dropped for i in interfaces)
    assert f" {dropped} dropped; fix: use a larger --buffer" in slow.messages()
    dissect(slow.file)  # the frames in the file are complete


@pytest.mark.parametrize("mode", ["inline", "daemon"])
def test_the_death_of_a_rank_is_reported(lab, capture, job, mode):
    job(mode)
    first = capture("node0", "--wait")
    first.wait_for("rank 0")
    first.wait_for_bytes()
    pid = int(re.search(r"rank 0 .*process (\d+)", first.messages()).group(1))
    second = capture("node1", "--wait")
    second.wait_for("rank 1")
    kill.kill_rank(lab.topology, 0)
    died = f"(process {pid}) has died"
    process.wait_until("the message that it died", lambda: died in first.messages(), SOON)
    first.end()
    assert first.tool.returncode == 1
    read(first.file)
    assert mode == "inline" or "switch" in first.messages()


def test_capture_ends_with_the_last_process(capture, job):
    tool = job("inline", 300)  # longer than the captures take to begin
    first = capture("node0", "--wait")
    first.wait_for("rank 0")
    first.end()
    second = capture("node0")
    second.wait_for("rank 0")
    assert "PASS" in tool.communicate(timeout=100)[0]
    assert second.end(None) == 0
    assert "has ended" in second.messages()
    for interface in read(second.file):
        assert interface.packets == interface.seen


# ---- the choice of processes ---------------------------------------------------------------------


def test_a_daemon_and_its_ranks(hikyaku, lab, capture, job):
    job("daemon")
    all_processes = capture("node0", "--wait")
    for name in ("switch", "poller", "rank 0"):
        all_processes.wait_for(name)
    all_processes.end()
    (daemon,) = kill.daemons(lab.topology.nodes[0], lab.node_directory("node0") / "run")
    of_daemon = capture("node0", "--daemon", daemon)
    for name in ("switch", "poller", "rank 0"):
        of_daemon.wait_for(name)
    of_daemon.wait_for_bytes()
    assert of_daemon.end() == 0
    assert [i.name.split()[0] for i in read(of_daemon.file)] == ["switch"]
    # of the rank alone, the capture shows its pipe
    pid = re.search(r"rank 0 .*process (\d+)", all_processes.messages()).group(1)
    of_rank = capture("node0", "--pid", pid, "--count", "500")
    assert of_rank.end(None) == 0
    (interface,) = read(of_rank.file)
    assert interface.options[15] == b"pipe"
    assert {f["direction"] for f in dissect(of_rank.file)} == {IN, OUT}
    done = ask(hikyaku, "--lab", lab.name, "--node", "node0", "--daemon", "absent")
    assert "no hikyakud 'absent' runs here" in done.stderr


def test_another_user_may_not_capture(lab, program, capture, job):
    """Only root and the user of a process may. Another user runs a copy of the program, because
    the checkout may be in a directory that this user cannot read."""
    job("inline")
    ours = capture("node0", "--wait")
    ours.wait_for("rank 0")
    pid = re.search(r"rank 0 .*process (\d+)", ours.messages()).group(1)
    ours.end()
    with tempfile.TemporaryDirectory(prefix="hk-capture-") as place:
        Path(place).chmod(0o755)
        tool = Path(place) / "tool"
        shutil.copy(program("tools/capture/hikyaku-capture"), tool)
        tool.chmod(tool.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(tool)]

        def run(*arguments: str) -> subprocess.CompletedProcess:
            argv = lab.exec_argv("node0", [*drop, *arguments])
            return execute(argv, code=None)

        done = run()
        assert done.returncode == 1
        assert "no process here copies frames" in done.stderr
        done = run("--pid", pid)
        assert done.returncode == 1
        assert f"process {pid} belongs to user 0; fix: capture as that user" in done.stderr


def test_a_rank_can_refuse_captures(lab, hikyaku, capture, job):
    job("inline", 100000, "--mca", "btl_hikyaku_capture", "0")
    process.wait_until("ranks", lambda: len(kill.ranks(lab.topology)) == 2, SOON)
    argv = ["--lab", lab.name, "--node", "node0"]
    pid = next(r.pid for r in kill.ranks(lab.topology) if r.number == 0)
    process.wait_until(
        "its progress thread",
        lambda: (
            "hk-progress"
            in [p.read_text().strip() for p in Path(f"/proc/{pid}/task").glob("*/comm")]
        ),
        SOON,
    )
    done = ask(hikyaku, *argv)
    assert done.returncode == 1
    assert "no process here copies frames" in done.stderr
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
        (["--buffer", "3"], "invalid value for '--buffer'"),
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
        return execute([*argv, file], code=None)

    done = run("/no/such/place")
    assert done.returncode == 2
    assert "cannot write /no/such/place: No such file or directory" in done.stderr
    assert "/no/such/place may grow by 100 MB a second" in done.stderr
    limited = execute([*argv, "/no/such/place", "--count", "9"], code=2)
    assert "may grow" not in limited.stderr
    done = run("/dev/full")
    assert done.returncode == 1
    assert "cannot write /dev/full: No space left on device" in done.stderr
    main, tty = os.openpty()
    done = subprocess.run([*argv, "-"], stdout=tty, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(main)
    os.close(tty)
    assert done.returncode == 2
    assert b"standard output is a terminal" in done.stderr
