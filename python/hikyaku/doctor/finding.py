# SPDX-License-Identifier: BSD-3-Clause
"""One line of the output of `hikyaku doctor`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ..called import in_checkout
from ..checkout import INSTALLED, ROOT

OK, WARN, MISSING = "ok", "warn", "missing"


@dataclass(frozen=True)
class Finding:
    area: str
    state: str
    text: str
    fix: str | None = None

    def to_json(self) -> dict:
        return asdict(self)


Findings = Iterator[Finding]


def make() -> str:
    """The command that builds what is missing."""
    if INSTALLED:
        return "run 'make install' again in the checkout that it was installed from"
    return "make" if Path.cwd() == ROOT else f"make -C {in_checkout('.')}"


def text_of(path: Path) -> str | None:
    """The text of a small file; None if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
