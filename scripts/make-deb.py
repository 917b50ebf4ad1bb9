#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes Debian packages of an installation below /usr, for the release of Debian that runs this.

    make-deb.py --version VERSION TREE OUT

TREE is what `make install PREFIX=/usr DESTDIR=TREE` has written. Each of its files goes to the
first package that names it; a file that none names is an error. Libraries that our programs need
are found by dpkg-shlibdeps(1). The Python environment comes along: Debian's packages of some
modules are too old on Debian 12.
"""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIB = "usr/lib/*"
OURS = f"{LIB}/hikyaku"
# Drivers that DPDK loads by itself, so that no library names them.
DRIVERS = ("librte_net_memif", "librte_net_af_packet", "librte_mempool_ring")


@dataclass(frozen=True)
class Package:
    name: str
    summary: str
    text: str
    files: tuple[str, ...]
    depends: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    section: str = "net"
    all: bool = False  # it has no binaries


PACKAGES = (
    Package(
        "libhikyaku-dev",
        "Ethernet fabric in user space: development",
        "Headers, pkg-config files, and the module for Fortran.",
        (
            "usr/include/**",
            f"{LIB}/pkgconfig/*",
            f"{LIB}/libhk_halo_fortran.a",
            f"{LIB}/libhikyaku.so",
            f"{LIB}/libhk_halo.so",
            f"{LIB}/libhk_rtc.so",
        ),
        ("libhikyaku0 (= {version})",),
        section="libdevel",
    ),
    Package(
        "libhikyaku0",
        "Ethernet fabric in user space: libraries",
        "Messages and one-sided transfers by Ethernet or UDP without the kernel's network stack, "
        "halo exchange, and run-to-completion computing.",
        (f"{LIB}/libh*.so*", f"{OURS}/**/lib*_halo.so*", f"{OURS}/**/lib*.so.0"),
        ("{drivers}",),
        section="libs",
    ),
    Package(
        "openmpi-hikyaku",
        "Ethernet fabric in user space: plug-ins of Open MPI",
        "A BTL and collective operations. 'hikyaku env' prints the settings that select them.",
        (f"{OURS}/plugins/openmpi/*",),
        ("libhikyaku0 (= {version})", "openmpi-bin"),
        ("hikyakud", "python3-hikyaku"),
    ),
    Package(
        "hikyakud",
        "Ethernet fabric in user space: daemons",
        "hikyakud shares a port among the ranks of a node. hikyaku-helper gives AF_XDP sockets to "
        "users without rights. The units are installed and not enabled.",
        (
            "usr/sbin/hikyakud",
            "usr/lib/systemd/**",
            f"{OURS}/src/hikyakud",
            f"{OURS}/src/helper/**",
            "usr/share/man/man8/*",
        ),
        ("libhikyaku0 (= {version})",),
    ),
    Package(
        "hikyaku-doc",
        "Ethernet fabric in user space: documentation",
        "The pages, and the examples.",
        ("usr/share/doc/hikyaku/**",),
        section="doc",
        all=True,
    ),
    Package(
        "python3-hikyaku",
        "Ethernet fabric in user space: command line and Python modules",
        "The command line: the lab, the benchmarks, the controller and gossip learning.",
        (
            "usr/bin/hikyaku",
            f"{OURS}/**",
            "usr/share/hikyaku/hikyaku.lua",
            "usr/share/man/man1/*",
            "usr/share/man/man7/*",
        ),
        (
            "libhikyaku0 (= {version})",
            "openmpi-hikyaku (= {version})",
            "hikyakud (= {version})",
            "python3 (>= {python})",
            "python3 (<< {next_python})",
            "iproute2",
            "ethtool",
            "util-linux",
        ),
        ("openvswitch-switch", "hikyaku-doc"),
        section="python",
    ),
)
# Python writes its compiled modules beside the files, if root runs it.
PRERM = """#!/bin/sh
set -e
find {ours} -name __pycache__ -prune -exec rm -rf {{}} +
"""
# The record of `make uninstall`; dpkg has its own.
LEFT_OUT = ("usr/share/hikyaku/installed.txt",)


def fail(text: str) -> None:
    sys.exit(f"make-deb: {text}")


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    """The output. A tool's warnings are shown if it fails: dpkg-shlibdeps has many."""
    line = [str(a) for a in argv]
    done = subprocess.run(line, cwd=cwd, check=False, text=True, capture_output=True)
    if done.returncode:
        fail(f"{shlex.join(line)[:200]}: status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()


def matches(path: str, pattern: str) -> bool:
    """As in a shell: * does not match a slash, and ** does."""
    parts = (re.escape(part).replace(r"\*", "[^/]*") for part in pattern.split("**"))
    return re.fullmatch(".*".join(parts), path) is not None


def package_of(path: str) -> Package:
    for package in PACKAGES:
        if any(matches(path, pattern) for pattern in package.files):
            return package
    fail(f"no package has {path}; fix: name it in PACKAGES of scripts/make-deb.py")
    raise AssertionError


def split(tree: Path, work: Path) -> None:
    """Links the files of @tree into a directory for each package."""
    for directory, folders, names in os.walk(tree):
        links = [f for f in folders if (Path(directory) / f).is_symlink()]
        for name in names + links:
            source = Path(directory) / name
            relative = source.relative_to(tree)
            if str(relative) in LEFT_OUT:
                continue
            target = work / package_of(str(relative)).name / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            else:
                os.link(source, target)


def is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as f:
        return f.read(4) == b"\x7fELF"


def binaries(root: Path) -> list[Path]:
    """The programs and libraries that we have built; wheels bring the libraries that they need."""
    return [p for p in sorted(root.rglob("*")) if ".venv" not in p.parts and is_elf(p)]


def libraries(root: Path, work: Path) -> list[str]:
    """The packages that the binaries below @root need."""
    elves = [each for each in binaries(root) if each.suffix != ".o"]
    if not elves:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "debian").mkdir()
        (Path(scratch) / "debian/control").write_text(
            "Source: hikyaku\n\nPackage: hikyaku\nArchitecture: any\n"
        )
        own = {lib.parent for lib in work.rglob("libh*.so.0") if lib.parent.name != "halo"}
        found = run(
            "dpkg-shlibdeps",
            "-O",
            "--ignore-missing-info",
            "--warnings=0",
            *[f"-l{lib}" for lib in sorted(own)],
            *[f"-e{each}" for each in elves],
            cwd=Path(scratch),
        )
    return [each.strip() for each in found.removeprefix("shlibs:Depends=").split(",") if each]


@cache
def drivers() -> list[str]:
    found = set()
    for driver in DRIVERS:
        owners = run("dpkg", "-S", f"*/{driver}.so.*").splitlines()
        found |= {owner.partition(":")[0] for owner in owners}
    return sorted(found)


def control(package: Package, root: Path, work: Path, version: str, architecture: str) -> str:
    major, minor = sys.version_info[:2]
    values = {
        "version": version,
        "drivers": ", ".join(drivers()),
        "python": f"{major}.{minor}",
        "next_python": f"{major}.{minor + 1}",
    }
    depends = [each.format(**values) for each in package.depends] + libraries(root, work)
    kilobytes = sum(p.lstat().st_size for p in root.rglob("*") if not p.is_dir()) // 1024 + 1
    fields = {
        "Package": package.name,
        "Source": "hikyaku",
        "Version": version,
        "Architecture": architecture,
        "Maintainer": "The Hikyaku project <hikyaku@localhost>",
        "Installed-Size": str(kilobytes),
        "Section": package.section,
        "Priority": "optional",
        "Depends": ", ".join(dict.fromkeys(depends)),
        "Recommends": ", ".join(package.recommends),
        "Description": f"{package.summary}\n {package.text}",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def finish(package: Package, root: Path, work: Path, version: str, out: Path) -> Path:
    for each in binaries(root):
        bare = each.with_name(each.name + ".bare")
        subprocess.run(["strip", "--strip-unneeded", "-o", bare, each], check=True)
        bare.replace(each)  # the file of the tree has another name for it, and stays
    about = root / "DEBIAN"
    about.mkdir(mode=0o755)
    architecture = "all" if package.all else run("dpkg", "--print-architecture")
    (about / "control").write_text(control(package, root, work, version, architecture))
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()]
    (about / "md5sums").write_text(
        "".join(
            f"{hashlib.md5(p.read_bytes(), usedforsecurity=False).hexdigest()}  "
            f"{p.relative_to(root)}\n"
            for p in files
            if about not in p.parents
        )
    )
    if package.section == "libs":
        (about / "triggers").write_text("activate-noawait ldconfig\n")
    if package.section == "python":
        (ours,) = root.glob(OURS)
        script = about / "prerm"
        script.write_text(PRERM.format(ours=f"/{ours.relative_to(root)}"))
        script.chmod(0o755)
    made = out / f"{package.name}_{version}_{architecture}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", root, made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("tree", type=Path, metavar="TREE")
    parser.add_argument("out", type=Path, metavar="OUT")
    given = parser.parse_args()
    for tool in ("dpkg-shlibdeps", "dpkg-deb", "strip"):
        if not shutil.which(tool):
            fail(f"{tool} is missing; fix: apt-get install dpkg-dev binutils")
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob("*.deb"):
        old.unlink()
    os.umask(0o022)
    tree = given.tree.resolve()
    with tempfile.TemporaryDirectory(prefix=".deb-", dir=tree.parent) as work:
        split(tree, Path(work))
        for package in PACKAGES:
            print(finish(package, Path(work) / package.name, Path(work), given.version, given.out))


if __name__ == "__main__":
    main()
