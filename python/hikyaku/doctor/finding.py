# SPDX-License-Identifier: BSD-3-Clause
"""One line of the output of `hikyaku doctor`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

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


def text_of(path: Path) -> str | None:
    """The text of a small file; None if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
