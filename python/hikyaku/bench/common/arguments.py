# SPDX-License-Identifier: BSD-3-Clause
"""Parses the lists of sizes and names that the benchmarks' options take."""

import re

from ...errors import HikyakuError

MAX_SIZE = 1 << 30


def _number(text: str, what: str) -> int:
    match = re.fullmatch(r"(\d+)([kKmM]?)", text.strip())
    if not match:
        raise HikyakuError(
            f"'{text}' is not a {what}", "write numbers, as in 8,2048,64K,4M, or a range 1..4M"
        )
    size = int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2].lower()]
    if size > MAX_SIZE:
        raise HikyakuError(f"{what} {text} is out of range", "give at most 1024M")
    return size


def parse_sizes(text: str, what: str = "number of bytes") -> list[int]:
    """The numbers of '8,2048,64K' or '1..4M' (powers of two), sorted and unique."""
    sizes = set()
    for part in text.split(","):
        low, dots, high = part.partition("..")
        if dots:
            size, end = max(1, _number(low, what)), _number(high, what)
            while size <= end:
                sizes.add(size)
                size *= 2
        else:
            sizes.add(_number(part, what))
    if not sizes:
        raise HikyakuError(f"no {what} in '{text}'", "give the smaller end of a range first")
    return sorted(sizes)


def parse_names(text: str, known: tuple[str, ...], what: str) -> list[str]:
    """The comma-separated names of @text, each one of @known, in the order of @known."""
    names = [n.strip() for n in text.split(",") if n.strip()]
    for name in names:
        if name not in known:
            raise HikyakuError(f"there is no {what} '{name}'", f"use some of: {', '.join(known)}")
    if not names:
        raise HikyakuError(f"no {what} given", f"use some of: {', '.join(known)}")
    return [k for k in known if k in names]


def parse_numbers(text: str, most: float, what: str) -> tuple[float, ...]:
    """The comma-separated numbers of @text, above 0 and at most @most, in ascending order."""
    found = set()
    for word in filter(None, map(str.strip, text.split(","))):
        try:
            value = float(word)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise HikyakuError(
                f"'{word}' is not a {what}", f"use numbers above 0, at most {most:g}, such as 0.5"
            )
        found.add(value)
    if not found:
        raise HikyakuError(f"no {what} given", "use numbers such as 0.5,1")
    return tuple(sorted(found))
