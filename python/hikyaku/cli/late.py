# SPDX-License-Identifier: BSD-3-Clause
"""The commands of a group, each imported when it is asked for. To import all takes longer than most
commands run."""

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from ..process import uninterrupted


class LateCommands(Mapping[str, click.Command]):
    """@modules: by the command's name, the module of @package that has it. Its name there is
    @prefix and the command's."""

    def __init__(self, package: str, modules: Mapping[str, str], prefix: str = ""):
        self._package = package
        self._modules = modules
        self._prefix = prefix

    def __getitem__(self, name: str) -> click.Command:
        where = self._modules[name]
        with uninterrupted():  # Python may lose a signal while it imports
            module = import_module(f".{where}", self._package)
        return getattr(module, self._prefix + name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
