# SPDX-License-Identifier: BSD-3-Clause
"""The lab's life: up, use, down, and whatever can be left of one that was killed."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.checkout import CHECKOUT_ID, STATE_DIR
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, down, lab_id, network
from hikyaku.lab.run import Output


def root_links() -> set[str]:
    return {link["ifname"] for link in json.loads(process.run(["ip", "-json", "link", "show"]))}


def leftovers(name: str) -> list[str]:
    """Everything that a lab may leave, in words."""
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
    assert root_links() == before, "links belong into namespaces only"
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
    done = subprocess.run(
        [*hikyaku, "lab", "down", "--lab", name],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "nothing to remove" in done.stdout


def test_up_twice_says_how_to_go_on(lab_name):
    name = lab_name("twice")
    with Lab.up(name=name) as lab, pytest.raises(HikyakuError, match="lab down"):
        Lab.up(name=name)
    assert lab.topology.lab_id == lab_id(name)
    assert leftovers(name) == []


def test_up_over_what_a_kill_left_says_how_to_go_on(lab_name):
    """Killed before there was anything but a directory."""
    name = lab_name("early")
    (STATE_DIR / "labs" / name).mkdir(parents=True, mode=0o700)
    STATE_DIR.chmod(0o700)
    with pytest.raises(HikyakuError, match="something is left of it"):
        Lab.up(name=name)
    assert down(name)
    assert leftovers(name) == []


def test_sockets_fit_into_the_run_directory(lab_name):
    """sun_path takes 108 bytes; hikyakud's run directory may take 63 of them."""
    with Lab.up(2, name=lab_name("a-name-that-is-long")) as lab:
        assert len(str(lab.node_directory("node1") / "run")) < 48


def test_up_that_fails_half_way_takes_all_down(lab_name, monkeypatch):
    name = lab_name("half")
    real = network._direct

    def fail(a: str, b: str, link: str, mtu: int) -> None:
        real(a, b, link, mtu)
        raise HikyakuError("no more wires")

    monkeypatch.setattr(network, "_direct", fail)
    with pytest.raises(HikyakuError, match="no more wires"):
        Lab.up(name=name)
    assert leftovers(name) == []


def test_two_labs_beside_each_other(lab_name):
    with Lab.up(name=lab_name("left")) as left, Lab.up(3, "veth", name=lab_name("right")) as right:
        assert in_lab(left, "node1", "hostname").strip() == "node1"
        assert in_lab(right, "node2", "hostname").strip() == "node2"
        left.down()
        assert in_lab(right, "node0", "hostname").strip() == "node0"


def test_names_fit_the_kernel_and_differ():
    ids = {lab_id(f"lab{i}") for i in range(50)}
    assert len(ids) == 50
    assert all(len(f"{ident}-n63") <= 15 for ident in ids)


def test_foreign_state_directory_is_refused(tmp_path, monkeypatch, lab_name):
    from hikyaku import lab as lab_module

    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    theirs.chmod(0o777)
    monkeypatch.setattr(lab_module, "STATE_DIR", theirs)
    with pytest.raises(HikyakuError, match="not a private directory"):
        Lab.up(name=lab_name("foreign"))


# ---- what a lab is made of -----------------------------------------------------------------------


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
    """Both networks, from the last node to the first, with Python for want of ping."""
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


def test_exec_passes_arguments_and_status(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "exec", "--lab", lab.name, "node1"]
    done = subprocess.run(
        [*command, "sh", "-c", 'echo "$1" "$2"; hostname; exit 3', "x", "a b", "--tcp"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["a b --tcp", "node1"]
    assert done.returncode == 3


def test_exec_names_the_nodes_there_are(get_lab):
    with pytest.raises(HikyakuError, match="node0, node1"):
        get_lab(2, "memif", 1).exec_argv("node7", ["true"])


# ---- what is left by force -----------------------------------------------------------------------


def test_leftovers_of_a_killed_tool_are_found_by_name(lab_name, tmp_path, python_script):
    """`lab up` is killed with a process in the lab, and the lab's directory is lost as well."""
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


def test_damaged_state_is_named(lab_name):
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


def test_mpirun_takes_open_mpis_options(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2", "--tcp"]
    command += ["--host", "node1:2", "--tag-output", "-x", "GREETING=hello", "sh", "-c"]
    done = subprocess.run(
        [*command, 'echo "$(hostname) $GREETING $OMPI_MCA_btl"; exit 5'],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = sorted(done.stdout.split("\n"))[-2:]
    assert [line.partition(":")[2] for line in lines] == ["node1 hello tcp,vader,self"] * 2
    assert done.returncode == 5


def test_ranks_are_pinned_by_node(get_lab):
    lab = get_lab(2, "memif", 1)
    result = lab.mpirun(2, ["sh", "-c", "hostname; taskset -cp $$"], tcp=True, timeout=60)
    cpus = lab.topology.cpus(one_core=False)
    for node, cores in cpus.items():
        assert node in result.stdout
        assert f"affinity list: {cores[0]}" in result.stdout


def test_nodes_are_of_one_session(get_lab):
    """Sessions compete for a core as wholes, and one node could be kept off it by another."""
    result = get_lab().mpirun(2, ["sh", "-c", "ps -o sid= -p $$"])
    assert {int(sid) for sid in result.stdout.split()} == {os.getsid(0)}, result.stdout


def test_too_many_ranks_for_the_ports(get_lab):
    with pytest.raises(HikyakuError, match="--ranks-per-node 2"):
        get_lab(2, "veth", 1).mpirun(4, ["hostname"])


def test_missing_program_is_mpiruns_message(get_lab):
    result = get_lab(2, "memif", 1).mpirun(2, ["/no/such/program"], tcp=True, timeout=60)
    assert result.returncode != 0
    assert "/no/such/program" in result.stderr


def test_run_leaves_nothing(get_lab):
    lab = get_lab(2, "memif", 1)
    lab.mpirun(2, ["true"], tcp=True, timeout=60)
    assert list((lab.directory / "runs").iterdir()) == []
    assert lab.status()["processes"] == []


def test_captured_stderr_lacks_one_harmless_warning(tmp_path):
    """Open MPI prints it when an agent starts faster than its parent is scheduled."""
    with Output(tmp_path / "x", capture=True) as output:
        output.err.write(
            b"one\n"
            b"[node0:7] plm:rsh: Warning: setpgid(9,9) failed in parent with errno=EACCES(13)\n"
            b"[node0:7] another warning\n"
        )
        assert output.read() == ("", "one\n[node0:7] another warning\n")


def test_stderr_of_ranks_arrives(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    command = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2"]
    done = subprocess.run(
        [*command, "sh", "-c", "hostname >&2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(done.stderr.split()) == ["node0", "node1"]
    assert lab.mpirun(1, ["sh", "-c", "hostname >&2"], tcp=True).stderr.strip() == "node0"


def test_timeout_ends_everything_and_says_so(get_lab):
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
    """Ranks on both nodes run; then the tool is asked to end."""
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
    """The terminal sends SIGINT to the whole group: mpirun and the tool at once."""
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


def test_killed_tool_takes_its_job_along(get_lab, hikyaku):
    """SIGKILL cannot be caught: the kernel ends mpirun, and the next command removes the rest."""
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


def test_xdp_program_of_killed_ranks_is_removed(get_lab, hikyaku, program):
    """Everything is killed at once, so nothing takes down the XDP programs of its ports, which
    would slow the kernel's traffic on these links for ever."""
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


def test_two_runs_do_not_end_each_other(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1)
    long_one = start(
        [*hikyaku, "lab", "mpirun", "--lab", lab.name, "--tcp", "-np", "2", "sleep", "300"]
    )
    process.wait_until("two ranks to run", lambda: len(sleepers(lab)) == 2, 30)
    lab.mpirun(2, ["true"], tcp=True, timeout=60)
    assert len(sleepers(lab)) == 2
    long_one.send_signal(signal.SIGTERM)
    long_one.communicate(timeout=40)
    assert lab.status()["processes"] == []


def test_run_each_runs_at_the_same_time(get_lab, tmp_path):
    """Each side waits for what the other makes: one after the other would never end."""
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
