# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F811 (arguments have the names of imported fixtures)
"""Errors of the tagger: missing privileges, wrong options, and messages of unrelated processes."""

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

from execute import execute
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
    programs_of,
    refused,
    started,
    status,
    taggers_outside,
)


def test_an_interface_address_within_the_prefix_of_tags(lab: Lab) -> None:
    """The tagger refuses it on any interface, even one that it would not tag."""
    own = mac_of(lab, "node0")
    bad = "66:48:0d:00:00:05"
    assert tag.in_prefix(bad)

    def set_address(address: str) -> None:
        process.run(
            lab.exec_argv("node0", ["ip", "link", "set", "dev", "tcp0", "address", address])
        )

    set_address(bad)
    try:
        text = refused(lab.exec_argv("node0", [*tag_command(interfaces=["ctl0"]), "true"]))
    finally:
        set_address(own)
    assert bad in text
    fix = re.search(r"fix: (ip link set dev tcp0 address (\S+))", text)
    assert not tag.in_prefix(fix[2])
    set_address(fix[2])
    process.run(lab.exec_argv("node0", [*tag_command(interfaces=["tcp0"]), "true"]))
    set_address(own)


def test_without_capabilities(lab: Lab) -> None:
    lacking = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    text = refused(lab.exec_argv("node0", [*lacking, *tag_command(), "true"]))
    assert "may not load eBPF programs; fix: run as root" in text


NEEDED = ("bpf", "perfmon", "net_admin")
SECRET_MAX = 68  # HK_REGISTRAR_SECRET_MAX of systems/sdn/registrar/registrar.h


@contextmanager
def as_user(lab: Lab, tmp_path: Path, capabilities: Iterable[str]) -> Iterator[list[str]]:
    """The start of a command line, to which the arguments of hk-tagger are added. It runs a copy of
    hk-tagger with @capabilities on node0, as an ordinary user in a cgroup of its own."""
    binary = tmp_path / "hk-tagger"
    shutil.copy(built("systems/sdn/tagger/hk-tagger"), binary)
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
            with suppress(OSError):  # the cgroup is busy while a process in it ends
                own.rmdir()
            return not own.exists()

        process.wait_until("the user's job to end", removed, SOON)


@pytest.mark.parametrize("attach", ["tcx", "clsact"])
def test_an_ordinary_user_with_the_least_capabilities(clsact: Lab, tmp_path, attach) -> None:
    """The capabilities that docs/tagger.md names are enough. The command does not get them."""
    show = "cat /proc/self/cgroup; grep CapEff /proc/self/status"
    argv = ["--iface", "tcp0", "--restore", "--attach", attach, "--", "sh", "-c", show]
    with as_user(clsact, tmp_path, NEEDED) as tagger:
        output = process.run([*tagger, *argv])
    assert re.search(r"^0::/delegated-\d+/hikyaku-tag-1-\d+$", output, re.M)
    assert re.search(r"^CapEff:\s*0+$", output, re.M)


@pytest.mark.parametrize("lacking", ["bpf", "net_admin"])  # perfmon: with Linux 6.1
def test_an_ordinary_user_without_one_capability(lab: Lab, tmp_path, lacking: str) -> None:
    """The printed command gives it to the program."""
    with as_user(lab, tmp_path, [name for name in NEEDED if name != lacking]) as tagger:
        argv = [*tagger, "--iface", "tcp0", "--", "true"]
        text = refused(argv)
        assert "fix: run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin+ep /" in text
        process.run(["sh", "-c", text.rpartition("or: ")[2]])
        process.run(argv)


def test_without_cgroup2(lab: Lab) -> None:
    script = (
        'for m in $(awk \'$3 == "cgroup2" {print $2}\' /proc/self/mounts); do umount $m; done; "$@"'
    )
    argv = ["sh", "-c", script, "sh", *tag_command(), "true"]
    text = refused(lab.exec_argv("node0", argv))
    assert "no cgroup2 file system is mounted" in text
    assert "fix: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2" in text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--job", "64"], "not a job number; fix: use 1 to 63"),
        (["--attach", "x"], "--attach x: unknown way; fix: use auto, tcx or clsact"),
        (["--job", "x"], "not a job number; fix: use 1 to 63"),
        (["--iface", "nope0"], "no Ethernet interface 'nope0'"),
        (["--iface", "lo"], "no Ethernet interface 'lo'"),
        (["--library", "/nowhere"], "cannot read /nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options(lab: Lab, options: list[str], error: str) -> None:
    binary = str(built("systems/sdn/tagger/hk-tagger"))
    assert error in refused(lab.exec_argv("node0", [binary, *options, "--", "true"]))


def test_the_process_that_has_a_job_number_is_named(lab: Lab) -> None:
    """A tagger claims a job number by binding a socket name. Any process can bind this name."""
    bind = "import socket; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n"
    bind += "s.bind('\\0hikyaku-tag-7'); print('bound', flush=True); input()"
    argv = [sys.executable, "-c", bind]
    with started(lab, "node0", *argv, stdout=subprocess.PIPE) as squatter:
        assert squatter.stdout.readline() == "bound\n"
        text = refused(lab.exec_argv("node0", [*tag_command(job=7, interfaces=["tcp0"]), "true"]))
        comm = Path(f"/proc/{squatter.pid}/comm").read_text().strip()
        assert f"job 7 is in use on this node, by process {squatter.pid} ({comm}) of user 0" in text


def test_a_long_ld_preload_is_kept(lab: Lab) -> None:
    own = ":".join(["libm.so.6"] * 600)
    argv = [*tag_command(interfaces=["tcp0"]), "sh", "-c", 'printf %s "$LD_PRELOAD"']
    preload = process.run(lab.exec_argv("node0", ["env", f"LD_PRELOAD={own}", *argv]))
    assert preload == f"{built('systems/sdn/tagger/libhk_tag.so')}:{own}"


def test_taggers_outside_of_the_lab_do_not_count_as_leftovers(
    lab: Lab, nothing_left: Callable[[], bool]
) -> None:
    """Otherwise the tests of this file would wait until such a tagger ends."""
    other = f"HIKYAKU_LAB_ID={lab.topology.lab_id}-other"
    argv = ["env", other, *tag_command(interfaces=["tcp0"]), "cat"]
    with started(lab, "node0", *argv, stdout=subprocess.PIPE) as command:
        command.stdin.write("it runs\n")
        command.stdin.flush()
        assert command.stdout.readline() == "it runs\n"
        # tests that run beside this one have taggers, too
        (outside,) = (p for p in taggers_outside(lab) if other in (p / "environ").read_text())
        assert programs_of(outside)
        assert nothing_left()
        command.communicate(timeout=SOON)  # ends the input of cat


def test_a_process_outside_of_the_job_cannot_join(lab: Lab, hikyaku: list[str]) -> None:
    """A process outside of the job's cgroup sends a valid request, and several malformed ones."""
    with started(lab, "node0", *tag_command(interfaces=["tcp0"]), "sleep", "infinity"):
        holder(lab, hikyaku)
        (path,) = (lab.node_directory("node0") / "run").glob("tag-*/tagger")

        def answer(message: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(SOON)
                sock.connect(str(path))
                sock.send(message)
                return sock.recv(512)

        magic = (0x47544B48).to_bytes(4, sys.byteorder)
        join = magic + bytes([2, 0, 1, 0]) + bytes(4) + bytes([2, 0, 0, 0]) + bytes(SECRET_MAX)
        # not always job 1: a tagger of an earlier test may still have that number
        assert b" does not belong to job " in answer(join)
        for bad in (
            b"x",
            join[:-1],
            join + b"x",
            bytes(16),
            magic + bytes([9, 0, 1, 0]) + bytes(8),
        ):
            assert answer(bad) == b"", bad
        assert status(lab, "node0", hikyaku)[0]["ranks"] == []


def test_a_registrar_requires_one_interface(lab: Lab) -> None:
    """With two interfaces, the tagger does not know by which one MPI sends. The controller gets one
    address for each rank, and switches would drop tags from the other interface."""
    for interfaces in ([], ["ctl0", "tcp0"]):
        tagger = tag_command(interfaces=interfaces, registrar="secret@/nowhere/socket")
        text = refused(lab.exec_argv("node0", [*tagger, "true"]))
        assert "have different addresses" in text
        assert "fix: name the one that MPI uses, such as --iface " in text
    one = tag_command(interfaces=["tcp0"], registrar="secret@/nowhere/socket")
    process.run(lab.exec_argv("node0", [*one, "true"]))


def test_a_registrar_that_does_not_run(lab: Lab, program) -> None:
    """The program runs nevertheless, without tags, and prints the reason."""
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "1", program("tests/mpi/mpi_functions")]
    tagger = tag_command(interfaces=["tcp0"], registrar="secret@/nowhere/socket")
    done = execute(lab.exec_argv("node0", [*tagger, *mpirun]), timeout=SOON)
    assert "PASS functions" in done.stdout
    reason = "this rank is not tagged: cannot reach the job's registrar at /nowhere/socket"
    assert reason in done.stderr
    assert "; fix: it runs beside mpirun" in done.stderr


# A registrar, and four ranks of a job. Three ranks join while the first one waits for its answer.
# The registrar's second answer, for these three, is a refusal.
TOGETHER = """
import os, socket, struct, sys
from hikyaku.sdn.registrar import FROM_US, TO_US, sign
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
server.settimeout(30)

def rank(number):
    pipe, pid = os.pipe(), os.fork()
    if pid:
        return os.fdopen(pipe[0], "rb")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(30)
    sock.connect(os.environ["HIKYAKU_TAG_SOCKET"])
    sock.send(struct.pack("=IHHII68s", 0x47544B48, 2, 1, number, 4, b"key"))
    os.write(pipe[1], b"j")
    answer = sock.recv(512)
    os.write(pipe[1], struct.pack("=i", struct.unpack_from("=i", answer, 4)[0]) + answer[12:52])
    os._exit(0)

def respond(answer, meanwhile=lambda: None):
    sock, _ = server.accept()
    sock.sendall(b"nonce\\n")
    given, _, text = sock.makefile().readline().strip().partition(" ")
    assert given == sign("key", TO_US, "nonce", text), "its rank brought the secret"
    numbers = text.split()[0].split(",")  # in the order of arrival
    print(",".join(sorted(numbers)), flush=True)
    meanwhile()
    sock.sendall(f"{sign('key', FROM_US, 'nonce', answer)} {answer}\\n".encode())
    sock.close()

def others():
    ranks.extend(rank(n) for n in (1, 2, 3))
    assert all(r.read(1) == b"j" for r in ranks)

ranks = [rank(0)]
respond("ok", others)
respond("no room")
for each in ranks:
    status, text = struct.unpack("=i40s", each.read(44))
    print(status == 0, text.rstrip(b"\\0").decode())
"""


def test_ranks_that_join_at_once_are_registered_in_one_request(lab: Lab, tmp_path: Path) -> None:
    """So no rank waits for the answers to all others. Each gets the answer to its own request."""
    path = tmp_path / "r"
    tagger = tag_command(interfaces=["tcp0"], registrar=str(path))
    output = process.run(
        lab.exec_argv("node0", [*tagger, sys.executable, "-c", TOGETHER, str(path)]), timeout=SOON
    )
    assert output.splitlines() == ["0", "1,2,3", "True ", *["False no room"] * 3]


def test_decode(hikyaku: list[str]) -> None:
    good = process.run([*hikyaku, "tag", "decode", "66:48:0d:00:00:05"])
    assert good == "job 3 bcast from rank 0 to rank 5\n"
    bad = execute([*hikyaku, "tag", "decode", "02:00:00:00:00:01"], code=1, timeout=SOON)
    assert "outside of the tags' prefix; fix:" in bad.stderr
