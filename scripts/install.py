#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs the files of a build directory below any prefix, and removes them again.

    install.py --build DIR PREFIX     installs; below $DESTDIR if that is set
    install.py --remove PREFIX        removes the files of the last installation there

`meson install` knows only the prefix of the build directory, and another prefix configures that
directory again. So meson installs into a staging directory beside the place, and this script moves
the files. It runs no compiler and changes nothing in the build directory. Only the systemd unit
contains the prefix (scripts/install-unit).

A directory named `hikyaku` is ours alone: it is replaced and removed as a whole. RECORD lists all
others and each file beside them.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

RECORD = Path("share/hikyaku/installed.txt")
OURS = "hikyaku"


def configured_prefix(build: Path) -> Path:
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    return Path(next(each["value"] for each in options if each["name"] == "prefix"))


def is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def move(staged: Path, place: Path) -> Iterator[Path]:
    """Moves the contents of @staged to @place, and gives each file and directory that it made."""
    for source in sorted(staged.iterdir()):
        target = place / source.name
        if is_directory(source) and source.name != OURS:
            if not target.is_dir():
                target.mkdir()
                yield target
            yield from move(source, target)
        else:
            if is_directory(target):
                shutil.rmtree(target)
            elif target.is_dir():
                target.unlink()  # a link to a directory, into which move() would move
            shutil.move(source, target)
            yield target


def install(build: Path, prefix: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    # In the same file system, so that each file is there as a whole or not at all.
    with tempfile.TemporaryDirectory(prefix=".hikyaku-", dir=place) as stage:
        meson = ["meson", "install", "-C", str(build), "--no-rebuild", "--quiet"]
        env = {**os.environ, "HIKYAKU_PREFIX": str(prefix)}
        subprocess.run([*meson, "--destdir", stage], env=env, check=True)
        if (place / RECORD).exists():
            remove(place)
        staged = Path(stage) / configured_prefix(build).relative_to("/")
        (staged / RECORD).parent.mkdir(parents=True, exist_ok=True)
        (staged / RECORD).touch()
        made = list(move(staged, place))
    (place / RECORD).write_text("".join(f"{path.relative_to(place)}\n" for path in made))


def remove(place: Path) -> None:
    # in this order directories are empty when their turn comes, unless others use them
    for name in reversed((place / RECORD).read_text().splitlines()):
        path = place / name
        if not is_directory(path):
            path.unlink(missing_ok=True)
        elif path.name == OURS:
            shutil.rmtree(path)
        else:
            with suppress(OSError):
                path.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", type=Path, metavar="DIR", help="the build directory")
    what.add_argument("--remove", action="store_true", help="remove the files")
    parser.add_argument("prefix", type=Path, metavar="PREFIX")
    given = parser.parse_args()
    prefix = given.prefix.expanduser().absolute()  # make leaves a ~ as it is
    destdir = os.environ.get("DESTDIR")
    place = Path(destdir).absolute() / prefix.relative_to("/") if destdir else prefix
    os.umask(0o022)
    try:
        if given.build:
            install(given.build, prefix, place)
            again = f" DESTDIR={shlex.quote(destdir)}" if destdir else ""
            print(f"installed below {place}; docs/install.md has what the nodes need")
            print(f'  eval "$({shlex.quote(str(prefix))}/bin/hikyaku env)"    # then type mpirun')
            print(f"  make uninstall PREFIX={shlex.quote(str(prefix))}{again}    # removes it")
        elif (place / RECORD).exists():
            remove(place)
        else:
            sys.exit(
                f"install.py: 'make install' has put nothing below {place}; "
                "fix: make uninstall PREFIX=DIRECTORY, with the same PREFIX and DESTDIR"
            )
    except PermissionError:
        target = "install" if given.build else "uninstall"
        again = f"sudo make {target} PREFIX={prefix}" + (f" DESTDIR={destdir}" if destdir else "")
        home = ", or make install PREFIX=~/.local" if given.build else ""
        sys.exit(f"install.py: you may not write below {place}; fix: {again}{home}")


if __name__ == "__main__":
    main()
