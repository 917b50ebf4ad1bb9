# SPDX-License-Identifier: BSD-3-Clause
"""What all benchmarks' commands share: options, the progress bar, saving."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import HikyakuError

json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save every figure; the form is stable.",
)
plot_option = click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save a picture (.png, .svg or .pdf).",
)


def repeats_option(default: int, text: str) -> Callable:
    return click.option(
        "--repeats",
        default=default,
        show_default=True,
        type=click.IntRange(1, 1000),
        help=text,
    )


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, a line for each step elsewhere; on stderr, so that stdout is clean."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def line(text: str, done: int, total: int) -> None:
            click.echo(f"[{done}/{total}] {text}", err=True)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )


PICTURES = (".png", ".svg", ".pdf")


def check_output(path: Path) -> None:
    """Finds out before the measurement, not after it, that its result cannot be saved."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise HikyakuError(f"{path} cannot be written: {error.strerror}") from None


def check_outputs(json_file: Path | None, plot_file: Path | None = None) -> None:
    if plot_file and plot_file.suffix not in PICTURES:
        raise HikyakuError(f"{plot_file} is no picture", f"end it in {', '.join(PICTURES)}")
    for path in filter(None, (json_file, plot_file)):
        check_output(path)


def save(
    document: dict,
    json_file: Path | None,
    plot_file: Path | None = None,
    draw: Callable[[dict, Path], None] | None = None,
) -> None:
    """Saves what is asked for, and says so. @draw makes the picture."""
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n")
        click.echo(f"saved {json_file}")
    if plot_file and draw:
        draw(document, plot_file)
        click.echo(f"saved {plot_file}")
