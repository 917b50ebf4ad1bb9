# SPDX-License-Identifier: BSD-3-Clause
"""The command line of a launcher: its options, then the program with the program's arguments."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ..errors import HikyakuError


@dataclass(frozen=True)
class Grammar:
    """How a launcher reads its options."""

    launcher: str
    values: Mapping[str, int]  # by an option's name, without dashes; every other one has none
    counts: Collection[str]  # the options that give the number of ranks

    def split_command(self, args: list[str]) -> tuple[list[str], list[str]]:
        """Splits the arguments into options, and the program with the program's arguments."""
        i = 0
        while i < len(args) and args[i].startswith("-") and args[i] != "-":
            i += 1 + self.values.get(args[i].lstrip("-"), 0)
        if i > len(args):
            raise HikyakuError(f"{self.launcher}'s option '{args[-1]}' lacks its value")
        return args[:i], args[i:]

    def each(self, options: list[str]) -> Iterator[tuple[str, list[str]]]:
        """Each of @options without its dashes, and its values."""
        i = 0
        while i < len(options):
            name = options[i].lstrip("-")
            count = self.values.get(name, 0)
            yield name, options[i + 1 : i + 1 + count]
            i += 1 + count

    def names(self, options: list[str]) -> set[str]:
        """The names of @options, without dashes."""
        return {name for name, _ in self.each(options)}

    def option(self, options: list[str], names: Collection[str]) -> str | None:
        """The value of the last of @names in @options."""
        found = [values[0] for name, values in self.each(options) if name in names]
        return found[-1] if found else None

    def rank_count(self, options: list[str]) -> int | None:
        text = self.option(options, self.counts)
        if text is None:
            return None
        if not text.isdigit() or int(text) == 0:
            raise HikyakuError(
                f"'-np {text}': the number of ranks must be a positive number", "such as -np 2"
            )
        return int(text)
