# SPDX-License-Identifier: BSD-3-Clause
"""Labs: up, use and down, and the removal of leftovers after a kill."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.checkout import CHECKOUT_ID, STATE_DIR, digest, private_dir
from hikyaku.dpdk_drivers import driver_directory
from hikyaku.errors import HikyakuError
from hikyaku.lab import Job, Lab, down, down_dead, lab_id, network, own_name
from hikyaku.lab.drivers import VIRTUAL
from hikyaku.lab.run import Output
from mpi_programs import HUGE_MB


def root_links() -> set[str]:
    return {link["ifname"] for link in json.loads(process.run(["ip", "-json", "link", "show"]))}


def leftovers(name: str) -> list[str]:
    """A line for each thing that a lab has left."""
    ident = lab_id(name)
    found = [f"namespace {n}" for n in network.namespaces(ident + "-")]
    found += [f"process {pid}" for pid in process.find(tag=f"HIKYAKU_LAB_ID={ident}")]
    homes = (STATE_DIR / "n").glob(ident.removeprefix(CHECKOUT_ID) + "-*")
    found += [f"node directory {home}" for home in homes]
    if (STATE_DIR / "labs" / name).exists():
        found.append(f"directory of {name}")
    return found


def in_lab(lab: Lab, node: str, *argv: str) -> str:
    return process.run(lab.exec_argv(node, list(argv)))


def start(argv: list[str], **more: object) -> subprocess.Popen:
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


# ---- up and down ---------------------------------------------------------------------------------


def test_up_and_down_leave_the_machine_as_it_was(lab_name):
    name = lab_name("plain")
    before = root_links()
    lab = Lab.up(2, "veth", name=name)
    assert root_links() == before, "a lab has links outside of its namespaces"
    assert leftovers(name)
    lab.down()
    assert leftovers(name) == []
    assert root_links() == before


def test_down_is_safe_to_repeat(lab_name, hikyaku):
    name = lab_name("repeat")
    assert down(name) == []
    Lab.up(name=name)
    assert down(name)
    assert down(name) == []
    done = execute([*hikyaku, "lab", "down", "--lab", name])
    assert "nothing to remove" in done.stdout
    with Lab.up(name=lab_name("other")) as other:
        said = execute([*hikyaku, "lab", "down", "--lab", name]).stdout
        assert f"lab '{name}' is not up (but these are: " in said
        assert other.name in said


def test_a_second_up_names_the_fix(lab_name):
    name = lab_name("twice")
    with Lab.up(name=name) as lab, pytest.raises(HikyakuError, match="lab down"):
        Lab.up(name=name)
    assert lab.topology.lab_id == lab_id(name)
    assert leftovers(name) == []


def test_up_over_leftovers_names_the_fix(lab_name):
    """As if `lab up` had been killed when it had made only a directory."""
    name = lab_name("early")
    (STATE_DIR / "labs" / name).mkdir(parents=True, mode=0o700)
    STATE_DIR.chmod(0o700)
    with pytest.raises(HikyakuError, match="something is left of an earlier lab"):
        Lab.up(name=name)
    assert down(name)
    assert leftovers(name) == []


def test_run_directory_is_short_enough_for_sockets(lab_name):
    """sun_path has 108 bytes, of which hikyakud's run directory may use 63."""
    with Lab.up(2, name=lab_name("a-name-that-is-long")) as lab:
        assert len(str(lab.node_directory("node1") / "run")) < 48


def test_up_that_fails_half_way_removes_everything(lab_name, monkeypatch):
    name = lab_name("half")
    real = network._direct

    def fail(a: str, b: str, link: str, mtu: int) -> None:
        real(a, b, link, mtu)
        raise HikyakuError("no more wires")

    monkeypatch.setattr(network, "_direct", fail)
    with pytest.raises(HikyakuError, match="no more wires"):
        Lab.up(name=name)
    assert leftovers(name) == []


def test_two_labs_at_once(lab_name):
    with Lab.up(name=lab_name("left")) as left, Lab.up(3, "veth", name=lab_name("right")) as right:
        assert in_lab(left, "node1", "hostname").strip() == "node1"
        assert in_lab(right, "node2", "hostname").strip() == "node2"
        left.down()
        assert in_lab(right, "node0", "hostname").strip() == "node0"


def test_no_two_labs_have_the_same_id():
    """A run of the tests has tens of labs, and each run uses other names."""
    names = [f"test-{pid}-memif-{nodes}x1" for pid in range(1000) for nodes in range(2, 12)]
    assert len({lab_id(name) for name in names}) == len(names)


def test_labs_whose_hashes_share_a_prefix_are_distinct():
    """A lab's id once had only three digits of the hash. Then `lab up` refused the second of these
    labs, because a lab of its id was already up."""
    first: dict[str, str] = {}
    for i in range(10000):
        name = own_name("test", f"prefix{i}")
        other = first.setdefault(digest(name, 3), name)
        if other != name:
            break
    with Lab.up(name=other) as one, Lab.up(name=name) as two:
        two.down()
        assert in_lab(one, "node1", "hostname").strip() == "node1"


def test_state_directory_that_others_can_write_is_refused(tmp_path, monkeypatch, lab_name):
    from hikyaku.lab import removal

    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    theirs.chmod(0o777)
    monkeypatch.setattr(removal, "state_dir", lambda _checkout: theirs)
    with pytest.raises(HikyakuError, match="may be theirs"):
        Lab.up(name=lab_name("foreign"))


# ---- the parts of a lab --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "wire", "ranks", "expected"),
    [
        (2, "memif", 1, {"ctl0", "tcp0"}),
        (2, "veth", 1, {"ctl0", "tcp0", "hk0"}),
        (2, "veth", 3, {"ctl0", "tcp0", "hk0", "hk1", "hk2"}),
        (4, "veth", 2, {"ctl0", "tcp0", "hk0", "hk1"}),
        (3, "memif", 2, {"ctl0", "tcp0"}),
    ],
)
def test_links_of_a_node(lab_name, nodes, wire, ranks, expected):
    with Lab.up(nodes, wire, ranks, mtu=2000, name=lab_name(f"links{nodes}{wire}{ranks}")) as lab:
        status = lab.status()
        assert len(status["nodes"]) == nodes
        for node in status["nodes"]:
            links = {link["name"]: link for link in node["links"]}
            assert set(links) == expected
            assert all(link["up"] and link["xdp_program"] is None for link in links.values())
            assert all(link["mtu"] == 2000 for n, link in links.items() if n != "ctl0")
        macs = [link["mac"] for node in status["nodes"] for link in node["links"]]
        assert len(set(macs)) == len(macs)
        assert status["processes"] == []
        assert status["stale"] == []


def test_nodes_reach_each_other_by_name(get_lab):
    """By both networks, from the last node to the first. It uses Python, since ping may lack."""
    lab = get_lab(3, "veth", 1)
    probe = (
        "import socket,sys;"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);"
        "s.connect((sys.argv[1],7));print(s.getsockname()[0])"
    )
    for host, net in (("node0", "10.77."), ("node0-tcp", "10.78.")):
        source = in_lab(lab, "node2", "/usr/bin/python3", "-c", probe, host).strip()
        assert source.startswith(net)


def test_quiet_wires_have_no_ipv6(get_lab):
    lab = get_lab(2, "veth", 1)
    addresses = json.loads(in_lab(lab, "node0", "ip", "-json", "-6", "address", "show"))
    assert [a["ifname"] for a in addresses if a.get("addr_info")] in ([], ["lo"])


def test_a_node_has_its_own_shared_memory(get_lab):
    lab = get_lab(2, "memif", 1)
    marker = f"hikyaku-test-{os.getpid()}"
    in_lab(lab, "node0", "touch", f"/dev/shm/{marker}")
    assert not (Path("/dev/shm") / marker).exists()


def test_a_node_sees_its_own_interfaces(get_lab):
    """Programs read them from /sys, such as doctor."""
    lab = get_lab(2, "veth", 1)
    there = json.loads(in_lab(lab, "node0", "ip", "-json", "link", "show"))
    names = in_lab(lab, "node0", "ls", "/sys/class/net").split()
    assert sorted(names) == sorted(link["ifname"] for link in there)
    mtu = {link["ifname"]: link["mtu"] for link in there}
    assert int(in_lab(lab, "node0", "cat", "/sys/class/net/hk0/mtu")) == mtu["hk0"]


def test_a_node_has_the_drivers_of_virtual_devices_alone(get_lab):
    # A start of DPDK loads each driver that it finds.
    directory = driver_directory()
    assert directory is not None
    lab = get_lab(2, "memif", 1)
    names = in_lab(lab, "node0", "ls", str(directory)).split()
    assert {name.partition(".so")[0] for name in names} == {f"librte_{name}" for name in VIRTUAL}


def test_exec_passes_arguments_and_status(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "exec", "--lab", lab.name, "node1"]
    done = execute(
        [*command, "sh", "-c", 'echo "$1" "$2"; hostname; exit 3', "x", "a b", "--tcp"], code=None
    )
    assert done.stdout.splitlines() == ["a b --tcp", "node1"]
    assert done.returncode == 3


def test_exec_on_an_unknown_node_lists_the_nodes(get_lab):
    with pytest.raises(HikyakuError, match="node0, node1"):
        get_lab(2, "memif", 1).exec_argv("node7", ["true"])


# ---- leftovers of killed processes ---------------------------------------------------------------


def test_leftovers_of_a_killed_tool_are_found_by_name(lab_name, tmp_path, python_script):
    """The process that made the lab is killed while another runs in the lab. The lab's description
    is lost as well."""
    name = lab_name("killed")
    script = python_script(
        tmp_path / "up.py",
        "import subprocess, time\n"
        "from hikyaku.lab import Lab\n"
        f"lab = Lab.up(2, 'veth', name={name!r})\n"
        "subprocess.Popen(lab.exec_argv('node1', ['sleep', '300']), start_new_session=True,\n"
        "                 stdout=subprocess.DEVNULL)\n"
        "print('up', flush=True)\n"
        "time.sleep(300)\n",
    )
    tool = start(script)
    assert tool.stdout.readline() == "up\n"
    ident = lab_id(name)
    inode = network.namespace_inode(f"{ident}-n1")
    process.wait_until(
        "the sleeper to be in node1", lambda: bool(process.find(namespaces=[inode])), 20
    )
    tool.send_signal(signal.SIGKILL)
    tool.wait(timeout=20)
    (STATE_DIR / "labs" / name / "lab.json").unlink()

    removed = down(name)
    assert any("processes" in line for line in removed)
    assert leftovers(name) == []
    assert process.find(namespaces=[inode]) == []


# Brings a lab up, and kills itself after it has run @last programs.
HALF_WAY = """
import os, signal
from hikyaku.lab import Lab, huge, network, own_name
steps = [0]
real = network.run
def run(*arguments, **options):
    steps[0] += 1
    if steps[0] > {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)
network.run = huge.run = run
name = own_name({prefix!r}, "half")
print(name, flush=True)
Lab.up(2, "veth", name=name, huge_mb=2)
"""


@pytest.mark.parametrize("last", [0, 1, 2, 5, 8])
def test_lab_up_killed_half_way_is_removed_by_the_next_run(tmp_path, python_script, last):
    prefix = f"dead{os.getpid()}"
    text = HALF_WAY.format(last=last, prefix=prefix)
    script = python_script(tmp_path / "up.py", text)
    done = execute(script, code=None)
    name = done.stdout.strip()
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert leftovers(name)
    down_dead(prefix)  # test_lab_huge.py checks that this returns its huge pages
    assert leftovers(name) == []


def test_labs_of_a_dead_run_with_our_pid_are_removed():
    """The kernel uses PIDs again. In a new container this happens soon."""
    prefix = f"reused{os.getpid()}"
    gone, ours = own_name(prefix, "gone"), own_name(prefix, "ours")
    early = own_name(prefix, "early")
    with Lab.up(name=gone) as lab, Lab.up(name=ours):
        maker = lab.directory / "maker"
        pid, started = maker.read_text().split()
        maker.write_text(f"{pid} {int(started) - 1}\n")
        private_dir(STATE_DIR / "labs" / early)  # as if killed before it wrote a file
        down_dead(prefix)
        assert leftovers(gone) == []
        assert leftovers(early) == []
        assert Lab.find(ours)


def test_an_error_with_one_dead_lab_does_not_stop_the_removal_of_others(monkeypatch):
    prefix = f"stays{os.getpid()}"
    names = [own_name(prefix, what) for what in ("a", "b", "c")]
    for name in names:
        lab = Lab.up(name=name)
        (lab.directory / "maker").write_text(f"{os.getpid()} 0\n")
    real = network.remove

    def fail(ident: str) -> list[str]:
        if ident == lab_id(names[0]) + "-":
            raise HikyakuError("the kernel refuses")
        return real(ident)

    try:
        with monkeypatch.context() as broken:
            broken.setattr(network, "remove", fail)
            with pytest.raises(HikyakuError, match=f"'{names[0]}' .* stays: the kernel refuses"):
                down_dead(prefix)
        assert [bool(leftovers(name)) for name in names] == [True, False, False]
    finally:
        for name in names:
            down(name)


def test_a_lab_that_failed_is_made_again_for_the_next_test(get_lab, monkeypatch):
    """First it does not come up, and cannot be taken down either. Later it loses a namespace."""

    def get() -> Lab:
        return get_lab(2, "memif", 1, ports=3)

    def fail(*_: object) -> None:
        raise HikyakuError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(network, "_plug", fail)
        broken.setattr(network, "remove", fail)
        with pytest.raises(HikyakuError, match="not now"):
            get()
    lab = get()
    assert in_lab(lab, "node1", "hostname").strip() == "node1"
    process.run(["ip", "netns", "delete", lab.topology.nodes[1].netns])
    assert in_lab(get(), "node1", "hostname").strip() == "node1"
    assert get().topology == lab.topology
    lab.down()


def test_damaged_state_is_reported(lab_name):
    name = lab_name("damaged")
    with Lab.up(name=name) as lab:
        (lab.directory / "lab.json").write_text("{")
        with pytest.raises(HikyakuError, match="is damaged"):
            Lab.find(name)
    assert leftovers(name) == []


def test_lost_namespace_is_named(lab_name):
    name = lab_name("lost")
    with Lab.up(name=name) as lab:
        process.run(["ip", "netns", "delete", lab.topology.nodes[1].netns])
        with pytest.raises(HikyakuError, match=re.escape(lab.topology.nodes[1].netns)):
            Lab.find(name)
    assert leftovers(name) == []


# ---- mpirun --------------------------------------------------------------------------------------


def test_mpirun_sees_nodes_as_hosts(get_lab):
    result = get_lab(3, "veth", 1).mpirun(6, ["hostname"], tcp=True, timeout=60)
    assert result.returncode == 0
    assert sorted(result.stdout.split()) == ["node0", "node0", "node1", "node1", "node2", "node2"]


def test_a_rankfile_places_the_ranks(get_lab, tmp_path):
    file = tmp_path / "ranks"
    file.write_text("rank 0=node2 slot=0\nrank 1=node0 slot=0\n")
    lab = get_lab(nodes=3, ranks_per_node=2)
    show = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)"]
    result = lab.mpirun(2, ["--rankfile", str(file), *show], tcp=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["0 node2", "1 node0"]


def test_mpirun_takes_open_mpis_options(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2", "--tcp"]
    command += ["--host", "node1:2", "--tag-output", "-x", "GREETING=hello", "sh", "-c"]
    command += ['echo "$(hostname) $GREETING $OMPI_MCA_btl"']
    done = execute(command, code=None)
    lines = [line.partition(":")[2] for line in done.stdout.splitlines()]
    assert lines == ["node1 hello tcp,vader,self"] * 2, done.stderr
    assert done.returncode == 0


def test_mpirun_ends_with_the_status_of_its_program(get_lab, hikyaku):
    """With one rank only: as soon as one rank fails, mpirun kills the others."""
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "1", "--tcp"]
    done = subprocess.run([*command, "sh", "-c", "exit 5"], timeout=60, check=False)
    assert done.returncode == 5


def test_ranks_are_pinned_by_node(get_lab):
    lab = get_lab(2, "memif", 1)
    result = lab.mpirun(2, ["sh", "-c", "hostname; taskset -cp $$"], tcp=True, timeout=60)
    cpus = lab.topology.cpus(one_core=False)
    for node, cores in cpus.items():
        assert node in result.stdout
        assert f"affinity list: {cores[0]}" in result.stdout


def test_cores_that_nodes_share_are_named(get_lab, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert get_lab(2, "memif", 1).topology.sharing() == []
    three = get_lab(3, "memif", 1).topology
    expected = "core 3 is shared by node0, node2: programs that poll wait for each other"
    assert three.sharing() == [expected]


def test_nodes_run_in_one_session(get_lab):
    """The scheduler's autogroups divide a core among sessions, not among processes. With a session
    for each node, the processes of one node could keep another off its core."""
    result = get_lab().mpirun(2, ["sh", "-c", "ps -o sid= -p $$"])
    assert {int(sid) for sid in result.stdout.split()} == {os.getsid(0)}, result.stdout


def test_too_many_ranks_for_the_ports(get_lab):
    with pytest.raises(HikyakuError, match="--ranks-per-node 2"):
        get_lab(2, "veth", 1).mpirun(4, ["hostname"])


def test_ranks_share_a_port_that_the_command_line_names(get_lab):
    """An interface for each rank is for the lab's own ports alone."""
    port = ["--mca", "btl_hikyaku_port", "af_xdp:iface=hk0"]
    result = get_lab(2, "veth").launch(Job(["-np", "4", *port, "hostname"], timeout=60))
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == 2 * ["node0"] + 2 * ["node1"]


def test_mpirun_reports_a_missing_program(get_lab):
    with pytest.raises(HikyakuError, match="there is no program '/no/such/program'; fix: "):
        get_lab(2, "memif", 1).mpirun(2, ["/no/such/program"], tcp=True, timeout=60)


def test_run_leaves_nothing(get_lab):
    lab = get_lab(2, "memif", 1)
    lab.mpirun(2, ["true"], tcp=True, timeout=60)
    assert list((lab.directory / "runs").iterdir()) == []
    assert lab.status()["processes"] == []


def test_one_harmless_warning_is_removed_from_stderr(tmp_path):
    """Open MPI prints it if a launch agent starts before the scheduler runs its parent again."""
    with Output(tmp_path / "x", capture=True) as output:
        output.err.write(
            b"one\n"
            b"[node0:7] plm:rsh: Warning: setpgid(9,9) failed in parent with errno=EACCES(13)\n"
            b"[node0:7] another warning\n"
        )
        assert output.read() == ("", "one\n[node0:7] another warning\n")


def test_the_warning_is_removed_on_the_way_to_the_terminal(tmp_path, capfd):
    with Output(tmp_path / "x", capture=False) as output:
        stderr = output.where()["stderr"]
        os.write(stderr, b"one\n[node0:7] plm:rsh: Warning: setpgid(9,9) failed in parent with x\n")
        os.write(stderr, b"two, without an end")
    assert capfd.readouterr().err == "one\ntwo, without an end"


def test_stderr_of_ranks_arrives(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2"]
    done = execute([*command, "sh", "-c", "hostname >&2"])
    assert sorted(done.stderr.split()) == ["node0", "node1"]
    assert lab.mpirun(1, ["sh", "-c", "hostname >&2"], tcp=True).stderr.strip() == "node0"


def test_timeout_ends_all_processes_and_is_reported(get_lab):
    lab = get_lab(2, "memif", 1)
    with pytest.raises(HikyakuError, match="did not end within 2 s") as caught:
        lab.mpirun(2, ["sh", "-c", "echo started; exec sleep 300"], tcp=True, timeout=2)
    assert "started" in str(caught.value)
    assert lab.status()["processes"] == []
    assert list((lab.directory / "runs").iterdir()) == []


def sleepers(lab: Lab) -> list[str]:
    return [p["node"] for p in lab.status()["processes"] if p["command"].startswith("sleep 300")]


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_ends_the_whole_job(get_lab, hikyaku, signum, status):
    """The tool gets the signal while ranks run on both nodes."""
    lab = get_lab(2, "memif", 1)
    tool = start(
        [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "sleep", "300"]
    )
    process.wait_until("two ranks to run", lambda: len(sleepers(lab)) == 2, 30)
    assert sorted(sleepers(lab)) == ["node0", "node1"]
    tool.send_signal(signum)
    tool.communicate(timeout=40)
    assert tool.returncode == status
    assert lab.status()["processes"] == []
    assert list((lab.directory / "runs").iterdir()) == []


def test_ctrl_c_in_a_terminal(get_lab, hikyaku):
    """The terminal sends SIGINT to the whole process group: to mpirun and to the tool."""
    lab = get_lab(2, "memif", 1)
    tool = start(
        [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "sleep", "300"],
        start_new_session=True,
    )
    process.wait_until("two ranks to run", lambda: len(sleepers(lab)) == 2, 30)
    os.killpg(tool.pid, signal.SIGINT)
    tool.communicate(timeout=40)
    assert tool.returncode == 130
    assert lab.status()["processes"] == []


def test_job_of_a_killed_tool_ends(get_lab, hikyaku):
    """The tool cannot handle SIGKILL. The kernel then signals mpirun, which ends the job. The next
    command removes the files of the run."""
    lab = get_lab(2, "memif", 1)
    tool = start(
        [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "sleep", "300"]
    )
    process.wait_until("two ranks to run", lambda: len(sleepers(lab)) == 2, 30)
    tool.send_signal(signal.SIGKILL)
    tool.communicate(timeout=40)
    process.wait_until("the job to end", lambda: lab.status()["processes"] == [], 30)
    assert len(lab.status()["stale"]) == 1
    lab.mpirun(1, ["true"], tcp=True, timeout=60)
    assert lab.status()["stale"] == []
    assert list((lab.directory / "runs").iterdir()) == []


def test_interrupted_before_mpirun_starts_leaves_no_wires(get_lab, monkeypatch):
    """The run has its directories already. Other runs of the lab would find those of its wires."""
    lab = get_lab(2, "memif", 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hikyaku.lab.run.enter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.mpirun(2, ["true"], timeout=60)
    assert list((lab.node_directory("node0") / "wires").iterdir()) == []


def test_xdp_program_of_killed_ranks_is_removed(get_lab, hikyaku, program):
    """All processes are killed at once, so no process detaches the XDP programs of the ports. If
    they stayed, they would slow the kernel's traffic on these links."""
    lab = get_lab(2, "veth", 1)
    bench = [program("bench/mpi_bench"), "--sample-ms", "60000"]
    tool = start([*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2", *bench])

    def programs() -> int:
        links = [link for node in lab.status()["nodes"] for link in node["links"]]
        return sum(link["xdp_program"] is not None for link in links)

    process.wait_until("both ports to be open", lambda: programs() == 2, 30)
    tool.send_signal(signal.SIGKILL)
    for proc in lab.status()["processes"]:
        process.send_signal(proc["pid"], signal.SIGKILL)
    tool.communicate(timeout=40)
    process.wait_until("the job to end", lambda: lab.status()["processes"] == [], 30)
    if programs():
        assert any("XDP program" in line for line in lab.status()["stale"])
    assert lab.mpirun(2, ["true"], tcp=True, timeout=60).returncode == 0
    assert programs() == 0
    assert lab.status()["stale"] == []


def test_xdp_program_of_a_daemon_started_by_hand_stays(get_lab):
    """`lab mpirun` removes the programs that nobody has open. Without its program, this daemon
    would receive nothing more."""
    lab = get_lab(2, "veth", 1, huge_mb=HUGE_MB)

    def programs() -> list[int]:
        links = network.links(lab.topology.nodes[0].netns)
        return [link["xdp_program"] for link in links if link["xdp_program"] is not None]

    words = ("daemon", "start", "--slots", "1", "--port", "af_xdp:iface=hk0")
    in_lab(lab, "node0", "hikyaku", *words)
    try:
        before = programs()
        assert len(before) == 1
        assert lab.status()["stale"] == []
        assert lab.mpirun(2, ["true"], tcp=True, timeout=60).returncode == 0
        assert programs() == before
    finally:
        in_lab(lab, "node0", "hikyaku", "daemon", "stop")


def test_two_runs_do_not_end_each_other(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    sleeping = start(
        [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "sleep", "300"]
    )
    process.wait_until("two ranks to run", lambda: len(sleepers(lab)) == 2, 30)
    lab.mpirun(2, ["true"], tcp=True, timeout=60)
    assert len(sleepers(lab)) == 2
    sleeping.send_signal(signal.SIGTERM)
    sleeping.communicate(timeout=40)
    assert lab.status()["processes"] == []


def test_run_each_runs_all_commands_at_once(get_lab, tmp_path):
    """Each command waits for a file of the other, so neither would end if they ran in sequence."""
    lab = get_lab(2, "memif", 1)

    def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
        script = 'touch "$1"; until [ -e "$2" ]; do sleep 0.01; done; hostname'
        a, b = f"{run_dir}/a", f"{run_dir}/b"
        return [
            ("node0", ["sh", "-c", script, "x", a, b]),
            ("node1", ["sh", "-c", script, "x", b, a]),
        ]

    results = lab.run_each(commands, timeout=30)
    assert [r.stdout.strip() for r in results] == ["node0", "node1"]
    with pytest.raises(HikyakuError, match="did not end within 1 s"):
        lab.run_each(lambda _: [("node0", ["sleep", "300"])], timeout=1)
    assert lab.status()["processes"] == []


def test_no_link_has_a_tag_for_an_address(get_lab):
    """The kernel may draw such an address for a link, and the tagger refuses to run there then."""
    netns = get_lab(nodes=2, wire="memif").node("node0").netns
    drawn = "66:48:c2:9d:be:fb"
    network.batch(netns, [f"link add tag0 address {drawn} type veth peer name tag1"])
    try:
        before = {link["name"]: link["mac"] for link in network.links(netns)}
        network.avoid_tags(netns)
        after = {link["name"]: link["mac"] for link in network.links(netns)}
    finally:
        network.batch(netns, ["link delete tag0"])
    assert before["tag0"] == drawn
    assert after == before | {"tag0": "02:48:c2:9d:be:fb"}
