# SPDX-License-Identifier: BSD-3-Clause
"""Which installation made a lab. (A checkout counts as an installation.)

An installation uses only labs of its own. Programs, settings and state of a lab are of one release,
and concurrent test runs of two checkouts must not disturb each other. But all labs of a user share
the machine, so every installation shows them, and names the launcher that uses them.
"""

import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..checkout import CHECKOUT_ID, LAUNCHER, STATE_DIR, is_private
from ..errors import HikyakuError
from .names import lab_directory

_PREFIX = f"hikyaku-{os.getuid()}-"  # of state directories


@dataclass(frozen=True)
class KnownLab:
    """The name of a lab, and the installation that made it."""

    name: str
    checkout: str = CHECKOUT_ID
    launcher: Path = LAUNCHER

    @property
    def state(self) -> Path:
        return lab_directory(self.name, self.checkout) / "lab.json"

    @property
    def is_ours(self) -> bool:
        return self.checkout == CHECKOUT_ID

    @property
    def is_orphan(self) -> bool:
        """Has the installation been removed?"""
        return not self.launcher.exists()

    @property
    def command(self) -> str:
        """The `hikyaku` that can end the lab."""
        return "hikyaku" if self.is_ours or self.is_orphan else shlex.quote(str(self.launcher))


def other_labs(name: str = "*") -> list[KnownLab]:
    """The labs of other installations that are up: all, or those called @name."""
    found = []
    for state in sorted(STATE_DIR.parent.glob(f"{_PREFIX}*")):
        # a lab may go down meanwhile
        with suppress(FileNotFoundError):
            if state != STATE_DIR and is_private(state):
                found += [
                    lab for file in sorted(state.glob(f"labs/{name}")) if (lab := _read(file))
                ]
    return found


def _read(directory: Path) -> KnownLab | None:
    """The lab in @directory. None: it is not up, or a release without this entry made it."""
    try:
        launcher = Path(json.loads((directory / "lab.json").read_text())["launcher"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    checkout = directory.parents[1].name.removeprefix(_PREFIX)
    return KnownLab(directory.name, checkout, launcher)


def find(name: str, *, others: bool) -> KnownLab:
    """The lab @name of this installation; with @others, of another one if this has none."""
    own = KnownLab(name)
    elsewhere = [] if own.state.exists() else other_labs(name)
    if not elsewhere:
        return own
    if others and len(elsewhere) == 1:
        return elsewhere[0]
    living = [lab.command for lab in elsewhere if not lab.is_orphan]
    if not living:
        raise HikyakuError(
            f"lab '{name}' belongs to an installation that is gone",
            f"hikyaku lab down --lab {name}",
        )
    raise HikyakuError(
        f"lab '{name}' belongs to another installation",
        f"run the same command with {' or '.join(living)}, "
        f"or make a lab here: hikyaku lab up --lab {name}",
    )
