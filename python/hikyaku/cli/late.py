# SPDX-License-Identifier: BSD-3-Clause
"""The commands of a group, each imported when it is asked for. To import all takes longer than most
commands run."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

import click

from ..process import uninterrupted


class LateCommands(Mapping[str, click.Command]):
    """Each of @names is a module of @package, which has the command as @prefix and the name."""

    def __init__(self, package: str, names: Sequence[str], prefix: str = ""):
        self._package = package
        self._names = tuple(names)
        self._prefix = prefix

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        with uninterrupted():  # Python may lose a signal while it imports
            module = import_module(f".{name}", self._package)
        return getattr(module, self._prefix + name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
