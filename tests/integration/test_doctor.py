# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku doctor` and `hikyaku env`, on this machine and with simulated hardware."""

import fcntl
import json
import mmap
import os
import platform
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from execute import execute
from hikyaku import doctor, process
from hikyaku.checkout import build_dir, built
from hikyaku.lab import Lab, kill, network

STATES = {"ok", "warn", "missing"}


def test_json(hikyaku):
    done = execute([*hikyaku, "doctor", "--json"], code=None, timeout=120)
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    findings = document["findings"]
    assert all(set(f) == {"area", "state", "text", "fix"} for f in findings)
    assert {f["state"] for f in findings} <= STATES
    areas = {f["area"] for f in findings}
    assert {"DPDK", "Open MPI", "CPU", "memory", "permissions", "interfaces", "lab"} <= areas
    assert {"shared ports", "hikyakud", "tagger"} <= areas
    # a finding "missing" has a fix, and makes the exit status 1
    missing = [f for f in findings if f["state"] == "missing"]
    assert done.returncode == (1 if missing else 0)
    assert all(f["fix"] for f in missing)


def test_text_has_a_line_for_each_finding(hikyaku):
    done = execute([*hikyaku, "doctor"], code=None, timeout=120)
    assert any(line.strip().startswith("ok ") for line in done.stdout.splitlines())
    assert re.search(r"DPDK 2[24]\.11", done.stdout)


def test_the_port_that_ranks_choose(get_lab, hikyaku):
    """On a node of a lab, which has no NIC."""
    node = get_lab(2, "udp", 1).topology.nodes[0]
    done = execute(
        ["ip", "netns", "exec", node.netns, *hikyaku, "doctor", "--json"], code=None, timeout=120
    )
    texts = [f["text"] for f in json.loads(done.stdout)["findings"]]
    assert "without a named port, ranks take udp:addr=ctl0" in texts


@pytest.mark.parametrize(
    ("wire", "ports"),
    [
        ("memif", "memif:dir=DIRECTORY; udp:addr=tcp0"),
        ("veth", "af_xdp:iface=hk0; af_packet:iface=hk0; udp:addr=tcp0"),
    ],
)
def test_a_node_of_a_lab_says_which_ports_it_has(get_lab, hikyaku, wire, ports):
    lab = get_lab(2, wire, 1)
    argv = [*hikyaku, "doctor", "--json"]
    done = execute(lab.exec_argv("node1", argv), code=None, timeout=120)
    texts = [f["text"] for f in json.loads(done.stdout)["findings"] if f["area"] == "interfaces"]
    here = f"this is node1 of lab '{lab.name}', wire {wire}, without a network card"
    assert texts[0] == f"{here}; ports: {ports}"


def test_a_library_that_cannot_be_loaded(tmp_path, monkeypatch):
    broken = tmp_path / "libhikyaku.so"
    broken.write_text("no library")
    monkeypatch.setattr(doctor.network, "library", lambda: broken)
    (found,) = doctor.port_auto()
    assert found.state == "missing"
    assert str(broken) in found.text
    assert found.fix == "make"


def nic(sys: Path, name: str, **files: str) -> Path:
    """A simulated interface in a directory like /sys. @files: its files. `driver` and `pci` become
    links, as the kernel's are."""
    path = sys / "class/net" / name
    path.mkdir(parents=True)
    pci = files.pop("pci", None)
    driver = files.pop("driver", None)
    if pci:
        device = sys / "devices" / pci
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x8086\n")
        (path / "device").symlink_to(device)
        if driver:
            module = sys / "bus/pci/drivers" / driver
            module.mkdir(parents=True)
            (device / "driver").symlink_to(module)
    for key, value in {"mtu": "1500", "operstate": "up", **files}.items():
        target = path / "device" if key.startswith("sriov") else path
        (target / key).write_text(value + "\n")
    return path


def test_card_with_virtual_functions(tmp_path):
    nic(
        tmp_path,
        "ens1",
        pci="0000:3b:00.0",
        driver="ice",
        speed="25000",
        sriov_totalvfs="64",
        sriov_numvfs="0",
    )
    (finding,) = doctor.network.interfaces(tmp_path)
    assert finding.state == "ok"
    assert "ens1: driver ice, MTU 1500, up, 25 Gbit/s" in finding.text
    assert "0 of 64 virtual functions" in finding.text
    assert "af_xdp:iface=ens1 (zero copy)" in finding.text
    assert "sriov_numvfs" in finding.fix


def test_card_that_is_down_and_has_an_unknown_driver(tmp_path):
    nic(tmp_path, "eth9", pci="0000:00:09.0", driver="oldnic", operstate="down")
    (finding,) = doctor.network.interfaces(tmp_path)
    assert finding.state == "warn"
    assert "af_xdp:iface=eth9 (generic, slow); af_packet:iface=eth9" in finding.text
    assert finding.fix == "ip link set eth9 up"


def test_card_with_an_address(tmp_path):
    nic(tmp_path, "eth9", pci="0000:00:09.0", driver="virtio_net")
    nic(tmp_path, "eth8", pci="0000:00:08.0", driver="e1000")
    addresses = [
        {"ifname": "eth9", "addr_info": [{"family": "inet", "local": "10.0.0.1"}]},
        {"ifname": "eth8", "addr_info": [{"family": "inet6", "local": "fe80::1"}]},
    ]
    eight, nine = doctor.network.interfaces(tmp_path, addresses)
    assert "; udp:addr=eth9 (without privileges)" in nine.text
    assert "udp:" not in eight.text


def test_card_that_dpdk_and_the_kernel_share(tmp_path):
    nic(tmp_path, "mlx0", pci="0000:81:00.0", driver="mlx5_core", speed="100000")
    (finding,) = doctor.network.interfaces(tmp_path)
    assert "pci:0000:81:00.0 beside the kernel" in finding.text


def test_card_that_dpdk_owns(tmp_path):
    nic(tmp_path, "lo")
    (tmp_path / "bus/pci/drivers/vfio-pci/0000:3b:02.1").mkdir(parents=True)
    first, second = doctor.network.interfaces(tmp_path)
    assert "no network card" in first.text
    assert "port pci:0000:3b:02.1" in second.text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86")
@pytest.mark.parametrize(
    ("flags", "state"), [("sse4_2 aes pclmulqdq", "ok"), ("sse4_2 aesmask", "warn")]
)
def test_aes_instructions(tmp_path, flags, state):
    info = tmp_path / "cpuinfo"
    info.write_text(f"flags : {flags}\n")
    *_, last = doctor.machine.cpu(info)
    assert (last.state, "AES instructions" in last.text) == (state, True)
    assert bool(last.fix) == (state != "ok")


@pytest.mark.parametrize(("total", "state"), [(0, "warn"), (512, "ok")])
def test_huge_pages(tmp_path, total, state):
    (tmp_path / "meminfo").write_text(
        f"HugePages_Total: {total}\nHugePages_Free: {total}\nHugepagesize: 2048 kB\n"
    )
    thp = tmp_path / "kernel/mm/transparent_hugepage"
    thp.mkdir(parents=True)
    (thp / "enabled").write_text("always madvise [never]\n")
    pages, transparent, _ = doctor.machine.memory(tmp_path, tmp_path)
    assert pages.state == state
    assert transparent.state == "warn"
    assert "madvise" in transparent.fix


def test_realtime(monkeypatch):
    monkeypatch.setattr(doctor.machine, "parent", lambda: ["-bash"])
    (fine,) = doctor.machine.realtime(lambda: True)
    assert (fine.state, fine.fix) == ("ok", None)
    (lacking,) = doctor.machine.realtime(lambda: False)
    assert lacking.state == "warn"
    assert lacking.fix.startswith(f"prlimit --pid {os.getppid()} --rtprio=1   # ")


@pytest.mark.parametrize("parent", [["su", "a", "-c", "hikyaku doctor"], ["sh", "-c", "x"], []])
def test_limits_of_a_shell_that_ends_are_raised_for_good(monkeypatch, parent):
    """prlimit would find no process."""
    monkeypatch.setattr(doctor.machine, "parent", lambda: parent)
    (lacking,) = doctor.machine.realtime(lambda: False)
    assert "prlimit" not in lacking.fix
    assert " - rtprio 1' >> /etc/security/limits.d/hikyaku.conf" in lacking.fix.replace('"', "")


def test_the_check_for_realtime_changes_nothing():
    def now():
        return os.sched_getscheduler(0), resource.getrlimit(resource.RLIMIT_RTPRIO)

    before = now()
    doctor.machine.may_be_realtime()
    assert now() == before


@pytest.mark.parametrize(
    ("uid", "have", "states"),
    [
        (0, {"net_raw", "net_admin", "sys_admin", "bpf", "ipc_lock"}, ["ok", "ok", "ok"]),
        (0, {"net_raw", "net_admin"}, ["warn", "warn", "ok"]),  # root of a container
        (1000, {"net_raw", "net_admin", "bpf"}, ["warn", "ok", "ok"]),
        (1000, {"net_admin", "sys_admin"}, ["warn", "warn", "warn"]),
        (1000, set(), ["warn", "warn", "warn"]),
    ],
)
def test_permissions(uid, have, states, monkeypatch):
    monkeypatch.setattr(doctor.machine, "_helper", lambda: None)
    lab, xdp, packet = doctor.machine.permissions(have, uid)
    assert [f.state for f in (lab, xdp, packet)] == states
    assert packet.fix is None or "docs/cluster.md" in packet.fix
    assert xdp.fix is None or "setcap cap_net_admin," in xdp.fix
    if not have:
        assert "CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW lacking" in xdp.text
        assert "CAP_NET_ADMIN, CAP_NET_RAW lacking" in packet.text


def test_missing_open_mpi(monkeypatch):
    monkeypatch.setattr(doctor.software, "open_mpi_version", lambda: None)
    (finding,) = doctor.software.open_mpi()
    assert (finding.state, finding.fix is None) == ("missing", False)


def test_btl_that_is_not_built(monkeypatch):
    monkeypatch.setenv("HIKYAKU_BUILD", "/nonexistent")
    assert [(f.state, f.fix) for f in doctor.software.open_mpi()][-1] == ("missing", "make")


def test_a_broken_lab_has_a_fix(lab_name):
    whole, broken = lab_name("whole"), lab_name("broken")
    with Lab.up(name=whole), Lab.up(name=broken) as lab:
        process.run(["ip", "netns", "delete", lab.topology.nodes[0].netns])
        by_lab = {
            name: finding
            for finding in doctor.network.labs()
            for name in (whole, broken)
            if f"'{name}'" in finding.text
        }
    assert by_lab[whole].state == "ok"
    assert by_lab[broken].state == "warn"
    assert by_lab[broken].fix == f"hikyaku lab down --lab {broken}"


def test_env_makes_open_mpi_find_the_btl(hikyaku):
    """In a shell without any other setting of Open MPI."""
    script = f'eval "$({hikyaku[0]} env)" && ompi_info --param btl hikyaku --level 9'
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
    done = execute(["sh", "-c", script], env=clean)
    assert "btl_hikyaku_port" in done.stdout
    assert str(build_dir()) not in done.stderr


def test_env_names_the_promoter(hikyaku):
    """A program that preloads $HIKYAKU_PROMOTER has the promoter among its libraries."""
    script = f'eval "$({hikyaku[0]} env)" && LD_PRELOAD=$HIKYAKU_PROMOTER cat /proc/self/maps'
    done = execute(["sh", "-c", script])
    assert f"{build_dir()}/systems/halo/libhikyaku_halo.so\n" in done.stdout
    assert "cannot be preloaded" not in done.stderr


# ---- ports that ranks share ----------------------------------------------------------------------


def pool(sys: Path, page_kb: int, free: int, reserved: int = 0, total: int = 512) -> None:
    path = sys / f"kernel/mm/hugepages/hugepages-{page_kb}kB"
    path.mkdir(parents=True)
    for name, value in {"free": free, "resv": reserved, "nr": total}.items():
        (path / f"{name}_hugepages").write_text(f"{value}\n")


@pytest.fixture
def hugetlbfs(tmp_path, monkeypatch) -> Path:
    """A table of mounts in which a plain directory is a hugetlbfs. Its size comes from statvfs."""
    monkeypatch.delenv("HIKYAKU_HUGE_DIR", raising=False)
    where = tmp_path / "huge"
    where.mkdir()
    table = tmp_path / "mounts"
    table.write_text(f"proc /proc proc rw 0 0\nnone {where} hugetlbfs rw,pagesize=2M 0 0\n")
    return table


def test_no_hugetlbfs(tmp_path, monkeypatch):
    monkeypatch.delenv("HIKYAKU_HUGE_DIR", raising=False)
    (tmp_path / "mounts").write_text("tmpfs /run tmpfs rw 0 0\n")
    (finding,) = doctor.sharing.shared_ports(tmp_path / "mounts", tmp_path)
    assert finding.state == "warn"
    assert "no hugetlbfs is mounted" in finding.text
    assert "mount -t hugetlbfs" in finding.fix


def test_hugetlbfs_of_another_user(hugetlbfs, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.sharing.os, "access", lambda *_: False)
    monkeypatch.setattr(doctor.sharing.os, "geteuid", lambda: 1234)
    (finding,) = doctor.sharing.shared_ports(hugetlbfs, tmp_path)
    assert "lets this user in" in finding.text
    assert "uid=1234,mode=0700,pagesize=2M none /mnt/huge-1234" in finding.fix


@pytest.mark.parametrize(
    ("free", "reserved", "room", "fix"),
    [
        (73, 0, None, None),
        (72, 0, None, "echo 513 > "),  # the pool has 512 pages, and needs one more free page
        (80, 20, None, "echo 525 > "),
        (73, 0, 72, "mount -o remount,size="),
    ],
    ids=["enough", "too few", "reserved by others", "limited by the mount"],
)
def test_pages_for_a_daemon(hugetlbfs, tmp_path, monkeypatch, free, reserved, room, fix):
    pool(tmp_path, 2048, free, reserved)
    mount = doctor.sharing.HugeMount(tmp_path / "huge", 2048, room, True)
    monkeypatch.setattr(doctor.sharing, "huge_mounts", lambda _: [mount])
    memory, kinds = doctor.sharing.shared_ports(hugetlbfs, tmp_path)
    assert memory.state == ("warn" if fix else "ok")
    assert fix is None or memory.fix.startswith(fix)
    assert kinds.state == "ok"


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        ("memif:dir=/run/wires", "hybrid"),
        ("memif:socket=/run/a.sock,role=server", "hikyaku_mode daemon"),
        ("af_xdp:iface=eth1", "hikyaku_mode inline"),
        ("udp:addr=eth1", "hikyaku_mode inline"),
        ("af_packet:iface=eth1", "hikyaku_mode daemon"),
        ("pci:0000:3b:02.1", "hikyaku_mode daemon"),
        ("pci:0000:3b:02.{local_rank}", "inline"),
    ],
)
def test_sharing_modes(spec, mode):
    finding = doctor.sharing.sharing_modes(spec)
    assert finding.state == "ok"
    assert mode in finding.text


@pytest.mark.parametrize(
    ("spec", "error", "fix"),
    [
        ("token-ring:0", "token-ring", "memif:"),
        ("af_xdp:ifac=lo", '"ifac" is not a key', "iface"),
        ("memif:dir=/x;faults=drp=1", '"drp"', "drop="),
        ("pci:9999", '"9999" is not a PCI address', "lspci"),
        ("af_packet:iface=absent0", "there is no interface 'absent0'", ""),
    ],
)
def test_wrong_port_specs(spec, error, fix):
    """The error is the only finding."""
    (finding,) = doctor.sharing.port(spec)
    assert finding.state == "missing"
    assert error in finding.text
    assert fix in finding.fix


@pytest.fixture
def net(tmp_path) -> Path:
    for name, kind in (("lo", "772"), ("eth0", "1"), ("ib0", "32")):
        nic(tmp_path, name, type=kind, flags="0x1003")
    return tmp_path / "class/net"


def test_an_absent_interface_is_answered_by_those_that_can_have_a_port(net, tmp_path):
    nic(tmp_path, "eth1", type="1", flags="0x1003")
    nic(tmp_path, "ifb0", type="1", flags="0x82")
    for spec in ("af_xdp:iface=eth9", "udp:addr=eth9", "udp:addr=eth9,mtu=1500"):
        (finding,) = doctor.sharing.port(spec, net)
        assert finding.text == f"port {spec}: there is no interface 'eth9'"
        assert finding.fix == "use one of: eth0, eth1"


@pytest.mark.parametrize("spec", ["udp:addr=127.0.0.1", "udp:addr=fd00::1", "udp:addr=lo"])
def test_a_socket_may_name_an_address(net, spec, monkeypatch):
    own = ["127.0.0.1", "192.0.2.7", "fd00::1", "fe80::1"]
    monkeypatch.setattr(doctor.sharing, "own_addresses", lambda: own)
    (absent,) = doctor.sharing.port("udp:addr=10.9.9.9", net)
    assert absent.text == "port udp:addr=10.9.9.9: no interface has the address 10.9.9.9"
    assert absent.fix == "use one of: 192.0.2.7, fd00::1"
    (finding,) = doctor.sharing.port(spec, net)
    assert "a socket of its own" in finding.text


def test_an_absent_device_is_answered_by_the_nics(net, tmp_path):
    for name, kind in (("0000:01:00.0", "0x020000"), ("0000:02:00.0", "0x030000")):
        (tmp_path / "pci" / name).mkdir(parents=True)
        (tmp_path / "pci" / name / "class").write_text(kind)
    for spec in ("pci:0000:99:00.0", "pci:99:00.0,ring=512"):
        (finding,) = doctor.sharing.port(spec, net, tmp_path / "pci")
        assert finding.text == f"port {spec}: there is no PCI device 0000:99:00.0"
        assert finding.fix == "use one of: 0000:01:00.0"


def test_the_answer_on_a_port_is_the_last(hikyaku):
    done = execute([*hikyaku, "doctor", "--port", "udp:addr=lo"], code=None, timeout=120)
    assert "port udp:addr=lo: each rank has a socket" in done.stdout.splitlines()[-1]


def test_an_interface_that_is_down(net, tmp_path):
    nic(tmp_path, "ifb0", type="1", flags="0x82")
    (finding,) = doctor.sharing.port("af_xdp:iface=ifb0", net)
    assert finding.text == "port af_xdp:iface=ifb0: the interface ifb0 is down"
    assert finding.fix == "ip link set ifb0 up"


def steering(spec: str) -> list[tuple[str, str]]:
    return [(f.state, f.text) for f in doctor.sharing.port(spec) if f.area == "steering"]


def test_steering_that_the_kind_of_port_determines():
    """doctor does not open such a port."""
    first, *better = steering("memif:dir=/run/wires")
    assert "(net_memif): ranks are told apart by queue index" in first[1]
    assert len(better) == 3
    first, *better = steering("af_packet:iface=lo")
    assert "(net_af_packet): ranks are told apart by software" in first[1]
    assert ("ok", "no hardware rule by MAC: not asked: its kind is opened with one queue") in better
    assert steering("af_xdp:iface=lo") == []
    assert steering("pci:0000:3b:02.{local_rank}") == []


def test_steering_that_the_driver_determines():
    """One driver has no rules, another does not exist. test_steering_by_rules() has one with
    rules."""
    first, *better = steering("vdev:net_null0")
    assert "(net_null): ranks are told apart by software" in first[1]
    assert ("ok", "no hardware rule by MAC: net_null has no rte_flow") in better
    ((state, text),) = steering("vdev:net_absent0")
    assert state == "warn"
    assert "cannot be asked: port vdev:net_absent0: DPDK cannot create the device" in text


def test_steering_by_rules(monkeypatch):
    """With a simulated NIC."""
    monkeypatch.setenv("LD_PRELOAD", str(built("tests/unit/port/hk_sim_nic.so")))
    monkeypatch.setenv("HK_SIM_NIC", "mac,one-mac,udp")
    first, endpoint, mac, *_ = steering(
        "vdev:net_af_packet0,iface=lo,qpairs=3,framesz=2000,blocksz=512000"
    )
    assert "told apart by software" in first[1]
    assert "the simulated NIC has no ?such? filter" in endpoint[1]
    assert "takes in no second MAC address" in mac[1]
    monkeypatch.setenv("HK_SIM_NIC", "mac")
    first, endpoint = steering("vdev:net_af_packet0,iface=lo,qpairs=3,framesz=2000,blocksz=512000")
    assert "told apart by hardware rule by MAC" in first[1]
    assert endpoint[1].startswith("no hardware rule by endpoint field: net_af_packet: ")


def test_command_reports_steering(hikyaku):
    done = execute([*hikyaku, "doctor", "--port", "af_packet:iface=lo"], code=None, timeout=120)
    assert "port af_packet:iface=lo: only its owner can poll it" in done.stdout
    assert "(net_af_packet): ranks are told apart by software: hikyakud looks" in done.stdout


# ---- files of dead daemons -----------------------------------------------------------------------


def test_files_that_vanish_while_doctor_runs(tmp_path):
    """Daemons of other labs may end meanwhile."""
    gone = tmp_path / "hk0-job-1-node1map_0"
    assert doctor.leftovers._mapped([gone]) == set()
    assert not doctor.leftovers._mine(gone)


def old(path: Path) -> Path:
    os.utime(path, (1, 1))
    return path


def run_directory(base: Path, name: str) -> Path:
    where = base / "run" / name
    where.mkdir(parents=True)
    (where / "lock").touch()
    return old(where)


def test_a_directory_whose_lock_is_free_is_reported(tmp_path, hugetlbfs):
    living, dead = (run_directory(tmp_path, name) for name in ("living", "dead"))
    with (living / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first, second = doctor.leftovers.daemons(tmp_path / "run", [], hugetlbfs)
    assert (first.state, first.fix) == ("warn", f"rm -r {dead}")
    assert second.state == "ok"
    assert "'living' runs" in second.text


def test_the_directory_of_a_daemon_that_is_starting_is_not_reported(tmp_path, hugetlbfs):
    os.utime(run_directory(tmp_path, "new"))
    (finding,) = doctor.leftovers.daemons(tmp_path / "run", [], hugetlbfs)
    assert finding.state == "ok"


def test_start_lock_of_a_killed_rank(tmp_path, hugetlbfs):
    (tmp_path / "run").mkdir()
    lock = tmp_path / "run" / "job-1-a.start"
    lock.touch()
    (finding,) = doctor.leftovers.daemons(tmp_path / "run", [], hugetlbfs)
    assert finding.state == "ok"
    old(lock)
    (finding,) = doctor.leftovers.daemons(tmp_path / "run", [], hugetlbfs)
    assert finding.fix == f"rm -r {lock}"


def test_runtime_directory_of_a_dead_primary(tmp_path, hugetlbfs):
    """A primary holds a POSIX lock on `config`. Only other processes see such a lock."""
    where = tmp_path / "dpdk" / f"hk{os.geteuid()}-a b"
    where.mkdir(parents=True)
    (tmp_path / "dpdk" / "rte").mkdir()  # of another program
    (where / "config").touch()
    old(where)
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(where / "config")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        holder.stdout.readline()
        (finding,) = doctor.leftovers.daemons(tmp_path / "run", [tmp_path], hugetlbfs)
        assert finding.state == "ok"
    finally:
        holder.communicate(timeout=10)
    (finding,) = doctor.leftovers.daemons(tmp_path / "run", [tmp_path], hugetlbfs)
    assert finding.state == "warn"
    subprocess.run(["sh", "-c", finding.fix], check=True)
    assert [p.name for p in (tmp_path / "dpdk").iterdir()] == ["rte"]


def test_huge_page_files_that_no_process_maps(tmp_path, hugetlbfs):
    used, unused = (tmp_path / "huge" / f"hk0-{name}map_0" for name in ("used", "unused"))
    for file in (used, unused, tmp_path / "huge" / "rtemap_0"):
        file.write_bytes(bytes(mmap.PAGESIZE))
        old(file)
    with used.open("r+b") as f, mmap.mmap(f.fileno(), 0):
        (finding,) = doctor.leftovers.daemons(tmp_path / "run", [], hugetlbfs)
    assert finding.fix == f"rm -r {unused}"


def findings_in(lab: Lab, node: str, hikyaku: list[str]) -> list[dict]:
    done = execute(lab.exec_argv(node, [*hikyaku, "doctor", "--json"]), code=None, timeout=120)
    own = str(lab.node_directory(node))  # this user may have other daemons
    return [
        f
        for f in json.loads(done.stdout)["findings"]
        if f["area"] == "hikyakud" and own in f["text"]
    ]


def test_the_fixes_remove_the_files_of_a_killed_daemon(get_lab, hikyaku):
    lab = get_lab(2, "memif", 1, huge_mb=384)
    node, place = lab.node("node0"), lab.node_directory("node0")
    daemon = [str(built("src/hikyakud")), "--background", "--slots", "1"]
    port = ["--port", f"memif:dir={place}/wires", "--huge-dir", str(place / "huge")]
    subprocess.run(
        lab.exec_argv("node0", [*daemon, *port]), check=True, timeout=60, capture_output=True
    )
    try:
        (finding,) = findings_in(lab, "node0", hikyaku)
        assert finding["state"] == "ok"
        assert "'default' runs" in finding["text"]
    finally:
        # first the janitor, which would clean up
        for pid in process.find(namespaces=[network.namespace_inode(node.netns)]):
            if Path(f"/proc/{pid}/comm").read_text() == "hk-janitor\n":
                os.kill(pid, 9)
        kill.kill_daemon(node, place / "run")
    left = [
        place / "run/default",
        *(place / "dpdk").glob("hk*"),
        *(place / "huge").glob("hk*map_*"),
    ]
    process.wait_until("the poller's end", lambda: not doctor.leftovers._mapped(left[2:]), 10)
    assert len(left) >= 3
    for path in left:
        old(path)
    found = findings_in(lab, "node0", hikyaku)
    assert [f["state"] for f in found] == ["warn"] * 3
    for finding in found:
        subprocess.run(["sh", "-c", finding["fix"]], check=True)
    assert not [path for path in left if path.exists()]
    assert findings_in(lab, "node0", hikyaku) == []
