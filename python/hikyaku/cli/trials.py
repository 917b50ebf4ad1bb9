# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku trials`."""

from pathlib import Path

import click

from ..errors import HikyakuError
from .bench.common import run_suite
from .options import json_option, repeats_option


@click.command()
@click.argument("names", nargs=-1, metavar="[PROGRAM]...")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="A directory with programs of yours, and a file 'trials' that lists them.",
)
@click.option("--list", "listing", is_flag=True, help="List the programs, and run nothing.")
@repeats_option(3, "Runs of each program over each way; the table shows the median.")
@json_option
def trials(
    names: tuple[str, ...],
    directory: Path | None,
    listing: bool,
    repeats: int,
    json_file: Path | None,
) -> None:
    """Run programs of others over TCP and Hikyaku, and compare results.

    Runs what Debian packages (HPC Challenge, NetPIPE, LAMMPS, tests of ScaLAPACK) and is installed;
    with --dir also programs of yours. It fetches nothing. Figures that are the same in two runs
    over TCP must be the same over Hikyaku and over tagged TCP. The exit status is 1 if one differs
    or a program fails.

    The file 'trials' has a line for each program: a name, the ranks, and the command.

    \b
        lulesh 8 ./lulesh -s 10 -i 40

    \b
    Examples:
      hikyaku trials
      hikyaku trials hpcc --repeats 1
      hikyaku trials --dir my-programs --json out/trials.json
    """
    from ..trials import report, run
    from ..trials.program import listed, packaged

    known = {p.name: p for p in (*packaged(), *(listed(directory) if directory else ()))}
    for name in names:
        if name not in known:
            raise HikyakuError(f"there is no program '{name}'", f"use some of: {', '.join(known)}")
    chosen = [program for name, program in known.items() if not names or name in names]
    if listing:
        for program in chosen:
            click.echo(f"{program.name:16} {program.ranks} ranks  {' '.join(program.command)}")
        return
    bad: list[str] = []

    def measure(progress: run.Progress) -> dict:
        document = run.run(chosen, repeats, progress)
        bad.extend(r["name"] for r in document["rows"] if "failed" in r or run.differing(r))
        return document

    run_suite(measure, report.show, json_file)
    if bad:
        raise HikyakuError(f"other results than over TCP, or none: {', '.join(bad)}")
