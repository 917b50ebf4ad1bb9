# SPDX-License-Identifier: BSD-3-Clause
"""The five papers that Hikyaku makes real: their figures and tables beside ours.

    figure.py    a figure: what its authors say, and how we compare
    p1.py …      the figures of each paper
    run.py       measures what figures need, by `hikyaku bench`
    page.py      the page: HTML with plots, and JSON
    publish.py   pages for the documentation, from that JSON
    japanese/    the texts of the Japanese one

docs/references.md has the papers themselves.
"""

from . import p1, p2, p3, p4, p5
from .figure import Figure, Paper

PAPERS: tuple[Paper, ...] = (p1.PAPER, p2.PAPER, p3.PAPER, p4.PAPER, p5.PAPER)
FIGURES: dict[str, Figure] = {figure.name: figure for paper in PAPERS for figure in paper.figures}

__all__ = ["FIGURES", "PAPERS", "Figure", "Paper"]
