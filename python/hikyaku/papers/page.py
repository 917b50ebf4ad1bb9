# SPDX-License-Identifier: BSD-3-Clause
"""The page: each figure of the papers beside ours, as HTML with plots and as JSON."""

import io
import json
import shlex
from dataclasses import asdict, dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from ..bench.common.goals import value_text
from . import Figure, Paper
from .figure import Comparison
from .run import Result

RECORD = "papers.json"
SCHEMA = 3

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-top: 2px solid #0072B2; margin-top: 3rem; padding-top: 1rem; }
h3 { margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd; }
th:nth-child(n+2), td:nth-child(n+2) { text-align: right; white-space: nowrap; }
.met { color: #00704f; } .missed { color: #b34700; } .gap { color: #777; }
.said { border-left: 4px solid #56B4E9; padding-left: 1rem; }
code { background: #f3f3f3; padding: .1rem .3rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
small { color: #555; }
"""


def standing(comparisons: list[Comparison]) -> str:
    """How a figure stands: met, missed, measured (no goal), gap."""
    if not comparisons:
        return "gap"
    judged = [c.met for c in comparisons if c.met is not None]
    if not judged:
        return "measured"
    return "met" if all(judged) else "missed"


@dataclass(frozen=True)
class Shown:
    """A figure with its result, if there is one."""

    paper: Paper
    figure: Figure
    result: Result | None
    compared: list[Comparison]

    @property
    def standing(self) -> str:
        """Also: checked, if only hardware shows the effect."""
        found = standing(self.compared)
        return "checked" if found == "measured" and self.figure.procedure else found


def show(papers: list[Paper], results: dict[str, Result]) -> list[Shown]:
    """The figures of @papers in order. Those without a result are gaps."""
    shown = []
    for paper in papers:
        for figure in paper.figures:
            result = results.get(figure.measurement.name) if figure.measurement else None
            found = result.document if result else None
            compared = list(figure.compare(found)) if found and figure.compare else []
            shown.append(Shown(paper, figure, result, compared))
    return shown


WORDS = {
    "met": '<span class="met">met or passed</span>',
    "missed": '<span class="missed">not met</span>',
    "measured": "measured",
    "checked": "checked; only hardware shows the effect",
    "gap": '<span class="gap">a gap</span>',
}


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else escape(f"{value_text(value)} {unit}".strip())


def _table(comparisons: list[Comparison]) -> str:
    lines = ["<table><tr><th></th><th>paper</th><th>here</th><th></th></tr>"]
    for c in comparisons:
        mark = {True: WORDS["met"], False: WORDS["missed"], None: ""}[c.met]
        goal = f" {escape(c.relation)} " if c.relation and c.theirs is not None else ""
        note = f"<br><small>{escape(c.note)}</small>" if c.note else ""
        lines.append(
            f"<tr><td>{escape(c.what)}{note}</td><td>{goal}{_number(c.theirs, c.unit)}</td>"
            f"<td>{_number(c.ours, c.unit)}</td><td>{mark}</td></tr>"
        )
    return "\n".join([*lines, "</table>"])


def _plot(figure: Figure, result: Result) -> str:
    if not figure.draw or not result.document:
        return ""
    svg = io.StringIO()
    figure.draw(result.document).savefig(svg, format="svg")
    text = svg.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"


def _section(shown: Shown) -> list[str]:
    figure, result = shown.figure, shown.result
    parts = [f'<h3 id="{figure.name}">{escape(figure.title)}</h3>']
    parts.append(f'<p class="said">{escape(figure.said)}</p>')
    if result is None:
        return [*parts, f'<p class="gap">Not measured. {escape(figure.open)}</p>']
    command = f"hikyaku {shlex.join(result.command)}"
    if result.document is None:
        parts.append(f'<p class="gap">Not measured: <code>{escape(command)}</code> failed.</p>')
        return [*parts, f"<pre>{escape(result.failure)}</pre>"]
    parts += [_table(shown.compared), _plot(figure, result)]
    parts.append(f"<p>{escape(figure.setting)} {escape(figure.open)}</p>")
    if shown.standing == "missed":
        parts.append(f"<p><b>What bounds it.</b> {escape(figure.bound)}</p>")
    if figure.procedure:
        lines = escape("\n".join(figure.procedure))
        parts.append(f"<p>On hardware, these commands measure it:</p><pre>{lines}</pre>")
    parts.append(f"<p><small><code>{escape(command)}</code>, {result.seconds:.0f} s</small></p>")
    return parts


def _machine(about: dict) -> str:
    return (
        f"{about['cpu']}, {about['cores']} cores; {about['os']}, Linux {about['kernel']}; Open MPI "
        f"{about['open_mpi']}, DPDK {about['dpdk']}; Hikyaku {about['hikyaku']}, commit "
        f"{about['commit']}; {about['time']}"
    )


def html(shown: list[Shown], about: dict, quick: bool) -> str:
    parts = ["<!doctype html>", '<html lang="en"><meta charset="utf-8">']
    parts += ["<title>The five papers beside Hikyaku</title>", f"<style>{STYLE}</style>"]
    parts.append("<h1>The five papers beside Hikyaku</h1>")
    parts.append(
        "<p>What the authors of each paper reported of their hardware, and what this machine "
        "measured. Figures of different hardware are not compared; ratios are. Nothing is left "
        "out because it came out badly.</p>"
    )
    parts.append(f"<p><small>{escape(_machine(about))}</small></p>")
    if quick:
        parts.append("<p><b>A quick run: few repeats, and few sizes.</b></p>")
    parts.append("<table><tr><th>figure</th><th></th></tr>")
    for each in shown:
        link = f'<a href="#{each.figure.name}">{escape(each.figure.title)}</a>'
        state = WORDS[each.standing]
        parts.append(f"<tr><td>{each.paper.name}: {link}</td><td>{state}</td></tr>")
    parts.append("</table>")
    for paper, figures in groupby(shown, lambda each: each.paper):
        parts.append(f'<h2 id="{paper.name}">{paper.name}: {escape(paper.title)}</h2>')
        parts.append(f"<p>{escape(paper.authors)}</p>")
        for each in figures:
            parts += _section(each)
    return "\n".join([*parts, "</html>", ""])


def document(shown: list[Shown], about: dict, quick: bool) -> dict:
    """The same as JSON, without the measurements' own documents."""
    figures = [
        {
            "figure": each.figure.name,
            "paper": each.paper.name,
            "title": each.figure.title,
            "said": each.figure.said,
            "kind": each.figure.kind,
            "wire": each.figure.wire,
            "setting": each.figure.setting,
            "open": each.figure.open,
            "bound": each.figure.bound if each.standing == "missed" else "",
            "measurement": each.figure.measurement.name if each.figure.measurement else None,
            "procedure": list(each.figure.procedure),
            "command": each.result.command if each.result else None,
            "seconds": each.result.seconds if each.result else None,
            "failure": each.result.failure if each.result else "",
            "standing": each.standing,
            "compared": [asdict(c) | {"met": c.met} for c in each.compared],
        }
        for each in shown
    ]
    papers = {
        each.paper.name: {"title": each.paper.title, "authors": each.paper.authors}
        for each in shown
    }
    return {
        "schema": SCHEMA,
        "machine": about,
        "quick": quick,
        "papers": [{"name": name, **texts} for name, texts in papers.items()],
        "figures": figures,
    }


def write(directory: Path, shown: list[Shown], about: dict, quick: bool) -> Path:
    """Writes index.html and the record; returns the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    data = document(shown, about, quick)
    (directory / RECORD).write_text(json.dumps(data, indent=1) + "\n")
    page = directory / "index.html"
    page.write_text(html(shown, about, quick))
    return page
