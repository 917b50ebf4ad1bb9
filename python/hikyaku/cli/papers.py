# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku papers`."""

from pathlib import Path

import click

from ..checkout import output_dir
from ..errors import HikyakuError
from .bench.common import progress_bar


@click.command()
@click.argument("names", nargs=-1, metavar="[P1…P5 | FIGURE]...")
@click.option("--quick", is_flag=True, help="Few repeats and sizes: ten minutes in all.")
@click.option("--resume", is_flag=True, help="Keep what this commit has measured already.")
@click.option("--list", "listing", is_flag=True, help="List the figures, and measure nothing.")
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the page goes, or is.  [out/papers]",
)
@click.option(
    "--publish",
    "published",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE.md",
    help="Write the last run as pages; measure nothing.",
)
def papers(
    names: tuple[str, ...],
    quick: bool,
    resume: bool,
    listing: bool,
    directory: Path | None,
    published: Path | None,
) -> None:
    """Measure what five papers report, and show both side by side.

    Writes index.html, with plots, and papers.json. A figure that cannot be measured is a gap on the
    page, with the reason. Without names it does all papers.

    --publish writes a finished run as Markdown, in English (PAGE.md) and in Japanese (PAGE.ja.md),
    with its plots in images/PAGE.

    \b
    Examples:
      hikyaku papers --quick
      hikyaku papers P3 P5-sum
      hikyaku papers --resume           goes on after an interruption
      hikyaku papers --publish docs/papers.md
    """
    from ..bench.common import machine
    from ..papers import FIGURES, PAPERS, page, run
    from ..papers.publish import publish

    directory = directory or output_dir() / "papers"
    if published:
        if names or quick or resume or listing:
            raise click.UsageError("--publish measures nothing: of other options it takes --out")
        for path in publish(directory, published):
            click.echo(f"saved {path}")
        return

    chosen = _chosen(names)
    if listing:
        for name, figure in FIGURES.items():
            how = "measured" if figure.measurement else "a gap"
            click.echo(f"{name:18} {how:9} {figure.title}")
        return
    about = machine.describe()
    with progress_bar() as progress:
        results = run.measure(
            [FIGURES[name] for name in chosen],
            directory / "data",
            progress,
            commit=about["commit"],
            quick=quick,
            resume=resume,
        )
    shown = page.show([paper.only(chosen) for paper in PAPERS], results)
    made = page.write(directory, shown, about, quick)
    for each in shown:
        click.echo(f"{each.figure.name:18} {each.standing:9} {each.figure.title}")
    click.echo(f"saved {made}")


def _chosen(names: tuple[str, ...]) -> list[str]:
    """The names of figures that @names mean, in the papers' order."""
    from ..papers import FIGURES, PAPERS

    wanted = set()
    by_lower = {name.lower(): [name] for name in FIGURES}
    by_lower |= {paper.name.lower(): [f.name for f in paper.figures] for paper in PAPERS}
    for name in names:
        found = by_lower.get(name.lower())
        if not found:
            raise HikyakuError(f"there is no figure '{name}'", "hikyaku papers --list")
        wanted.update(found)
    return [name for name in FIGURES if not names or name in wanted]
