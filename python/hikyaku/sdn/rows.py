# SPDX-License-Identifier: BSD-3-Clause
"""Text files of an operator: words on each line, and comments after #."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ..errors import HikyakuError

T = TypeVar("T")


def read_rows(path: Path, parse: Callable[[list[str]], T], form: str, example: str) -> Iterator[T]:
    """Each row of @path as @parse makes it of the row's words. @form and @example: of a row, for
    the error when @parse raises ValueError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as bad:
        raise HikyakuError(f"cannot read {path}: {bad}", "name a text file") from None
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            yield parse(words)
        except ValueError:
            raise HikyakuError(
                f"{path}: line {number} is not {form}: {line.strip()[:80]!r}",
                f"write lines such as: {example}",
            ) from None
