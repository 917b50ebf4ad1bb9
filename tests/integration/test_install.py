# SPDX-License-Identifier: BSD-3-Clause
"""The settings of `hikyaku env`, and installed files, which must work outside of the checkout."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execute import execute
from hikyaku.checkout import ROOT, build_dir


def clean() -> dict[str, str]:
    """The environment without the variables that say where Hikyaku is."""
    ours = ("OMPI_", "HIKYAKU_", "PYTHON")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def settings(launcher: str) -> dict[str, str]:
    script = f'eval "$({launcher} env)" && env -0'
    done = execute(["sh", "-c", script], env=clean())
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    return {k: v for k, v in found.items() if k not in clean()}


def check_settings(launcher: str) -> dict[str, str]:
    """Checks that the files which `hikyaku env` names exist. One is the daemon program, which a
    later `--mca btl_hikyaku_mode daemon` starts."""
    found = settings(launcher)
    components = Path(found["OMPI_MCA_mca_base_component_path"].split(":")[0])
    assert (components / "mca_btl_hikyaku.so").is_file()
    assert (components / "mca_coll_hikyaku.so").is_file()
    assert (components / "mca_osc_hikyaku.so").is_file()
    assert Path(found["HIKYAKU_PROMOTER"]).is_file()
    assert os.access(found["OMPI_MCA_btl_hikyaku_daemon_program"], os.X_OK)
    return found


def test_env_names_files_that_exist(hikyaku):
    check_settings(hikyaku[0])


def test_help_names_the_port_parameter(hikyaku):
    for command in ([], ["env"]):
        argv = [*hikyaku, *command, "--help"]
        done = execute(argv)
        assert "OMPI_MCA_btl_hikyaku_port=" in done.stdout


IMPORTS = "from hikyaku import learn, rtc; print(learn.__file__, rtc.__file__)"


def test_the_environment_imports_the_package(tmp_path):
    argv = [str(ROOT / ".venv/bin/python"), "-c", IMPORTS]
    assert execute(argv, cwd=tmp_path, env=clean()).stdout.count(f"{ROOT}/python/") == 2


def is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


# ---- installed -----------------------------------------------------------------------------------


def sh(script: str, cwd: Path) -> str:
    """The output of a script that runs without the settings of a checkout."""
    argv = ["sh", "-euc", script]
    done = execute(argv, code=None, timeout=120, cwd=cwd, env=clean())
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


PREFIX = "/opt/hikyaku"


def build_state() -> dict[Path, str]:
    """Hashes of the configuration of the build directory, and of the built files to install."""
    meson = build_dir() / "meson-info/intro-installed.json"
    files = [Path(name) for name in json.loads(meson.read_text())]
    configuration = [build_dir() / "build.ninja", build_dir() / "meson-private/coredata.dat"]
    files += [*configuration, *meson.parent.glob("intro-*.json")]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}


@pytest.fixture(scope="module")
def installation() -> Iterator[tuple[Path, dict[Path, str], dict[Path, str]]]:
    """The directory of `make install` with a DESTDIR, and build_state() before and after. The
    directory is not PREFIX, so a program that has PREFIX compiled in does not find its files."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-install-") as root:
        before = build_state()
        # -o all: nothing is built, since other tests use the build directory
        argv = ["make", "-o", "all", "install", f"BUILD={build_dir()}", f"DESTDIR={root}"]
        execute([*argv, f"PREFIX={PREFIX}"], timeout=200, cwd=ROOT)
        yield Path(root + PREFIX), before, build_state()


@pytest.fixture(scope="module")
def prefix(installation) -> Path:
    return installation[0]


@pytest.fixture(scope="module", params=["checkout", "installed"])
def take_settings(request, prefix) -> str:
    """The command that takes over the settings of `hikyaku env`."""
    launcher = ROOT / "hikyaku" if request.param == "checkout" else prefix / "bin/hikyaku"
    return f'eval "$({launcher} env)"'


@pytest.fixture(scope="module")
def compile_with(take_settings) -> Callable[[str, str, Path], None]:
    """compile_with("cc a.c -o a", "hk_halo", directory), by the settings of `hikyaku env`."""

    def run(command: str, module: str, directory: Path) -> None:
        flags = f"$(pkg-config --cflags --libs {module})"
        rpath = f"-Wl,-rpath,$(pkg-config --variable=libdir {module})"
        sh(f"{take_settings}; {command} {flags} {rpath}", directory)

    return run


def test_make_install_with_another_prefix_leaves_the_build_directory_alone(installation):
    _, before, after = installation
    assert build_dir() / "build.ninja" in before
    assert build_dir() / "src/hikyakud" in before
    assert after == before
    options = json.loads((build_dir() / "meson-info/intro-buildoptions.json").read_text())
    (configured,) = (each["value"] for each in options if each["name"] == "prefix")
    assert configured != PREFIX, "this shows nothing for the prefix of the build directory"


def test_the_unit_starts_the_daemon_of_the_prefix(prefix):
    unit = (prefix / "lib/systemd/system/hikyakud.service").read_text()
    assert f"\nExecStart={PREFIX}/sbin/hikyakud\n" in unit
    assert not re.search(r"@\w+@", unit)  # all places are filled


def test_systemd_finds_its_units_right_and_confined(prefix, tmp_path):
    """`systemd-analyze security` gives 0.0 to what may do nothing and 10.0 to what may do all. It
    gave hikyakud 9.2 and the helper 6.0 when they had few restrictions."""
    for name in ("hikyakud.service", "hikyaku-helper.service", "hikyaku-helper.socket"):
        text = (prefix / "lib/systemd/system" / name).read_text()
        # systemd looks for the program, which is not at PREFIX in a test
        (tmp_path / name).write_text(
            re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", text, flags=re.M)
        )
    units = [str(each) for each in sorted(tmp_path.iterdir())]
    verified = execute(["systemd-analyze", "verify", "--man=no", *units])
    assert verified.stdout + verified.stderr == ""
    for unit in units:
        if unit.endswith(".service"):
            rate = ["systemd-analyze", "security", "--offline=yes", "--threshold=35", "--no-pager"]
            execute([*rate, unit])


def tree(top: Path) -> set[Path]:
    return {path.relative_to(top) for path in top.rglob("*")}


def test_uninstall_removes_what_install_made(tmp_path):
    """A file of others stays, and so does its directory. A second installation removes the files
    that only the first one had."""
    other = tmp_path / "share/man/man1/other.1"
    other.parent.mkdir(parents=True)
    other.write_text("of others")
    before = tree(tmp_path)
    install = [str(ROOT / "scripts/install.py"), "--build", str(build_dir()), str(tmp_path)]
    said = execute(install, env=clean()).stdout
    assert f"installed below {tmp_path}; " in said
    assert f'eval "$({tmp_path}/bin/hikyaku env)"' in said
    assert f"make uninstall PREFIX={tmp_path} " in said
    installed = tree(tmp_path)
    (launcher,) = tmp_path.glob("lib/**/hikyaku/hikyaku")
    (launcher.parent / "of-an-earlier-release").touch()
    execute(install, env=clean())
    assert tree(tmp_path) == installed
    uninstall = ["make", "uninstall", f"PREFIX={tmp_path}"]
    execute(uninstall, cwd=ROOT)
    assert tree(tmp_path) == before
    again = execute(uninstall, code=2, cwd=ROOT)
    assert f"'make install' has put nothing below {tmp_path}; fix: make uninstall" in again.stderr


def test_a_linked_directory_is_replaced_and_its_files_stay(tmp_path):
    """`include/hikyaku` of PREFIX may be a link to a checkout's headers."""
    theirs, prefix = tmp_path / "theirs", tmp_path / "prefix"
    theirs.mkdir()
    (prefix / "include").mkdir(parents=True)
    (prefix / "include/hikyaku").symlink_to(theirs)
    execute([str(ROOT / "scripts/install.py"), "--build", str(build_dir()), prefix], env=clean())
    assert (prefix / "include/hikyaku/worker.h").is_file()
    assert list(theirs.iterdir()) == []


@pytest.fixture
def readable() -> Iterator[Path]:
    """A directory that every user may read. Those of pytest are its own user's alone."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-install-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_user_without_rights_gets_commands_that_have_them(readable):
    record = readable / "share/hikyaku/installed.txt"
    record.parent.mkdir(parents=True)
    record.write_text("share/hikyaku\n")
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    script = (*user, ROOT / "scripts/install.py")
    refused = f"install.py: you may not write below {readable}; fix: sudo make "
    said = execute([*script, "--build", build_dir(), readable], code=1, env=clean()).stderr
    fix = f"install PREFIX={readable}, or make install PREFIX=~/.local\n"
    assert said == refused + fix
    said = execute([*script, "--remove", readable], code=1, env=clean()).stderr
    assert said == f"{refused}uninstall PREFIX={readable}\n"


def test_installed_command_line_and_daemon_run(prefix, tmp_path):
    assert sh(f"{prefix}/bin/hikyaku --version", tmp_path).startswith("hikyaku, version")
    assert "Usage: hikyakud" in sh(f"{prefix}/sbin/hikyakud --help", tmp_path)
    assert "btl_hikyaku_port" in sh(
        f'eval "$({prefix}/bin/hikyaku env)"; ompi_info --param btl hikyaku --level 9', tmp_path
    )
    for name, value in check_settings(f"{prefix}/bin/hikyaku").items():
        assert str(ROOT) not in value, f"{name}={value}"
        assert str(build_dir()) not in value, f"{name}={value}"


def test_any_program_may_preload_the_installed_promoter(prefix, tmp_path):
    """PREFIX is none of ldconfig's directories, so the promoter itself must find our libraries."""
    preload = 'LD_PRELOAD="$HIKYAKU_PROMOTER" cat /proc/self/maps'
    maps = sh(f'eval "$({prefix}/bin/hikyaku env)"; {preload}', tmp_path)
    for library in ("libhikyaku_halo.so", "libhikyaku.so.0"):
        assert re.search(rf" {re.escape(str(prefix))}/.*{re.escape(library)}", maps), library


def test_the_installed_environment_imports_the_installed_package(prefix, tmp_path):
    (python,) = prefix.rglob(".venv/bin/python")
    assert sh(f"{python} -c '{IMPORTS}'", tmp_path).count(str(prefix)) == 2


def test_all_programs_that_the_command_line_runs_are_installed(prefix):
    """These are the names of built files in the source of our package."""
    source = "\n".join(path.read_text() for path in (ROOT / "python").rglob("*.py"))
    top = "bench|examples|plugins|src|systems|tests|tools"
    names = {
        n for n in re.findall(rf'"((?:{top})/[\w./-]+)"', source) if (build_dir() / n).is_file()
    }
    assert {"src/hikyakud", "tests/mpi/mpi_bcast", "systems/halo/libhk_halo.so.0"} <= names
    (ours,) = {path.parents[2] for path in prefix.rglob("mca_btl_hikyaku.so")}
    assert [name for name in sorted(names) if not (ours / name).is_file()] == []


def test_installed_doctor_needs_no_build_tools(prefix, tmp_path):
    """On a node with the programs that ranks need, but without compiler, meson and pkg-config."""
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
    # the installed library says what ranks choose
    assert any(f["text"].startswith(("without a named port", "ranks that")) for f in findings)


def listings(page: str) -> list[str]:
    """The C listings of a page, as printed."""
    return re.findall(r"^```c\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


HALO = """
#include <hikyaku/halo.h>
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
	printf("rank %d got %d by %s\\n", rank, in, hk_halo_transport(h, !rank, NULL));
	hk_halo_free(&h);
	MPI_Finalize();
	return 0;
}
"""


@pytest.fixture(scope="module")
def mpirun(prefix, lab_name) -> Iterator[str]:
    """The start of a command line that runs two ranks. The installed command makes their lab."""
    lab, name = f"{prefix}/bin/hikyaku lab", lab_name("installed")
    try:
        sh(f"{lab} up --lab {name} --nodes 2 --wire memif", prefix)
        yield f"timeout 60 {lab} mpirun --lab {name} -np 2"
    finally:
        sh(f"{lab} down --lab {name}", prefix)


def test_halo_program_is_built_by_pkg_config_and_uses_the_installed_btl(
    compile_with, mpirun, tmp_path
):
    (tmp_path / "halo.c").write_text(HALO)
    compile_with("cc halo.c -o halo", "hk_halo", tmp_path)
    out = sh(f"{mpirun} ./halo", tmp_path)
    assert sorted(out.splitlines()) == ["rank 0 got 1 by worker", "rank 1 got 0 by worker"]


# Relaxes two arrays of 2 * m rows in turn, and compares them with the result of one process.
SWAPS = """
#include <hikyaku/halo.h>
#include <stdio.h>
enum { m = 3, n = 4, steps = 5 };
static double u[2][m + 2][n], all[2][2 * m + 2][n];
static void rows(double (*from)[n], double (*to)[n], int first, int last)
{
	for (int i = first; i <= last; i++)
		for (int j = 0; j < n; j++)
			to[i][j] = from[i - 1][j] + 2 * from[i][j] + from[i + 1][j];
}
static void inner_points(double (*from)[n], double (*to)[n]) { rows(from, to, 2, m - 1); }
static void outer_points(double (*from)[n], double (*to)[n])
{
	rows(from, to, 1, 1);
	rows(from, to, m, m);
}
int main(int argc, char **argv)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	int rank, wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(comm, &rank);
	int left = rank ? 0 : MPI_PROC_NULL, right = rank ? MPI_PROC_NULL : 1;
	for (int i = 1; i <= 2 * m; i++)
		for (int j = 0; j < n; j++)
			all[0][i][j] = 7 * i + j;
	for (int i = 1; i <= m; i++)
		for (int j = 0; j < n; j++)
			u[0][i][j] = all[0][rank * m + i][j];
%s
	for (int k = 0; k < 2; k++)
		hk_halo_free(&h[k]);
	for (int step = 0; step < steps; step++)
		rows(all[step %% 2], all[!(step %% 2)], 1, 2 * m);
	for (int i = 1; i <= m; i++)
		for (int j = 0; j < n; j++)
			wrong += u[steps %% 2][i][j] != all[steps %% 2][rank * m + i][j];
	printf("rank %%d: %%d points differ\\n", rank, wrong);
	MPI_Finalize();
	return 0;
}
"""


def test_the_listing_with_two_handles_exchanges_two_arrays(compile_with, mpirun, tmp_path):
    (listing,) = [each for each in listings("docs/halo.md") if "hk_halo h[2];" in each]
    (tmp_path / "swaps.c").write_text(SWAPS % listing)
    compile_with("cc -Wall -Werror swaps.c -o swaps", "hk_halo", tmp_path)
    out = sh(f"{mpirun} ./swaps", tmp_path)
    assert sorted(out.splitlines()) == [f"rank {rank}: 0 points differ" for rank in range(2)]


def test_rtc_program_is_built_by_pkg_config_and_runs(compile_with, mpirun, tmp_path):
    """The listings of docs/rtc.md, as printed. The compiler finds only the public headers."""
    program = "\n".join(listings("docs/rtc.md"))
    assert (ROOT / "examples/double.c").read_text().endswith(program)
    (tmp_path / "double.c").write_text(program)
    compile_with("cc -Wall -Werror double.c -o double", "hk_rtc", tmp_path)
    assert "node 0 says 42\n" in sh(f"{mpirun} ./double", tmp_path)


def test_fortran_program_is_built_by_pkg_config(compile_with, tmp_path):
    (tmp_path / "a.f90").write_text(
        "program a\nuse hk_halo\ntype(hk_halo_t) :: h\ninteger :: e\ncall hk_halo_free(h, e)\n"
        "end program\n"
    )
    compile_with("mpifort a.f90 -o a", "hk_halo_fortran", tmp_path)


def test_nothing_installed_refers_to_the_build(prefix):
    """No text file contains the path of the checkout, the build or the staging directory. No binary
    has one of these in its RUNPATH."""
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


def test_hello_is_built_by_pkg_config_and_sends_and_puts(compile_with, tmp_path):
    """A C program that uses only the library, outside of the checkout. It can run again."""
    shutil.copy(ROOT / "examples/hello/hello.c", tmp_path)
    compile_with("cc -Wall -Werror hello.c -o hello", "hikyaku", tmp_path)
    for _ in range(2):
        server = subprocess.Popen(
            ["./hello", f"{tmp_path}/wire", "server"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert sh(f"./hello {tmp_path}/wire client", tmp_path) == "put: done\n"
            out, _ = server.communicate(timeout=30)
        finally:
            server.kill()
        assert server.returncode == 0
        assert out == "message: hello\nput: hello by a put\n"
        assert not list(tmp_path.glob("wire*")), "the next run would read old addresses"


def test_installed_examples_build_where_they_are_copied(take_settings, mpirun, prefix, tmp_path):
    """All of them, by the lines of docs/programs.md, as printed."""
    copy = tmp_path / "examples"
    shutil.copytree(prefix / "share/doc/hikyaku/examples", copy)
    page = (ROOT / "docs/programs.md").read_text()
    (lines,) = re.findall(r"^```\n(flags\(\).*?)^```$", page, re.MULTILINE | re.DOTALL)
    sh(f"{take_settings}\n{lines}", tmp_path)
    shared = {copy / "example.c", *copy.glob("spmv/*")} - {copy / "spmv/spmv.c"}
    sources = {path for ending in ("c", "f90") for path in copy.rglob(f"*.{ending}")}
    built = {path.name for path in tmp_path.iterdir() if path.is_file() and not path.suffix}
    assert built == {path.stem for path in sources - shared}
    assert "PASS spmv" in sh(f"{mpirun} ./spmv -n 8 --partition metis --exchange halo", tmp_path)


LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")


def fields(package: Path) -> dict[str, str]:
    text = execute(["dpkg-deb", "-f", str(package)]).stdout
    return dict(re.findall(r"^([\w-]+): (.*)", text, re.MULTILINE))


def test_packages_have_each_file_once(prefix, tmp_path):
    """Without the Python environment, whose compression takes a minute."""
    usr, out = tmp_path / "tree/usr", tmp_path / "out"
    shutil.copytree(prefix, usr, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
    script = [ROOT / "scripts/make-deb.py", "--version", "1.2", tmp_path / "tree", out]
    execute([str(each) for each in script], timeout=120)
    found: list[str] = []
    for package in sorted(out.iterdir()):
        into = tmp_path / package.stem
        execute(["dpkg-deb", "-x", str(package), str(into)])
        found += [str(p.relative_to(into)) for p in into.rglob("*") if not is_directory(p)]
    made = [str(p.relative_to(usr.parent)) for p in usr.rglob("*") if not is_directory(p)]
    assert sorted(found) == sorted(f for f in made if not f.endswith("installed.txt"))
    plugins = fields(next(out.glob("openmpi-hikyaku_1.2_*.deb")))
    assert "libhikyaku0 (= 1.2)" in plugins["Depends"]
    assert "libopenmpi3" in plugins["Depends"]
    assert "librte-net-memif" in fields(next(out.glob("libhikyaku0_1.2_*.deb")))["Depends"]


def test_links_of_the_installed_pages_lead_somewhere(prefix):
    (top,) = prefix.rglob("doc/hikyaku")
    pages = list(top.rglob("*.md"))
    assert len(pages) > 20
    dead = [
        f"{page.relative_to(top)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert dead == []


def test_library_exports_the_contract(prefix):
    """Each function of the installed headers has version HIKYAKU_0, and no other symbol has it."""
    declared = set()
    for header in ("layout", "mcast", "notify", "protocol", "rma", "service", "worker"):
        text = (ROOT / f"include/hikyaku/{header}.h").read_text()
        text = re.sub(r"/\*.*?\*/|static inline.*?\n}", "", text, flags=re.DOTALL)
        declared |= set(re.findall(r"^[a-z][\w \t*]*\b(hk_\w+)\(", text, flags=re.MULTILINE))
    (library,) = prefix.rglob("libhikyaku.so.0.1.0")
    table = execute(["readelf", "--dyn-syms", "--wide", str(library)]).stdout
    assert set(re.findall(r"\b(hk_\w+)@@HIKYAKU_0\b", table)) == declared
