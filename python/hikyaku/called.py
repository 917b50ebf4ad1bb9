# SPDX-License-Identifier: BSD-3-Clause
"""How the user called `hikyaku`, and where, so that printed commands work when they are pasted."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from .checkout import INSTALLED, ROOT

_COMMAND = re.compile(r"(?<![\w./-])hikyaku (?=[a-z])")


def _under_sudo() -> bool:
    """Did sudo start the launcher? A root shell that sudo started does not count."""
    command = os.environ.get("SUDO_COMMAND", "").split(" ")[0]
    return os.geteuid() == 0 and Path(command).name == "hikyaku"


def called() -> str:
    """`hikyaku` if PATH has this launcher, else the launcher's path as the user typed it; after
    `sudo`, if the user typed that."""
    launcher = os.environ.get("HIKYAKU_COMMAND", "hikyaku")
    found = shutil.which("hikyaku")
    same = found and Path(launcher).exists() and Path(found).samefile(launcher)
    typed = "hikyaku" if same else shlex.quote(launcher)
    return f"sudo {typed}" if _under_sudo() else typed


def as_typed(text: str) -> str:
    """@text, in which the commands of hikyaku are written as the user calls it."""
    return _COMMAND.sub(lambda _: f"{called()} ", text)


def as_root(command: str) -> str:
    """@command as a fix for this user, who may not be root."""
    if _under_sudo():
        if _COMMAND.match(command):
            return command  # as_typed() adds sudo
    elif os.geteuid() == 0:
        return command
    if not shutil.which("sudo"):
        return f"as root: {command}"
    plain = not set(command) & set("<>|&;$")
    return f"sudo {command}" if plain else f"sudo sh -c {shlex.quote(command)}"


def again_as_root(**settings: object) -> str:
    """The fix for a command line that only root may run. sudo clears the environment, so the fix
    repeats our variables; @settings are further ones."""
    if "HIKYAKU_COMMAND" not in os.environ:  # a program that uses the package
        return "run the same program as root"
    ours = {n: v for n, v in os.environ.items() if n.startswith("HIKYAKU_")} | settings
    words = [f"{n}={shlex.quote(str(v))}" for n, v in ours.items() if n != "HIKYAKU_COMMAND"]
    env = " ".join(["env", *words, ""]) if words else ""
    return as_root(f"{env}hikyaku {shlex.join(sys.argv[1:])}")


def in_checkout(path: str) -> str:
    """@path in the checkout, as a word of a command that is typed here."""
    return path if Path.cwd() == ROOT else shlex.quote(str(ROOT / path))


def make() -> str:
    """The command that builds or installs what is missing."""
    if INSTALLED:
        return "run 'make install' again in the checkout that it was installed from"
    return "make" if Path.cwd() == ROOT else f"make -C {in_checkout('.')}"


def install_deps() -> str:
    """The fix where a package is missing."""
    if INSTALLED:
        return "install the packages that docs/install.md lists"
    return as_root(in_checkout("scripts/install-deps"))
