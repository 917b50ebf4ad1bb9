# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments are called as the fixtures that are imported)
"""What the tagger refuses, whom it does not believe, and what it needs."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.checkout import built
from hikyaku.lab import Lab
from hikyaku.sdn import tag
from hikyaku.sdn.tagger import tag_command

from .tagging import (  # noqa: F401 (fixtures)
    SOON,
    clsact,
    holder,
    lab,
    mac_of,
    nothing_left,
    others,
    programs_of,
    refused,
    started,
    status,
)


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


def test_who_has_a_jobs_number_is_named(lab: Lab) -> None:
    """Any user can bind the name by which a job is claimed, and it need not be a tagger."""
    bind = "import socket; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n"
    bind += "s.bind('\\0hikyaku-tag-7'); print('bound', flush=True); input()"
    argv = [sys.executable, "-c", bind]
    with started(lab, "node0", *argv, stdout=subprocess.PIPE) as squatter:
        assert squatter.stdout.readline() == "bound\n"
        text = refused(lab.exec_argv("node0", [*tag_command(job=7, interfaces=["tcp0"]), "true"]))
        comm = Path(f"/proc/{squatter.pid}/comm").read_text().strip()
        assert f"job 7 is taken on this node, by process {squatter.pid} ({comm}) of user 0" in text


def test_a_preload_of_any_length_is_kept(lab: Lab) -> None:
    own = ":".join(["libm.so.6"] * 600)
    argv = [*tag_command(interfaces=["tcp0"]), "sh", "-c", 'printf %s "$LD_PRELOAD"']
    said = process.run(lab.exec_argv("node0", ["env", f"LD_PRELOAD={own}", *argv]))
    assert said == f"{built('tagger/libhk_tag.so')}:{own}"


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
        assert b" is not of job " in say(join)  # 1, or what an earlier test has left free
        for bad in (
            b"x",
            join[:-1],
            join + b"x",
            bytes(16),
            magic + bytes([9, 0, 1, 0]) + bytes(8),
        ):
            assert say(bad) == b"", bad
        assert status(lab, "node0", hikyaku)[0]["ranks"] == []


def test_a_rank_has_one_address_for_the_controller(lab: Lab) -> None:
    """Of two interfaces nobody knows by which MPI sends, and tags from the other are dropped."""
    for interfaces in ([], ["ctl0", "tcp0"]):
        tagger = tag_command(interfaces=interfaces, registrar="secret@/nowhere/socket")
        text = refused(lab.exec_argv("node0", [*tagger, "true"]))
        assert "which have different addresses" in text
        assert "fix: --iface NAME, the one interface that MPI sends by" in text
    one = tag_command(interfaces=["tcp0"], registrar="secret@/nowhere/socket")
    process.run(lab.exec_argv("node0", [*one, "true"]))


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


# A registrar, and ranks of a job that join: the others while the first one's answer is waited for.
# The second answer refuses.
TOGETHER = """
import os, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
server.settimeout(30)

def rank(number):
    said, pid = os.pipe(), os.fork()
    if pid:
        return os.fdopen(said[0], "rb")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(30)
    sock.connect(os.environ["HIKYAKU_TAG_SOCKET"])
    sock.send(struct.pack("=IHHII", 0x47544B48, 1, 1, number, 4))
    os.write(said[1], b"j")
    answer = sock.recv(512)
    os.write(said[1], struct.pack("=i", struct.unpack_from("=i", answer, 4)[0]) + answer[12:52])
    os._exit(0)

def told(answer, meanwhile=lambda: None):
    sock, _ = server.accept()
    print(sock.makefile().readline().split()[1], flush=True)
    meanwhile()
    sock.sendall(answer)
    sock.close()

def others():
    ranks.extend(rank(n) for n in (1, 2, 3))
    assert all(r.read(1) == b"j" for r in ranks)

ranks = [rank(0)]
told(b"ok\\n", others)
told(b"no room\\n")
for each in ranks:
    status, text = struct.unpack("=i40s", each.read(44))
    print(status == 0, text.rstrip(b"\\0").decode())
"""


def test_ranks_that_join_together_are_told_together(lab: Lab, tmp_path: Path) -> None:
    """None waits for the controller's answer to each of the others; each hears its own answer."""
    path = tmp_path / "r"
    tagger = tag_command(interfaces=["tcp0"], registrar=f"secret@{path}")
    said = process.run(
        lab.exec_argv("node0", [*tagger, sys.executable, "-c", TOGETHER, str(path)]), timeout=SOON
    )
    assert said.splitlines() == ["0", "1,2,3", "True ", *["False no room"] * 3]


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
