# SPDX-License-Identifier: BSD-3-Clause
"""The progress bar, the output files and the run of a suite."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...bench.common import goals
from ...checkout import built
from ...errors import HikyakuError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[dict], "Figure"]


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Shows progress on stderr: a bar on a terminal, elsewhere a line for each step."""
    console = Console(stderr=True, emoji=False)
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


def check_output(path: Path, fix: str = "name a place where you may write") -> None:
    """Raises an error, before the measurement, if its result cannot be saved. Leaves no file, since
    the measurement may be interrupted."""
    is_new = not os.path.lexists(path)  # a link to a file that does not exist stays
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise HikyakuError(f"{path} cannot be written: {error.strerror}", fix) from None


def check_outputs(json_file: Path | None, plot_file: Path | None = None) -> None:
    if plot_file and plot_file.suffix not in PICTURES:
        raise HikyakuError(
            f"{plot_file} has an unknown format", f"use a name that ends in {', '.join(PICTURES)}"
        )
    for path in filter(None, (json_file, plot_file)):
        check_output(path)


def save(
    document: dict, json_file: Path | None, plot_file: Path | None = None, draw: Draw | None = None
) -> None:
    """Saves @document, and the plot that @draw makes of it, to the given files."""
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n")
        click.echo(f"saved {json_file}")
    if plot_file and draw:
        draw(document).savefig(plot_file)
        click.echo(f"saved {plot_file}")


def run_suite(
    run: Callable[[Callable[[str, int, int], None]], dict],
    show: Callable[[dict, Console], None],
    json_file: Path | None,
    plot_file: Path | None = None,
    *,
    programs: Iterable[str] = (),
    judge: Callable[[dict], list[dict]] | None = None,
    draw: Draw | None = None,
    lacks: Callable[[dict], HikyakuError | None] = lambda _: None,
) -> None:
    """Measures by @run, which reports its progress; adds the goals of @judge, prints and saves.
    Then raises the error of @lacks, which says what the document should have and has not.

    @programs: those that must be built.
    """
    check_outputs(json_file, plot_file)
    for program in programs:
        built(program)
    with progress_bar() as progress:
        document = run(progress)
    if judge:
        document["goals"] = judge(document)
    if "goals" in document:
        goals.withhold(document)
    show(document, Console(emoji=False))
    save(document, json_file, plot_file, draw)
    if error := lacks(document):
        raise error
