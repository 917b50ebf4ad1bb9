# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of users: each ends soon, with a few lines that name the cause and a fix."""

import pytest

from execute import execute
from hikyaku.lab import Lab

LINES = 5  # of the answer, at most
SOON = 60

# The words, in which {memif}, {veth} and {ovs} are labs; what the answer names; its fix.
USAGE = "--help' for help."
TYPOS = [
    ("labs", "No such command 'labs'", "Did you mean 'lab'?"),
    ("lab upp", "No such command 'upp'", "Did you mean 'up'?"),
    ("lab up --nods 2", "No such option '--nods'", "'--nodes'"),
    ("lab up --wire memfi", "'memfi' is not one of", "'memif', 'veth', 'ovs'"),
    ("lab up --nodes 200", "200 nodes", "fix: a lab has from 2 to 64"),
    ("lab up --nodes 2 --ranks-per-node 0", "0 ranks per node", "fix: a node takes from 1 to 64"),
    ("lab up --lab a/b", "'a/b' is not a name for a lab", "fix: use up to 32 letters"),
    ("lab up --huge 3", "3 MB of huge pages", "fix: they are of 2 MB each"),
    ("lab up --mtu 20", "MTU 20", "fix: give from 576"),
    ("lab up --topology leaf-spine:1x2x1", "needs a topology of switches", "lab up --wire ovs"),
    ("lab up --wire ovs", "wire ovs needs a topology", "--topology leaf-spine:2x2x4"),
    ("lab up --wire ovs --topology leaf:1x2", "no topology 'leaf:1x2'", "fix: use leaf-spine"),
    ("lab up --wire ovs --topology /no.json", "no topology '/no.json'", "or a file"),
    ("lab up --wire ovs --topology fat-tree:4 --nodes 3", "gives the number of nodes", USAGE),
    ("lab status --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("lab mpirun --lab no -np 2 true", "lab 'no' is not up", "lab up --lab no"),
    ("lab guest exec --lab no true", "guest 'no' is not up", "lab guest up"),
    ("stats --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("stats --name no", "no hikyakud 'no' runs here", "daemon start --name no"),
    ("stats --json --prometheus", "exclude each other", USAGE),
    ("top --interval x", "'x' is not a valid float", USAGE),
    ("capture --node node0 --lab no", "lab 'no' is not up", "lab up --lab no"),
    ("capture --lab default", "--lab needs --node", USAGE),
    ("capture --pid 1 --wait", "--pid excludes", USAGE),
    ("capture --job xyz", "--job xyz: not a number", "hexadecimal"),
    ("capture --pid 1", "process 1 moves no frames", "fix: name its node"),
    ("daemon start", "no port is given", "fix: say --port SPEC"),
    ("daemon start --port af_xpd:iface=e", '"af_xpd" is not a kind of port', "fix: use memif:"),
    ("daemon start --port memif:dir=/x --slots 99", "99 is not in the range 1<=x<=64", USAGE),
    ("daemon start --port memif:dir=/x --mode fast", "'fast' is not a mode", "fix: use 'hybrid'"),
    ("daemon start --port memif:dir=/x --poler off", "no option --poler", "fix: see hikyakud"),
    ("daemon start --config /no/file", "configuration file /no/file", "fix: name one"),
    ("daemon status --name no", "no hikyakud 'no' runs here", "daemon start --name no"),
    ("sdn status --state /tmp/no-such", "no controller runs with", "sdn run --background --state"),
    ("sdn forget 99", "99 is not in the range 1<=x<=63", USAGE),
    ("sdn run --openflow 127.0.0.1", "is not HOST:PORT", "fix: give one such as"),
    ("sdn run --certificate nofile", "'nofile' does not exist", USAGE),
    ("sdn run --rest 0.0.0.0:80", "can be reached from other machines", "--rest 127.0.0.1:PORT"),
    ("tag run", "Missing argument 'COMMAND...'", USAGE),
    ("tag decode zz", "zz is not a tag", "fix: docs/tag.md"),
    ("reach -p af_xdp:iface=eth1 a", "give two nodes", USAGE),
    ("reach -p memif:dir=/x a b", "there is no network to try", "fix: give af_xdp"),
    ("learn --model forest", "'forest' is not one of", "'linear'"),
    ("learn --data /no/file.csv", "/no/file.csv is not a file", "fix: name the data"),
    ("learn --nodes 1000", "1000 nodes in one lab", "fix: give up to 512"),
    ("learn --backend dpkd", "'dpkd' is not one of", "'dpdk'"),
    ("learn --fault 9:nan", "there is no node 9", "fix: name 0 to 1"),
    ("bench mpi --wire memfi", "there is no wire 'memfi'", "fix: use some of: memif"),
    ("bench mpi --sizes 8,large", "'large' is not a number of bytes", "fix: "),
    ("bench mpi --plot x.doc", "x.doc has an unknown format", "fix: use a name that ends in .png"),
    ("bench modes --modes hybrd", "there is no mode 'hybrd'", "fix: use some of: inline"),
    ("bench modes --metrics speed", "there is no metric 'speed'", "fix: use some of: latency"),
    ("bench halo --experiments Z", "there is no experiment 'Z'", "fix: use some of: A"),
    ("bench rtc --backends tpc", "there is no backend 'tpc'", "fix: use some of: tcp"),
    ("bench sdn --experiments none", "there is no experiment 'none'", "fix: use some of: tags"),
    ("bench compare norev HEAD", "there is no revision 'norev'", "fix: git log"),
    ("devmem route --routes /no/file --port memif:dir=/x", "/no/file", "fix: name a file"),
    ("devmem ask --control /no/socket stats", "no router answers", "fix: give the --control"),
    ("devmem measure", "no device to measure", "fix: give --nics A,B"),
]
IN_A_LAB = [
    ("lab up --lab {memif}", "is up already", "fix: give this one another name"),
    ("lab exec --lab {memif} node9 true", "has no node 'node9'", "fix: use one of: node0, node1"),
    ("lab exec --lab {memif} node0", "Missing argument 'COMMAND...'", USAGE),
    ("lab mpirun --lab {memif} -np 2", "no program to run", "fix: "),
    ("lab mpirun --lab {memif} -np two ./x", "must be a positive number", "fix: such as -np 2"),
    (
        "lab mpirun --lab {memif} -np 2 ./none",
        "'./none' is not an executable",
        "fix: give its path",
    ),
    ("lab mpirun --lab {memif} -np 2 none", "'none' is not in PATH", "fix: give its path"),
    ("lab mpirun --lab {memif} --mode hybrd -np 2 true", "no mode 'hybrd'", "fix: --mode inline"),
    ("lab mpirun --lab {memif} --mode hybrid -np 2 true", "no huge pages", "--huge 512"),
    ("lab mpirun --lab {memif} --tpc -np 2 true", 'unknown option "--tpc"', "--help"),
    ("lab mpirun --lab {memif} --host nodeX -np 1 true", "no node 'nodeX'", "fix: use some of"),
    ("lab mpirun --lab {memif} --tag -np 2 true", "wire memif has no switches", "add --tcp"),
    ("lab mpirun --lab {memif} --tcp --mode inline -np 2 true", "--tcp does not use", "leave out"),
    ("lab mpirun --lab {veth} -np 6 true", "need 3 ports a node", "--ranks-per-node 3"),
    ("lab cut --lab {memif} node0", "has no switches", "lab up --wire ovs"),
    ("sdn status --lab {memif}", "has no switches", "lab up --wire ovs"),
    ("lab mpirun --lab {ovs} --tcp -np 2 true", "has no controller", "sdn run --background --lab"),
    ("sdn status --lab {ovs}", "no controller runs", "sdn run --background --lab"),
    ("sdn forget 3 --lab {ovs}", "no controller runs", "sdn run --background --lab"),
    ("lab cut --lab {ovs} leaf0-spine9", "no link 'leaf0-spine9'", "fix: use one of: leaf0-spine0"),
    ("lab lose --lab {ovs} 200", "200.0 is not in the range", USAGE),
]
JOB = "lab mpirun --lab {lab} -np 2 --mca btl_hikyaku_{parameter} {program}"
PARAMETERS = [
    ("port af_xpd:iface=hk0", '"af_xpd" is not a kind of port', "fix: use memif:"),
    ("port af_xdp:iface=eth9", "there is no interface eth9 here", "fix: use one of lo"),
    ("port af_xdp:ifc=hk0", '"ifc" is not a key of af_xdp', "fix: use one of iface"),
    ("port memif:dir=/no/dir", "/no/dir does not exist", "fix: mkdir -p /no/dir"),
    ("port memif:socket=/no/x,role=boss", "boss", "fix: "),
    ("window 7", "window 7", "fix: window must be a power of two"),
    ("mode hybrd", 'no mode "hybrd"', "fix: inline, hybrid"),
    ("pool pop:hug:size=4M", "is not a pop", "fix: use pop:huge"),
]


def check(argv: list[str], cause: str, fix: str) -> None:
    done = execute(argv, code=None, timeout=SOON)
    said = done.stdout + done.stderr
    assert done.returncode not in (0, None)
    assert cause in said
    assert fix in said
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if line.strip()]) <= LINES, said


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
    check([*hikyaku, *words.format(**labs).split()], cause, fix)


@pytest.mark.parametrize(
    ("parameter", "cause", "fix"), PARAMETERS, ids=[p for p, _, _ in PARAMETERS]
)
def test_a_wrong_parameter_of_a_job(hikyaku, labs, program, parameter, cause, fix):
    """Both ranks say it, and Open MPI says nothing."""
    lab = labs["veth" if "af_xdp" in parameter else "memif"]
    words = JOB.format(lab=lab, parameter=parameter, program=program("tests/mpi/mpi_hand_over"))
    check([*hikyaku, *words.split()], cause, fix)
