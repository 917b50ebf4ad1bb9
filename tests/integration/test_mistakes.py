# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of users: each ends soon, with a few lines that name the cause and a fix.

test_interrupted.py has Ctrl-C, and test_fixes.py types the fixes.
"""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from execute import execute
from hikyaku.checkout import build_dir
from hikyaku.cli.sdn import client_of
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab

LINES = 5  # of the answer, at most
SOON = 60

# The words, in which {memif}, {veth} and {ovs} are labs; what the answer names; its fix.
USAGE = "fix: see "
TYPOS = [
    ("labs", "no such command 'labs'; ", "hikyaku lab; or see "),
    ("lab upp", "no such command 'upp'; ", "hikyaku lab up; or see "),
    ("mpirun -np 2 x", "no such command 'mpirun'; ", "hikyaku lab mpirun; or see "),
    ("lab list", "no such command 'list'; ", "hikyaku lab status; or see "),
    ("lab start", "no such command 'start'; ", "hikyaku lab up; or see "),
    ("lab stop", "no such command 'stop'; ", "hikyaku lab down; or see "),
    ("up", "no such command 'up'; ", "hikyaku lab up; or see "),
    ("start", "no such command 'start'; ", "fix: see "),
    ("lab up --nods 2", "no such option '--nods'; ", "fix: --nodes; or see "),
    ("lab kill --lab no rank 1", "no such option '--lab'", "hikyaku lab kill rank --lab no 1"),
    ("lab --lab=no exec node0 x", "no such option '--lab'", "lab exec --lab=no node0 x"),
    ("devmem --json list", "no such option '--json'", "hikyaku devmem list --json"),
    ("lab --lab no", "no such option '--lab'", USAGE),
    ("lab up --wire memfi", "'memif', 'veth', 'udp', 'routed', 'ovs'; ", "fix: --wire memif"),
    ("sim incats", "'incats' is not one of", "fix: such as incast"),
    ("lab guest up --nics 3", "'3' is not one of", "fix: --nics 2"),
    ("bench rtc --repeats x", "'x' is not a valid integer", "fix: --repeats 5"),
    ("lab up --nodes 1", "1 nodes", "fix: a lab has from 2 to 64"),
    ("lab up --nodes 200", "200 nodes", "fix: a lab has from 2 to 64"),
    ("lab up --nodes 2 --ranks-per-node 0", "0 ranks per node", "fix: a node takes from 1 to 64"),
    ("lab up --lab a/b", "'a/b' is not a name for a lab", "fix: use up to 32 letters"),
    ("lab down --lab ../evil", "'../evil' is not a name for a lab", "fix: use up to 32 letters"),
    ("lab up --huge -1", "-1 MB of huge pages", "fix: "),
    ("lab up --huge 3", "3 MB of huge pages", "fix: they are of 2 MB each"),
    ("lab up --mtu 20", "MTU 20", "fix: give from 576"),
    ("lab up --topology leaf-spine:1x2x1", "needs a topology of switches", "--wire ovs --topology"),
    ("lab up --wire ovs", "wire ovs needs a topology", "--topology leaf-spine:2x2x"),
    ("lab up --wire ovs --topology leaf:1x2", "no topology 'leaf:1x2'", "fix: use leaf-spine"),
    ("lab up --wire ovs --topology /no.json", "no topology '/no.json'", "or a file"),
    ("lab up --wire ovs --topology fat-tree:4 --nodes 3", "gives the number of nodes", USAGE),
    ("lab status --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("lab mpirun --lab no -np 2 true", "lab 'no' is not up", "lab up --lab no"),
    ("lab mpirun --lab", "option '--lab' lacks its value", ""),
    ("lab mpirun --moed inline -np 2 true", "mpirun has no option '--moed'", "--mode"),
    ("lab guest exec --lab no true", "guest 'no' is not up", "lab guest up"),
    ("stats --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("stats --name no", "no hikyakud 'no' runs here", "daemon start --name no"),
    ("stats --json --prometheus", "exclude each other", USAGE),
    ("top --interval x", "'x' is not a valid float", "fix: --interval 1.0"),
    ("capture --node node0 --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("capture --lab default", "--lab needs --node", USAGE),
    ("capture --pid 1 --wait", "--pid excludes", USAGE),
    ("capture --job xyz", "--job xyz: not a number", "hexadecimal"),
    ("capture --pid 1", "process 1 moves no frames", "fix: name its node"),
    ("daemon start", "no port is given", "fix: say --port SPEC"),
    ("daemon start --port af_xpd:iface=e", '"af_xpd" is not a kind of port', "fix: use memif:"),
    ("daemon start --port memif:dir=/x --slots 99", "99 is not in the range 1<=x<=64", USAGE),
    ("daemon start --port memif:dir=/x --mode fast", "'fast' is not a mode", "fix: use 'hybrid'"),
    ("daemon start --port memif:dir=/x --poler off", "no option --poler", "hikyakud --help"),
    ("daemon start --config /no/file", "configuration file /no/file", "fix: name one"),
    ("daemon status --name no", "no hikyakud 'no' runs here", "daemon start --name no"),
    ("sdn status --state /tmp/no-such", "no controller runs with", "sdn run --background --state"),
    ("sdn forget 99", "99 is not in the range 1<=x<=63", USAGE),
    ("sdn run --openflow 127.0.0.1", "is not HOST:PORT", "fix: give one such as"),
    ("sdn run --certificate nofile", "nofile does not exist", "fix: give the path of a file"),
    ("sdn run --rest 0.0.0.0:80", "can be reached from other machines", "--rest 127.0.0.1:PORT"),
    ("tag run", "missing argument 'COMMAND...'", USAGE),
    ("tag decode zz", "zz is not a tag", "fix: docs/tag.md"),
    ("reach -p af_xdp:iface=eth1 a", "tests two nodes", "reach --port af_xdp:iface=eth1 a node2"),
    ("reach -p memif:dir=/x a b", "there is no network to try", "fix: give udp:addr="),
    ("learn --model forest", "'forest' is not one of", "'linear'"),
    ("learn --data /no/file.csv", "/no/file.csv does not exist", "fix: give --data"),
    ("learn --data /", "the data / is not a file", "fix: give --data"),
    ("learn --nodes 1000", "1000 nodes in one lab", "fix: give up to 512"),
    ("learn --backend dpkd", "'dpkd' is not one of", "'dpdk'"),
    ("learn --fault x", "--fault: 'x' is malformed", "fix: write NODE:nan or NODE:outlier=LENGTH"),
    ("learn --fault 9:nan", "there is no node 9", "fix: name 0 to 1"),
    ("learn --launch mpirun", "--launch needs the backend", "fix: add --backend udp and "),
    ("learn --launch mpirun --backend udp", "backend udp needs the address", "--address eth0"),
    ("learn --launch mpirun --backend dpdk", "backend dpdk needs", "--address pci:0000:3b:02.0"),
    (
        "learn --launch mpirn --backend udp --address lo",
        "--launch: 'mpirn' cannot be run: No such file",
        "fix: begin with a program that is in PATH",
    ),
    ("lab up --wire ovs --topology fat-tree:5", "an even number of ports", "fix: use fat-tree:4"),
    ("bench mpi --wire memfi", "there is no wire 'memfi'", "fix: use some of: memif"),
    ("bench mpi --sizes 8,large", "'large' is not a number of bytes", "fix: "),
    ("bench mpi --transports pigeon", "there is no transport 'pigeon'", "fix: use some of: tcp"),
    ("learn --nodes 3000", "3000 is not in the range 1<=x<=1024", "fix: --nodes 1024"),
    ("bench mpi --repeats 0", "0 is not in the range 1<=x<=1000", "fix: --repeats 5"),
    ("bench mpi --plot x.doc", "x.doc has an unknown format", "fix: use a name that ends in .png"),
    ("sim incast --spines 4", "need --topology leafspine", USAGE),
    ("sim incast --rate 30G", "'30G'", "fix: --rate 50G"),
    ("sim lone --hosts 2", "lone needs 3 hosts", "fix: choose --hosts 3"),
    ("sim incast --load 50", "--load is for the scenario mixed", "fix: "),
    ("sim incast --plot x.doc", "x.doc has an unknown format", "fix: "),
    ("bench modes --modes hybrd", "there is no mode 'hybrd'", "fix: use some of: inline"),
    ("bench modes --metrics speed", "there is no metric 'speed'", "fix: use some of: latency"),
    (
        "bench modes --modes inline --metrics idle",
        "idle cannot be measured in mode inline",
        "fix: ",
    ),
    ("bench halo --doubles x", "'x' is not a number of doubles", "fix: "),
    ("lab up --lab none --wire udp --ports 2", "on wire udp a rank has one", "--wire veth"),
    ("bench halo --experiments F --matrix /etc/fstab", "--matrix is for experiments B", USAGE),
    ("bench halo --ports 9", "9 ports a rank", "fix: give from 1 to 8"),
    ("bench halo --experiments Z", "there is no experiment 'Z'", "fix: use some of: A"),
    ("bench learn --models tree", "there is no model 'tree'", "fix: use some of: line"),
    ("bench learn --backends tpc", "there is no backend 'tpc'", "fix: use some of: tcp"),
    ("bench learn --nodes 1,64", "'64' is not a number of nodes", "fix: use 1 to 32"),
    ("bench rtc --backends tpc", "there is no backend 'tpc'", "fix: use some of: tcp"),
    ("bench rtc --rates 0.5,0", "'0' is not a rate", "fix: use numbers above 0, at most 100"),
    ("bench rtc --loads many", "'many' is not a load", "fix: use numbers above 0"),
    ("bench rtc --rates ,", "no rate given", "fix: use numbers such as 0.5,1"),
    ("bench sdn --experiments none", "there is no experiment 'none'", "fix: use some of: tags"),
    ("bench compare norev HEAD", "there is no revision 'norev'", "log --oneline"),
    ("devmem route --routes /no/file --port memif:dir=/x", "/no/file", "fix: name a file"),
    ("devmem ask --control /no/socket stats", "no router answers", "fix: give the --control"),
    ("devmem measure", "no device to measure", "fix: give --nics A,B"),
]
IN_A_LAB = [
    ("lab up --lab {memif}", "is up already", "fix: give this one another name"),
    ("lab exec --lab {memif} node9 true", "has no node 'node9'", "fix: use one of: node0, node1"),
    ("lab exec --lab {memif} node0 pign x", "no program 'pign'", "fix: check its name"),
    ("lab exec --lab {memif} node0", "missing argument 'COMMAND...'", "fix: see "),
    ("lab mpirun --lab {memif} -np 2", "no program to run", "fix: "),
    ("lab mpirun --lab {memif} -np two ./x", "must be a positive number", "fix: such as -np 2"),
    (
        "lab mpirun --lab {memif} -np 2 ./none",
        "there is no program './none'",
        "fix: give the path of a program",
    ),
    ("lab mpirun --lab {memif} -np 2 ./hikyak", "there is no program", "fix: use ./hikyaku"),
    ("lab mpirun --lab {memif} -np 2 /no/sum", "there is no program '/no/sum'", "fix: see: ls /"),
    (
        "lab mpirun --lab {memif} -np 2 {build}/examples/smu",
        "there is no program",
        "fix: use {build}/examples/sum",
    ),
    (
        "lab mpirun --lab {memif} -np 2 {build}/example/sum",
        "there is no program",
        "fix: use {build}/examples/sum",
    ),
    (
        "lab mpirun --lab {memif} -np 2 {build}/examples/hello",
        "is a directory",
        "fix: use {build}/examples/hello/hello",
    ),
    (
        "lab mpirun --lab {memif} -np 2 tests/integration/conftest.py",
        "is not an executable",
        "bin/python tests/integration/conftest.py",
    ),
    (
        "lab mpirun --lab {memif} -np 2 --mca btl_hikyaku_prot x true",
        "no parameter 'btl_hikyaku_prot'",
        "fix: use btl_hikyaku_port",
    ),
    (
        "lab mpirun --lab {memif} --mpi mpich -np 2 -x FOO=1 {build}/tests/mpi/mpi_digest",
        "-x is an option of Open MPI",
        "fix: write -genv NAME VALUE",
    ),
    (
        "learn --lab {memif} --backend af_xdp",
        "has the wire memif",
        "lab up --lab {memif} --wire veth",
    ),
    (
        "lab mpirun --lab {memif} -np 2 --mca btl hikyakuu,vader,self true",
        "--mca btl hikyakuu,vader,self: there is no component 'hikyakuu'",
        "fix: use hikyaku",
    ),
    ("lab mpirun --lab {memif} -np 2 none", "'none' is not in PATH", "fix: give its path"),
    (
        "lab mpirun --lab {memif} --backend udp -np 2 true",
        "'udp' is not in PATH",
        "or leave out '--backend udp', which is not an option of mpirun",
    ),
    (
        "lab mpirun --lab {memif} --mpi mpich -np 2 {build}/tests/mpi/mpi_digest",
        "mpi_digest is built for Open MPI, and this job is one of mpich",
        "or leave out --mpi mpich",
    ),
    ("lab mpirun --lab {memif} --mode hybrd -np 2 true", "no mode 'hybrd'", "fix: --mode inline"),
    ("lab mpirun --lab {memif} --mode hybrid -np 2 true", "no huge pages", "--huge 512"),
    ("lab mpirun --lab {memif} -np 100 true", "each of 100 ranks needs 50 wires", "--wire veth"),
    ("lab mpirun --lab {memif} --tpc -np 2 true", "mpirun has no option '--tpc'", "fix: --tcp"),
    ("lab mpirun --lab {memif} --host nodeX -np 1 true", "no node 'nodeX'", "fix: use some of"),
    ("lab mpirun --lab {memif} --tag -np 2 true", "wire memif has no switches", "add --tcp"),
    ("lab mpirun --lab {memif} --tcp --mode inline -np 2 true", "--tcp does not use", "leave out"),
    ("lab mpirun --lab {veth} -np 6 true", "need 3 ports a node", "--ranks-per-node 3"),
    ("lab mpirun --lab {veth} --mode split -np 2 true", "has one queue", "--wire memif"),
    ("learn --lab {veth} --nodes 4 --backend raw", "lab has 1; fix: /", "--ranks-per-node 2"),
    ("lab mpirun --lab {memif} -np 2 -x LD_PRELOAD= true", "preloads nothing", "hikyaku env)"),
    (
        "lab mpirun --lab {memif} -np 2 -x LD_PRELOAD=no/promoter.so true",
        "there is no file 'no/promoter.so'",
        "-x LD_PRELOAD=$HIKYAKU_PROMOTER",
    ),
    (
        "lab mpirun --lab {memif} -np 2 -x HIKYAKU_RTC_BACKEND=af_xdp true",
        "has the wire memif, which af_xdp cannot use",
        "--wire veth",
    ),
    ("bench halo --matrix nofile.mtx", "nofile.mtx does not exist", "fix: give the path of"),
    ("lab cut --lab {memif} node0", "has no switches", "--wire ovs --topology leaf-spine:2x2x1"),
    ("sdn run --lab none", "lab 'none' is not up", "--lab none --wire ovs --topology"),
    ("lab mpirun --lab none --tag -np 2 true", "not up", "--lab none --wire ovs --topology"),
    ("lab status --lab {memif}x", "{memif}x' is not up (but these", "fix: use --lab {memif}; or"),
    ("sdn status --lab {memif}", "has no switches", "--wire ovs --topology leaf-spine:2x2x1"),
    ("lab mpirun --lab {ovs} --tcp -np 2 true", "has no controller", "sdn run --background --lab"),
    ("sdn status --lab {ovs}", "no controller runs", "sdn run --background --lab"),
    ("top --lab {memif}", "is not a terminal", "top --lab {memif} --once`, or `"),
    ("top --lab {memif} --interval 2 --name a", "terminal", "stats --lab {memif} --name a`"),
    ("sdn forget 3 --lab {ovs}", "no controller runs", "sdn run --background --lab"),
    ("lab cut --lab {ovs} leaf0-spine9", "no link 'leaf0-spine9'", "fix: use one of: leaf0-spine0"),
    ("lab lose --lab {ovs} one", "'one' is not a valid number of percent", USAGE),
    ("lab lose --lab {ovs} 200", "200.0 is not in the range", USAGE),
]
JOB = "lab mpirun --lab {lab} -np 2 --mca btl_hikyaku_{parameter} {program}"
PARAMETERS = [
    ("port af_xpd:iface=hk0", '"af_xpd" is not a kind of port', "fix: use memif:"),
    ("port af_xdp:iface=eth9", "there is no interface eth9 here", "fix: use one of "),
    ("port af_xdp:ifc=hk0", '"ifc" is not a key of af_xdp', "fix: use one of iface"),
    ("port memif:dir=/no/dir", "/no/dir does not exist", "fix: mkdir -p /no/dir"),
    ("port memif:socket=/no/x,role=boss", "boss", "fix: "),
    ("port memif:socket=x/y,role=server", "x/y is not an absolute path", "fix: give the whole"),
    ("port udp:addr=eth9", "no interface 'eth9' with an IP address", "fix: use one of: ctl0 (10"),
    ("port udp:addr=fd00::9", "machine has the address fd00::9", "fix: use one of: "),
    ("frame_max 100", "too small", "in Open MPI: --mca btl_hikyaku_frame_max"),
    ("window 7", "window 7", "fix: cfg.engine.window must be a power of two"),
    ("mode hybrd", 'no mode "hybrd"', "fix: inline, hybrid"),
    ("protection sael", 'no protection "sael"', "fix: auto, off, crc, auth or seal"),
    ("pool pop:hug:size=4M", "is not a pop", "fix: use pop:huge"),
]

ROOT_ONLY = "only root may make them"
AS_ROOT = "{hikyaku} {words}"  # after "sudo", or "as root:"
NO_RIGHTS = [  # of an ordinary user, who owns {tmp}
    ("lab up", ROOT_ONLY, AS_ROOT),
    ("lab down", ROOT_ONLY, AS_ROOT),
    ("lab status", ROOT_ONLY, AS_ROOT),
    ("lab exec node0 true", ROOT_ONLY, AS_ROOT),
    ("lab mpirun -np 2 true", ROOT_ONLY, AS_ROOT),
    ("lab cut leaf0-spine0", ROOT_ONLY, AS_ROOT),
    ("stats --lab default", ROOT_ONLY, AS_ROOT),
    ("top --once --lab default", ROOT_ONLY, AS_ROOT),
    ("capture --node node0", ROOT_ONLY, AS_ROOT),
    ("sdn run --lab default", ROOT_ONLY, AS_ROOT),
    ("sdn status --lab default", ROOT_ONLY, AS_ROOT),
    ("bench mpi", ROOT_ONLY, AS_ROOT),
    ("bench halo", ROOT_ONLY, AS_ROOT),
    ("bench sdn", ROOT_ONLY, AS_ROOT),
    ("demo", ROOT_ONLY, AS_ROOT),
    ("demo halo", ROOT_ONLY, AS_ROOT),
    ("demo sdn", ROOT_ONLY, AS_ROOT),
    ("demo p2p --out {closed}/out", "demo-p2p.png cannot be written: Permission", "may write"),
    ("learn --out {tmp}", ROOT_ONLY, AS_ROOT),
    ("bench mpi --json {closed}/b.json", "b.json cannot be written: Permission", "may write"),
    (
        "learn --out {closed}/out",
        "model.npz cannot be written: Permission",
        "place by --out DIR, where you may write",
    ),
    ("sdn run --state {closed}/s", "s cannot be made: Permission", "another one by --state"),
    (
        "sdn run --state {tmp}/s --openflow 127.0.0.1:1",
        "cannot listen on 127.0.0.1:1: Permission",
        "fix: give another address by --openflow",
    ),
    ("tag run -- true", "may not load eBPF programs", "fix: run as root, or: setcap cap_bpf,"),
]
TAKEN = [  # {taken}: a port that this test has; --background prints the error of its child
    ("sdn run --state {tmp}/s --openflow 127.0.0.1:{taken}", "--openflow"),
    ("sdn run --state {tmp}/s --openflow 127.0.0.1:0 --rest 127.0.0.1:{taken}", "--rest"),
]
NO_FILE = "/proc/none/file"
OUTPUTS = [
    "bench mpi --json",
    "bench mpi --plot",
    "bench modes --json",
    "bench halo --json",
    "bench halo --plot",
    "bench learn --json",
    "bench learn --plot",
    "bench rtc --json",
    "bench rtc --plot",
    "bench sdn --json",
    "bench sdn --plot",
    "bench devmem --json",
    "bench compare HEAD HEAD --json",
    "devmem measure --nics lo --json",
    "devmem measure --nics lo --plot",
    "learn --out",
    "demo halo --out",
    "demo learn --out",
    "demo p2p --out",
    "demo sdn --out",
    "lab guest down --log",
    "daemon start --port memif:dir=/x --log",
    "sdn run --state",
    "sdn run --background --state",
]


def check(argv: list[str], cause: str, fix: str) -> str:
    """Types @argv, and returns the answer."""
    done = execute(argv, code=None, timeout=SOON)
    said = done.stdout + done.stderr
    assert done.returncode not in (0, None)
    assert cause in said
    assert fix in said
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if line.strip()]) <= LINES, said
    return said


@pytest.fixture(scope="module")
def labs(get_lab, lab_name) -> dict[str, str]:
    with Lab.up(wire="ovs", switches="leaf-spine:1x2x1", name=lab_name("mistakes")) as switched:
        made = {"memif": get_lab(2, "memif"), "veth": get_lab(2, "veth"), "ovs": switched}
        yield {wire: lab.name for wire, lab in made.items()}
        assert all(lab.status()["stale"] == [] for lab in made.values())
        assert all(lab.status()["processes"] == [] for lab in (made["memif"], made["veth"]))


@pytest.mark.parametrize(("words", "cause", "fix"), TYPOS, ids=[words for words, _, _ in TYPOS])
def test_a_mistake(hikyaku, words, cause, fix):
    check([*hikyaku, *words.split()], cause, fix)


@pytest.mark.parametrize(("words", "cause", "fix"), IN_A_LAB, ids=[w for w, _, _ in IN_A_LAB])
def test_a_mistake_in_a_lab(hikyaku, labs, words, cause, fix):
    names = labs | {"build": build_dir()}
    check([*hikyaku, *words.format(**names).split()], *(t.format(**names) for t in (cause, fix)))


def test_sdn_without_lab_means_the_lab_with_switches(labs, tmp_path, monkeypatch):
    """If no controller runs at all, the fix starts the one of the lab that waits for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("hikyaku.lab.all_names", lambda: [labs["memif"], labs["ovs"]])
    with pytest.raises(HikyakuError) as refused:
        client_of(None)
    assert f"no controller runs with {tmp_path}/hikyaku/sdn" in str(refused.value)
    assert str(refused.value.fix) == f"hikyaku sdn run --background --lab {labs['ovs']}"


@pytest.mark.parametrize(
    ("parameter", "cause", "fix"), PARAMETERS, ids=[p for p, _, _ in PARAMETERS]
)
def test_a_wrong_parameter_of_a_job(hikyaku, labs, program, parameter, cause, fix):
    """Both ranks say it, and Open MPI says nothing."""
    lab = labs["veth" if "af_xdp" in parameter else "memif"]
    words = JOB.format(lab=lab, parameter=parameter, program=program("tests/mpi/mpi_hand_over"))
    check([*hikyaku, *words.split()], cause, fix)


@pytest.fixture
def tmp() -> Iterator[Path]:
    """A directory of an ordinary user. (Nobody but root may enter pytest's.)"""
    with tempfile.TemporaryDirectory(prefix="hikyaku-user-") as place:
        os.chown(place, 65534, 65534)
        yield Path(place)


@pytest.mark.parametrize(("words", "cause", "fix"), NO_RIGHTS, ids=[w for w, _, _ in NO_RIGHTS])
def test_missing_rights(hikyaku, tmp, tmp_path_factory, words, cause, fix):
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *hikyaku]
    if execute([*user, "--version"], code=None).returncode:
        pytest.skip("the checkout is in a directory that other users cannot enter")
    words = words.format(tmp=tmp, closed=tmp_path_factory.mktemp("closed"))
    check([*user, *words.split()], cause, fix.format(hikyaku=hikyaku[0], words=words))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        yield listens.getsockname()[1]


@pytest.mark.parametrize("background", ["", " --background"])
@pytest.mark.parametrize(("words", "option"), TAKEN, ids=[o for _, o in TAKEN])
def test_a_port_in_use(hikyaku, tmp_path, taken, words, option, background):
    argv = [*hikyaku, *f"{words}{background}".format(tmp=tmp_path, taken=taken).split()]
    check(
        argv,
        f"cannot listen on 127.0.0.1:{taken}: Address",
        f"fix: give another address by {option}",
    )


@pytest.mark.parametrize("words", OUTPUTS)
def test_a_file_that_cannot_be_written(hikyaku, words):
    """It is refused before the work begins, which would print its progress."""
    given = NO_FILE + ".png" * words.endswith("--plot")
    said = check([*hikyaku, *words.split(), given], given, "fix: name ")
    assert len(said.splitlines()) == 1
