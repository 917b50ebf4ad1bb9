# SPDX-License-Identifier: BSD-3-Clause
"""Fixes that are commands: a test types the printed command as it is, and then its own again.

It takes the command from the message, and no test knows it. A message prints it in backquotes, or
at its end, after a colon. These have a command and are not here, since they need what a test run
has not or must not change:

    apt-get, scripts/install-deps, make                packages, a new build
    echo … > …/nr_hugepages, …/transparent_hugepage    they belong to the machine, which others use
    mount -o remount,size=…                            tests/integration/test_doctor.py simulates it
    ip link set … up, sriov_numvfs, dpdk-devbind.py    network cards, simulated in the same place
    rm -r … of dead daemons                            test_doctor.py runs them
    lab guest down, lab guest up                       guests start slowly
    kill -9 …                                          a daemon that hangs
    sdn forget                                         63 jobs, or a controller that has died
    setcap … hk-tagger                                 tests/integration/test_tagger_refused.py
    lab exec … ip link set … up                        tests/integration/test_lab_kill.py

`daemon start --port SPEC`, `lab mpirun … PROGRAM` and `sdn forget … JOB` need a choice of the user.
"""

import itertools
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from hikyaku.checkout import ROOT
from hikyaku.lab import Lab, down, kill, lab_id, network
from hikyaku.lab.names import lab_directory
from hikyaku.netns import inside
from shell import Shell
from slots import end_all_of

CHAIN = 3  # fixes, each of which leads to the next error
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
BESIDE = ("nsenter", "--mount", "--net", f"--wd={ROOT}", "--target")
USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NO_HUGE = "unset HIKYAKU_HUGE_DIR; umount -a -t hugetlbfs; mount -t tmpfs none /mnt"
NO_CGROUP2 = "umount $(awk '$3 == \"cgroup2\" {print $2}' /proc/self/mounts)"
KILL_TAGGER = "pkill -9 --ns $$ --nslist net hk-tagger"
XDP = "ip link set dev hk0 xdpgeneric obj /usr/lib/*/bpf/xsk_def_xdp_prog.o sec xdp"


def printed(said: str, cause: str) -> str:
    """The command in the fix for @cause."""
    after = said[said.index(cause) :]
    fix = (after.partition("fix: ")[2] or after).partition("\n")[0].partition("   # ")[0]
    quoted = re.findall("`([^`]+)`", fix)
    return quoted[-1] if quoted else fix.rpartition(": ")[2]


@dataclass(frozen=True)
class Mistake:
    """@typed is answered by @cause after @before. Place gives {lab} and other names."""

    typed: str
    cause: str
    before: str = ""
    again: str = ""  # works after the fixes, if @typed does not
    later: str = ""  # the answer to @typed after the fixes, if it fails for another reason
    shows: bool = False  # the fix only shows what can be chosen


UP = "./hikyaku lab up --lab {lab}"
LINE = "--wire ovs --topology leaf-spine:1x2x1"
LINKS = "./hikyaku lab links --lab {lab}"
STATUS = "./hikyaku lab status --lab {lab}"
RUN = "./hikyaku lab mpirun --lab {lab}"
ATTACK = "./hikyaku lab attack --lab {lab} node1 --kind"
SDN = "./hikyaku sdn run --background"
DAEMON = "hikyaku daemon start --slots 1 --port af_packet:iface=hk0"
MADE = [
    Mistake(STATUS, "is not up"),
    Mistake("./hikyaku lab --lab {lab} status", "no such option '--lab'", before=UP, again=STATUS),
    Mistake(UP, "is up already", before=UP),
    Mistake(UP, "something is left", before=f"{UP} && rm {{state}}/lab.json"),
    Mistake(STATUS, "is damaged", before=f"{UP} && echo x > {{state}}/lab.json"),
    Mistake(STATUS, "has lost its namespaces", before=f"{UP} && ip netns delete {{id}}-n1"),
    Mistake(f"{UP} --wire ovs", "needs a topology", again=LINKS),
    Mistake(f"{UP} --topology leaf-spine:1x2x1", "needs a topology", again=LINKS),
    Mistake(LINKS, "has no switches", before=f"{UP} --ports 2"),
    Mistake(f"{ATTACK} lldp", "has no switches", before=UP, again=LINKS),
    Mistake(f"{ATTACK} forge", "takes three nodes", before=UP, again=STATUS),
    Mistake(f"{ATTACK} rtc-forge", "takes three nodes", before=UP, again=STATUS),
    Mistake(f"{ATTACK} forge", "no network by hk0", before=f"{UP} --nodes 3", again=STATUS),
    Mistake(f"{RUN} -np 6 hostname", "need 3 ports a node", before=f"{UP} --wire veth"),
    Mistake(f"{RUN} --mode hybrid -np 2 {{job}}", "each has 2", before=f"{UP} --ports 2"),
    Mistake(f"{RUN} --tag -np 2 {{job}}", "has no switches", before=UP),
    Mistake(
        f"{RUN} -np 2 {{tmp}}/program",
        "is not an executable",
        before=f"{UP}; printf '#!/bin/sh\\n' > {{tmp}}/program",
    ),
    Mistake(
        f"{RUN} -np 2 --mca btl_hikyaku_port memif:dir={{short}}/none {{job}}",
        "does not exist",
        before=UP,
    ),
    Mistake(
        "./hikyaku lab repair --lab {lab} leaf0-spine0; ./hikyaku lab cut --lab {lab} leaf0-spine0",
        "is cut",
        before=f"{UP} {LINE}",
        again=LINKS,
    ),
    Mistake("./hikyaku doctor", "lab.json is damaged", before=f"{UP}; echo x > {{state}}/lab.json"),
    Mistake("./hikyaku doctor", "namespaces of no lab: {id}-n9", before="ip netns add {id}-n9"),
    Mistake("./hikyaku bench compare norev HEAD", "no revision", shows=True),
    Mistake("./hikyaku daemon start --poler off", "no option --poler", shows=True),
    Mistake("./hikyaku devmem measure --nvme 0000:ff:1f.7", "no PCI device", shows=True),
]
ON_A_NODE = [
    Mistake(
        "hikyaku capture",
        "cannot run /none",
        before="export HIKYAKU_CAPTURE=/none",
        later="no process here copies frames",
    ),
    Mistake(DAEMON, "cannot run /none", before="export HIKYAKU_DAEMON=/none"),
    Mistake(DAEMON, "another hikyakud 'default' runs", before=DAEMON),
    Mistake(DAEMON, "the interface hk0 is down", before="ip link set hk0 down"),
    Mistake(
        DAEMON,
        "others may write",
        before="mkdir {short}/run; chmod 777 {short}/run; export HIKYAKU_RUNDIR={short}/run",
    ),
    Mistake("hikyaku top", "is not a terminal", before=DAEMON, shows=True),
    Mistake("hikyaku doctor", "hk0 carries an XDP program", before=XDP),
    Mistake(
        "hikyaku tag run --sdn --state '{tmp}/its state' --iface tcp0 -- true",
        "no controller runs with {tmp}",
    ),
    Mistake(
        f"{SDN} --state {{tmp}}",
        "other users may enter {tmp}",
        before="touch {tmp}/mine; chmod 755 {tmp}",
        again=f"test -e {{tmp}}/mine && {SDN} --state {{tmp}}",
    ),
    Mistake(f"{SDN} --state {{tmp}}", "may be theirs", before="chmod 777 {tmp}"),
    Mistake(
        f"{SDN} --state {{tmp}}/s",
        "is not a directory of user 0",
        before="mkdir {tmp}/s; chown 65534 {tmp}/s",
        shows=True,
    ),
    Mistake(f"{SDN} --state {{tmp}}/s", "another controller", before=f"{SDN} --state {{tmp}}/s"),
    Mistake(
        "hikyaku tag run -- true",
        "looks like a tag",
        before="ip link set dev tcp0 address 66:48:00:00:00:01",
    ),
    Mistake(
        "hikyaku tag run -- true",
        "no Ethernet interface is up",
        before="for i in ctl0 tcp0 hk0; do ip link set dev $i down; done",
    ),
    Mistake(
        "hikyaku tag status",
        "hk-taggers that were killed",
        before=f"hikyaku tag run --attach clsact -- sh -c '{KILL_TAGGER}'; true",
    ),
]
APART = [  # from the mounts of others
    Mistake("hikyaku tag run -- true", "no cgroup2 file system", before=NO_CGROUP2),
    Mistake(
        "hikyaku daemon start --slots 1 --port memif:dir={tmp}",
        "no hugetlbfs is mounted",
        before=NO_HUGE,
    ),
    Mistake("hikyaku doctor", "no hugetlbfs is mounted", before=NO_HUGE),
]


class Place:
    """The shells of a test, and the names in its commands."""

    def __init__(self, stack: ExitStack, lab: Lab, names: dict[str, str]):
        self._stack, self._lab, self._names = stack, lab, names
        self._open: dict[str, Shell] = {}

    def shell(self, kind: str) -> Shell:
        """root and user: on this machine. node0, node1: as root there. apart: as root on node0,
        with mounts of its own; there: an ordinary user with these mounts."""
        if kind not in self._open:
            enter = {
                "root": lambda: [],
                "user": lambda: list(USER),
                "apart": lambda: self._lab.exec_argv("node0", [*OWN_MOUNTS]),
                "there": lambda: [*BESIDE, str(self.shell("apart").pid), *USER],
            }.get(kind, lambda: self._lab.exec_argv(kind, []))
            made = Shell(*enter(), directory=ROOT)
            self._open[kind] = self._stack.enter_context(made)
        return self._open[kind]

    def type(self, kind: str, command: str) -> tuple[int, str]:
        return self.shell(kind).type(self.text(command))

    def do(self, kind: str, command: str) -> str:
        status, said = self.type(kind, command)
        assert status == 0, f"{self.text(command)}\n{said}"
        return said

    def text(self, template: str) -> str:
        for name, value in self._names.items():
            template = template.replace(f"{{{name}}}", value)
        return template


@pytest.fixture(scope="module")
def veth(get_lab) -> Lab:
    return get_lab(2, "veth", 1, huge_mb=256)


@pytest.fixture(scope="module")
def number() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def place(veth, lab_name, program, tmp_path, short_path, number) -> Iterator[Place]:
    """Shells that end with the test, and what they have started in the labs, too."""
    lab = lab_name(f"fix{next(number)}")
    names = {"lab": lab, "veth": veth.name, "tmp": str(tmp_path), "state": str(lab_directory(lab))}
    names |= {"id": lab_id(lab), "job": program("tests/mpi/mpi_digest")}
    names["short"] = str(short_path)
    with ExitStack() as stack:
        stack.callback(down, lab)
        yield Place(stack, veth, names)
    for node in veth.topology.nodes:
        end_all_of(node)
        kill.bring_up(veth.topology, node, ["ctl0", "tcp0", "hk0"])


def mend(place: Place, m: Mistake, at: str = "root", by: str = "") -> None:
    """Makes the mistake in the shell @at, and types what is printed until the command succeeds. The
    shell @by types it, if not @at."""
    if m.before:
        place.do(at, m.before)
    _, said = place.type(at, m.typed)
    cause = place.text(m.cause)
    seen = []
    for _ in range(CHAIN):
        assert cause in said
        seen.append(cause)
        fix = printed(said, cause)
        place.do(by or at, fix)
        if m.shows:
            return
        status, said = place.type(at, m.again or m.typed)
        if cause not in said and (status == 0 or (m.later and m.later in said)):
            return
        assert "fix: " in said, f"status {status} after '{fix}':\n{said}"
        cause = said.partition("fix: ")[0]
        assert cause not in seen, f"'{fix}' changed nothing:\n{said}"
    pytest.fail(f"after {CHAIN} fixes:\n{said}")


def name(mistake: Mistake) -> str:
    return f"{mistake.typed}: {mistake.cause}"


@pytest.mark.parametrize("mistake", MADE, ids=name)
def test_a_fix_works_as_printed(place, mistake):
    mend(place, mistake)


@pytest.mark.parametrize("mistake", ON_A_NODE, ids=name)
def test_a_fix_works_on_a_node(place, mistake):
    """There the machine's ports and interfaces are not used."""
    mend(place, mistake, at="node0")


@pytest.mark.parametrize("mistake", APART, ids=name)
def test_a_mount_works_as_printed(place, mistake):
    mend(place, mistake, at="apart")


# ---- an ordinary user ----------------------------------------------------------------------------


@pytest.fixture
def user(place, tmp_path) -> Place:
    """A place whose ordinary user reaches the checkout, and owns the test's directory."""
    for each in tmp_path.parents[:2]:
        each.chmod(0o755)
    shutil.chown(tmp_path, 65534, 65534)
    if place.type("user", "./hikyaku --version")[0]:
        pytest.skip("the checkout is in a directory that other users cannot enter")
    return place


def test_a_user_gets_the_command_that_root_types(user):
    user.do("root", UP)
    status, said = user.type("user", STATUS)
    assert status == 1
    said = user.do("root", printed(said, "only root"))
    assert "wire memif" in said


@pytest.mark.parametrize(
    ("limit", "cause"), [("ulimit -l 64", "kB may be locked"), ("ulimit -r 0", "no real-time")]
)
def test_root_raises_the_limits_of_a_users_shell(user, limit, cause):
    if user.type("root", "sh -c 'ulimit -r 0; prlimit --pid $$ --rtprio=1'")[0]:
        pytest.skip("this machine's root has no CAP_SYS_RESOURCE")
    mend(user, Mistake("./hikyaku doctor", cause, before=limit), at="user", by="root")


def test_root_mounts_huge_pages_for_a_user(user):
    user.do("apart", NO_HUGE)
    start = "{root}/hikyaku daemon start --slots 1 --port memif:dir={tmp}".replace(
        "{root}", str(ROOT)
    )
    mend(user, Mistake(start, "no hugetlbfs is mounted"), at="there", by="apart")
    user.do("there", f"{ROOT}/hikyaku daemon stop")


# ---- fixes that need more than one shell ---------------------------------------------------------


def test_ranks_name_the_command_that_starts_their_daemon(place):
    job = "./hikyaku lab mpirun --lab {veth} --mode daemon --mca btl_hikyaku_daemon own -np 2 {job}"
    status, said = place.type("root", job)
    assert status != 0
    fix = printed(said, "no hikyakud 'own' of user 0 runs here")
    for node in ("node0", "node1"):
        place.do(node, f"{fix} --slots 1")
    place.do("root", job)


def the_owner_of_a_port_is_shown(place: Place, netns: str, at: str, command: str) -> None:
    """This process has the port in @netns that @command, which is typed in the shell @at, needs."""
    with inside(network.NETNS_DIR / netns):
        taken = socket.create_server(("127.0.0.1", 6653))
    with taken:
        status, said = place.type(at, command)
        assert status == 1
        shown = place.do(at, printed(said, "cannot listen on 127.0.0.1"))
        assert f"pid={os.getpid()}," in shown


def test_the_owner_of_a_port_is_shown_where_switches_are(place):
    place.do("root", f"{UP} {LINE}")
    the_owner_of_a_port_is_shown(place, place.text("{id}-sw"), "root", f"{SDN} --lab {{lab}}")


def test_the_owner_of_a_port_is_shown_where_the_user_is(place, veth):
    command = f"{SDN} --state {{tmp}}/s --openflow 127.0.0.1:0 --rest 127.0.0.1:6653"
    the_owner_of_a_port_is_shown(place, veth.node("node0").netns, "node0", command)
