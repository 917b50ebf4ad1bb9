# SPDX-License-Identifier: BSD-3-Clause
"""What `hikyaku env` prints, and what is installed: that it works outside of the checkout."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hikyaku.checkout import ROOT, build_dir


def clean() -> dict[str, str]:
    """An environment in which nothing says where Hikyaku is."""
    ours = ("OMPI_", "HIKYAKU_", "PYTHON")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def settings(launcher: str) -> dict[str, str]:
    script = f'eval "$({launcher} env)" && env -0'
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True, env=clean()
    )
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    return {k: v for k, v in found.items() if k not in clean()}


def check_settings(launcher: str) -> dict[str, str]:
    """All that `env` names is there; without being asked it names the daemon, which a later
    `--mca btl_hikyaku_host daemon` starts."""
    found = settings(launcher)
    components = Path(found["OMPI_MCA_mca_base_component_path"].split(":")[0])
    assert (components / "mca_btl_hikyaku.so").is_file()
    assert (components / "mca_coll_hikyaku.so").is_file()
    assert Path(found["HIKYAKU_INTERPOSER"]).is_file()
    assert os.access(found["OMPI_MCA_btl_hikyaku_daemon_program"], os.X_OK)
    return found


def test_env_names_all_that_ranks_start(hikyaku):
    check_settings(hikyaku[0])


def test_help_has_the_port_without_which_nothing_goes_over_hikyaku(hikyaku):
    for command in ([], ["env"]):
        argv = [*hikyaku, *command, "--help"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        assert "OMPI_MCA_btl_hikyaku_port=" in done.stdout


# ---- installed -----------------------------------------------------------------------------------


def sh(script: str, cwd: Path) -> str:
    """What a script of a user prints who has no checkout."""
    argv = ["sh", "-euc", script]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=clean()
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix() -> Iterator[Path]:
    """What `make install DESTDIR=…` installs; at another place than its prefix, so whatever knows
    the prefix does not work."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-install-") as root:
        env = {**os.environ, "DESTDIR": root, "HIKYAKU_VENV": str(ROOT / ".venv")}
        argv = ["meson", "install", "-C", str(build_dir()), "--no-rebuild", "--quiet"]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=200, check=False, env=env
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (launcher,) = Path(root).rglob("bin/hikyaku")
        yield launcher.parents[1]


@pytest.fixture(scope="module")
def pkg_config(prefix) -> str:
    (directory,) = {path.parent for path in prefix.rglob("hk_*.pc")}
    return f"PKG_CONFIG_PATH={directory} pkg-config"


def test_installed_command_line_and_daemon_run(prefix, tmp_path):
    assert sh(f"{prefix}/bin/hikyaku --version", tmp_path).startswith("hikyaku, version")
    assert "Usage: hikyakud" in sh(f"{prefix}/sbin/hikyakud --help", tmp_path)
    assert "btl_hikyaku_port" in sh(
        f'eval "$({prefix}/bin/hikyaku env)"; ompi_info --param btl hikyaku --level 9', tmp_path
    )
    for name, value in check_settings(f"{prefix}/bin/hikyaku").items():
        assert str(ROOT) not in value, f"{name}={value}"
        assert str(build_dir()) not in value, f"{name}={value}"


def test_all_that_the_command_line_runs_is_installed(prefix):
    """Each name that the package asks checkout.built() for, and that a checkout has."""
    source = "\n".join(path.read_text() for path in (ROOT / "python").rglob("*.py"))
    top = "bench|capture|examples|halo|host|learn|mpi|p2p|rtc|tagger|tests|tools"
    names = {
        n for n in re.findall(rf'"((?:{top})/[\w./-]+)"', source) if (build_dir() / n).is_file()
    }
    assert {"host/daemon/hikyakud", "tests/mpi/mpi_bcast", "halo/libhk_halo.so.0"} <= names
    (ours,) = {path.parents[1] for path in prefix.rglob("mca_btl_hikyaku.so")}
    assert [name for name in sorted(names) if not (ours / name).is_file()] == []


def test_doctor_wants_nothing_to_build_with(prefix, tmp_path):
    """On a node that has what ranks need, and no compiler, meson or pkg-config."""
    (tmp_path / "bin").mkdir()
    for name in ("sh", "dirname", "readlink", "env", "ip", "nsenter", "taskset", "ethtool", "ldd"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    for name in ("mpirun", "ompi_info"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    doctor = f"PATH={tmp_path}/bin {prefix}/bin/hikyaku doctor --json || true"
    findings = json.loads(sh(doctor, tmp_path))["findings"]
    software = [f for f in findings if f["area"] in ("programs", "DPDK", "Open MPI")]
    assert {f["area"] for f in software} == {"programs", "DPDK", "Open MPI"}
    assert [f for f in software if f["state"] != "ok"] == []


HALO = """
#include <halo/halo.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank, in = -1;
	hk_halo h;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	struct hk_halo_edge edge = {!rank, 0, &rank, 1, MPI_INT, &in, 1, MPI_INT};
	if (hk_halo_setup(MPI_COMM_WORLD, 1, &edge, &h) || hk_halo_put(h) || hk_halo_wait(h))
		return 1;
	printf("rank %d got %d by %s\\n", rank, in, hk_halo_path(h, !rank, NULL));
	hk_halo_free(&h);
	MPI_Finalize();
	return 0;
}
"""


@pytest.fixture(scope="module")
def mpirun(prefix, lab_name) -> Iterator[str]:
    """The start of a command line that runs two ranks in a lab that the installed command made."""
    lab, name = f"{prefix}/bin/hikyaku lab", lab_name("installed")
    try:
        sh(f"{lab} up --lab {name} --nodes 2 --wire memif", prefix)
        yield f"timeout 60 {lab} mpirun --lab {name} -np 2"
    finally:
        sh(f"{lab} down --lab {name}", prefix)


def test_halo_program_is_built_by_pkg_config_and_goes_over_the_installed_fabric(
    pkg_config, mpirun, tmp_path
):
    (tmp_path / "halo.c").write_text(HALO)
    rpath = f"-Wl,-rpath,$({pkg_config} --variable=libdir hk_halo)"
    sh(f"cc halo.c -o halo $({pkg_config} --cflags --libs hk_halo) {rpath}", tmp_path)
    out = sh(f"{mpirun} ./halo", tmp_path)
    assert sorted(out.splitlines()) == ["rank 0 got 1 by fabric", "rank 1 got 0 by fabric"]


def test_rtc_program_is_built_by_pkg_config_and_runs(pkg_config, mpirun, tmp_path):
    """The one that docs/rtc.md writes; of our headers it finds those that are installed."""
    shutil.copy(ROOT / "examples/double.c", tmp_path)
    rpath = f"-Wl,-rpath,$({pkg_config} --variable=libdir hk_rtc)"
    sh(
        f"cc -Wall -Werror double.c -o double $({pkg_config} --cflags --libs hk_rtc) {rpath}",
        tmp_path,
    )
    assert "node 0 says" in sh(f"{mpirun} ./double", tmp_path)


def test_fortran_program_is_built_by_pkg_config(pkg_config, tmp_path):
    (tmp_path / "a.f90").write_text(
        "program a\nuse hk_halo\ntype(hk_halo_t) :: h\ninteger :: e\ncall hk_halo_free(h, e)\n"
        "end program\n"
    )
    sh(f"mpifort a.f90 -o a $({pkg_config} --cflags --libs hk_halo_fortran)", tmp_path)


def test_nothing_installed_refers_to_the_build(prefix):
    """No text names the checkout or the staging directory, no binary has them in its RUNPATH."""
    places = [str(place).encode() for place in (ROOT, build_dir(), prefix)]
    files = [p for p in prefix.rglob("*") if p.is_file() and ".venv" not in p.parts]
    assert {"hikyaku.1", "btl_hikyaku.7", "hikyakud.8", "hikyakud.conf"} <= {p.name for p in files}
    for path in files:
        content = path.read_bytes()
        if content.startswith(b"\x7fELF"):
            argv = ["readelf", "--dynamic", str(path)]
            content = subprocess.run(argv, capture_output=True, timeout=30, check=True).stdout
        elif b"\0" in content:
            continue
        assert not [place for place in places if place in content], path
