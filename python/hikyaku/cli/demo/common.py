# SPDX-License-Identifier: BSD-3-Clause
"""The option and the file that the pictures of `hikyaku demo` share."""

from pathlib import Path

import click

from ...checkout import output_dir
from ..bench.common import check_output

out_option = click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for the picture.  [out]",
)


def picture(directory: Path | None, name: str, ending: str = "png") -> Path:
    """The file of demo @name, which can be written."""
    path = (directory or output_dir()) / f"demo-{name}.{ending}"
    check_output(path)
    return path
