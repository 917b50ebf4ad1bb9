# SPDX-License-Identifier: BSD-3-Clause
"""The names of labs, and the id and the directory of each.

@checkout is the id of the checkout or installation that made a lab.
"""

import re
from pathlib import Path

from ..checkout import CHECKOUT_ID, STATE_DIR, digest, state_dir
from ..errors import HikyakuError


def lab_id(name: str, checkout: str = CHECKOUT_ID) -> str:
    """The id of lab @name, which its namespaces, node directories and processes carry. No other lab
    has the same: with 12 bits of the hash, two labs had in one of forty test runs."""
    return checkout + digest(name, 8)


def checkout_of(ident: str) -> str:
    """The id of the checkout that made the lab or namespace @ident."""
    return ident[: len(CHECKOUT_ID)]


def lab_directory(name: str, checkout: str = CHECKOUT_ID) -> Path:
    return state_dir(checkout) / "labs" / name


def all_names() -> list[str]:
    """Labs of this checkout that have a directory, up or left over."""
    base = STATE_DIR / "labs"
    return sorted(p.name for p in base.iterdir() if p.is_dir()) if base.is_dir() else []


def check_name(name: str) -> None:
    """Raises an error if @name, which becomes part of a path, has other characters."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
        raise HikyakuError(
            f"'{name}' is not a name for a lab", "use up to 32 letters, digits, '-' and '_'"
        )
