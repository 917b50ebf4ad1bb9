# SPDX-License-Identifier: BSD-3-Clause
"""The options and the console that commands of several groups share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import HikyakuError

if TYPE_CHECKING:  # it takes a fifth of most commands' time to import
    from rich.console import Console

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save all results; the format is stable.",
)
plot_option = click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save a plot (.png, .svg or .pdf).",
)
nic_model_option = click.option(
    "--nic-model",
    type=click.Choice(["e1000e", "vmxnet3"]),
    default="e1000e",
    help="The emulated NIC.",
)


class ExistingFile(click.Path):
    """A file to read. An error names files of its kind in the same directory."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        path = Path(value)
        if not path.exists():
            alike = path.parent.glob(f"*{path.suffix}") if path.suffix else ()
            there = sorted(map(str, alike))[:3]
            fix = f"use {' or '.join(there)}" if there else "give the path of a file that exists"
            raise HikyakuError(f"{path} does not exist", fix)
        return super().convert(value, param, ctx)


def lab_option(text: str, default: str | None = "default", parameter: str = "name") -> Callable:
    """--lab, with $HIKYAKU_LAB before @default."""
    return click.option(
        "--lab", parameter, default=default, envvar="HIKYAKU_LAB", metavar="NAME", help=text
    )


def repeats_option(default: int, text: str | None = None) -> Callable:
    return click.option("--repeats", default=default, type=click.IntRange(1, 1000), help=text)


def seed_option(text: str) -> Callable:
    return click.option("--seed", default=1, type=click.IntRange(0), help=text)


def sample_option(default: int, text: str | None = None) -> Callable:
    return click.option("--sample-ms", default=default, type=click.IntRange(1, 10000), help=text)


def wide_console(columns: int = 160, *, highlight: bool = True) -> "Console":
    """A console for tables; @columns wide in a file or a pipe, so that these are not cut."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else columns, highlight=highlight, emoji=False)
