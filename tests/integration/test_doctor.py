# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku doctor` and `hikyaku env`, on this machine and on made-up ones."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hikyaku import doctor, process
from hikyaku.checkout import build_dir
from hikyaku.lab import Lab

STATES = {"ok", "warn", "missing"}


def test_json(hikyaku):
    done = subprocess.run(
        [*hikyaku, "doctor", "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    findings = document["findings"]
    assert all(set(f) == {"area", "state", "text", "fix"} for f in findings)
    assert {f["state"] for f in findings} <= STATES
    areas = {f["area"] for f in findings}
    assert {"DPDK", "Open MPI", "CPU", "memory", "permissions", "interfaces", "lab"} <= areas
    # what is missing has a fix, and decides the exit status
    missing = [f for f in findings if f["state"] == "missing"]
    assert done.returncode == (1 if missing else 0)
    assert all(f["fix"] for f in missing)


def test_text_has_a_line_for_each_finding(hikyaku):
    done = subprocess.run(
        [*hikyaku, "doctor"], capture_output=True, text=True, timeout=120, check=False
    )
    assert any(line.strip().startswith("ok ") for line in done.stdout.splitlines())
    assert "DPDK 22.11" in done.stdout


def nic(sys: Path, name: str, **files: str) -> Path:
    """A made-up interface in a made-up /sys; `driver` and `pci` become links as the kernel's."""
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
    (finding,) = doctor.interfaces(tmp_path)
    assert finding.state == "ok"
    assert "ens1: driver ice, MTU 1500, up, 25 Gbit/s" in finding.text
    assert "0 of 64 virtual functions" in finding.text
    assert "af_xdp:iface=ens1 (zero copy)" in finding.text
    assert "sriov_numvfs" in finding.fix


def test_card_of_an_unknown_driver_that_is_down(tmp_path):
    nic(tmp_path, "eth9", pci="0000:00:09.0", driver="oldnic", operstate="down")
    (finding,) = doctor.interfaces(tmp_path)
    assert finding.state == "warn"
    assert "af_xdp:iface=eth9 (generic, slow); af_packet:iface=eth9" in finding.text
    assert finding.fix == "ip link set eth9 up"


def test_card_that_shares_with_the_kernel(tmp_path):
    nic(tmp_path, "mlx0", pci="0000:81:00.0", driver="mlx5_core", speed="100000")
    (finding,) = doctor.interfaces(tmp_path)
    assert "pci:0000:81:00.0 beside the kernel" in finding.text


def test_card_that_dpdk_owns(tmp_path):
    nic(tmp_path, "lo")
    (tmp_path / "bus/pci/drivers/vfio-pci/0000:3b:02.1").mkdir(parents=True)
    first, second = doctor.interfaces(tmp_path)
    assert "no network card" in first.text
    assert "port pci:0000:3b:02.1" in second.text


@pytest.mark.parametrize(("total", "state"), [(0, "warn"), (512, "ok")])
def test_huge_pages(tmp_path, total, state):
    (tmp_path / "meminfo").write_text(
        f"HugePages_Total: {total}\nHugePages_Free: {total}\nHugepagesize: 2048 kB\n"
    )
    thp = tmp_path / "kernel/mm/transparent_hugepage"
    thp.mkdir(parents=True)
    (thp / "enabled").write_text("always madvise [never]\n")
    pages, transparent, _ = doctor.memory(tmp_path, tmp_path)
    assert pages.state == state
    assert transparent.state == "warn"
    assert "madvise" in transparent.fix


def test_missing_open_mpi(monkeypatch):
    monkeypatch.setattr(doctor, "open_mpi_version", lambda: None)
    (finding,) = doctor.open_mpi()
    assert (finding.state, finding.fix is None) == ("missing", False)


def test_btl_that_is_not_built(monkeypatch):
    monkeypatch.setenv("HIKYAKU_BUILD", "/nonexistent")
    assert [(f.state, f.fix) for f in doctor.open_mpi()][-1] == ("missing", "make")


def test_labs_up_and_broken_are_told_apart(lab_name):
    whole, broken = lab_name("whole"), lab_name("broken")
    with Lab.up(name=whole), Lab.up(name=broken) as lab:
        process.run(["ip", "netns", "delete", lab.topology.nodes[0].netns])
        by_lab = {
            name: finding
            for finding in doctor.labs()
            for name in (whole, broken)
            if f"'{name}'" in finding.text
        }
    assert by_lab[whole].state == "ok"
    assert by_lab[broken].state == "warn"
    assert by_lab[broken].fix == f"hikyaku lab down --lab {broken}"


def test_env_is_all_that_a_shell_needs(hikyaku):
    """In a shell with nothing but these settings, Open MPI knows the BTL."""
    script = f'eval "$({hikyaku[0]} env)" && ompi_info --param btl hikyaku --level 9'
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False, env=clean
    )
    assert done.returncode == 0, done.stderr
    assert "btl_hikyaku_port" in done.stdout
    assert str(build_dir()) not in done.stderr
