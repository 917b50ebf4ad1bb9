# SPDX-License-Identifier: BSD-3-Clause
"""Pages of a finished run for the documentation: Markdown in English and in Japanese, with plots.

The record of `hikyaku papers` (papers.json) has what the pages say, and the measurements beside it
have what plots draw. Both pages come from the same record, so their figures are the same. Texts are
in English there; japanese/ translates them.
"""

import io
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ..bench.common.busy import busy
from ..bench.common.goals import value_text
from ..errors import HikyakuError
from . import FIGURES, japanese
from .figure import KINDS
from .page import RECORD, SCHEMA
from .run import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

TEXTS = ("title", "said", "setting", "open", "bound", "kind", "wire")  # of a figure
COLUMNS = 100  # of listings
WIDTH = COLUMNS - len("> ")  # of paragraphs, which may be quoted
FAILURE = 300  # characters of an error
DPI, PALETTE = 64, 32  # of plots: small files, and texts that can be read

Text = Callable[[str], str]


# ---- texts ---------------------------------------------------------------------------------------


def _english_lines(paragraph: str) -> str:
    return textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def _japanese_lines(paragraph: str) -> str:
    """A line for each sentence. A long one goes on after a comma."""
    lines: list[str] = []
    for sentence in re.findall(r"[^。]+(?:。\**)?", paragraph):
        line = ""
        for part in re.findall(r"[^、]+、?", sentence.strip()):
            if line and len(line) + len(part) > COLUMNS // 2:
                lines.append(line)
                line = ""
            line += part
        lines.append(line)
    return "\n".join(lines)


@dataclass(frozen=True)
class Language:
    """@text: of an English text, the same in this language. @wrap: a paragraph in lines."""

    suffix: str  # of the page's name
    text: Text
    wrap: Callable[[str], str]
    other: tuple[str, str]  # the name and the suffix of the other language


LANGUAGES = (
    Language(".md", str, _english_lines, ("日本語", ".ja.md")),
    Language(".ja.md", japanese.text, _japanese_lines, ("English", ".md")),
)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _row(*cells: str) -> str:
    return re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |")


def _table(*heads: str) -> list[str]:
    return [_row(*heads), "|" + "---|" * len(heads)]


def _anchor(heading: str) -> str:
    """The one that GitHub and MkDocs make of @heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _amount(value: float | None, unit: str, text: Text) -> str:
    if value is None:
        return "–"
    return f"{value_text(value)} {text(unit) if unit else ''}".strip()


# ---- one page ------------------------------------------------------------------------------------


class _Page:
    def __init__(self, record: dict, language: Language, name: str, plots: set[str]):
        """@name: of the page, without its suffix. @plots: the figures that have one."""
        self.record, self.language, self.name, self.plots = record, language, name, plots
        self.t = language.text

    def text(self) -> str:
        titles = {paper["name"]: paper for paper in self.record["papers"]}
        parts = [*self._opening(), *self._machine(), *self._overview(), *self._lost()]
        for name, figures in groupby(self.record["figures"], lambda figure: figure["paper"]):
            paper = titles[name]
            parts += [f"## {name}: {self.t(paper['title'])}", self.t(paper["authors"])]
            for figure in figures:
                parts += self._figure(figure)
        return "\n\n".join(parts) + "\n"

    def _say(self, *texts: str) -> str:
        return self.language.wrap(" ".join(texts))

    def _opening(self) -> Iterator[str]:
        t, about = self.t, self.record["machine"]
        yield "# " + t("The five papers beside Hikyaku")
        name, suffix = self.language.other
        yield self._say(
            t("Figures of five papers, as their authors reported them, beside those of {}.").format(
                about["time"][:10]
            ),
            t("*Ratio* is ours, divided by theirs."),
            t("Goals compare ratios, since the authors had other hardware."),
            t("No figure is left out because it came out badly."),
            f"[{name}]({self.name}{suffix})",
        )
        if self.record["quick"]:
            yield self._say(t("**This was a quick run: few repeats, and few sizes.**"))
        if busy(about):
            yield self._say(
                t("**The machine was busy with other work: do not trust times or ratios.**"),
                t("Other work does not change counts."),
            )
        yield self._say(t("These commands measure everything, and write this page again:"))
        options = " --quick" if self.record["quick"] else ""
        yield f"```\n./hikyaku papers{options}\n./hikyaku papers --publish docs/papers.md\n```"

    def _machine(self) -> Iterator[str]:
        t, about = self.t, self.record["machine"]
        yield "## " + t("The machine")
        cores = t("{} cores").format(about["cores"])
        commit = t("commit {}").format(about["commit"]) if about["commit"] else ""
        rows = {
            t("processor"): f"{about['cpu']}, {cores}",
            t("memory"): f"{about['memory_MB'] / 1024:.0f} GiB",
            t("system"): f"{about['os']}, Linux {about['kernel']}",
            "Open MPI, DPDK": f"{about['open_mpi']}, {about['dpdk']}",
            "Hikyaku": ", ".join(filter(None, (about["hikyaku"], commit))),
            t("time, and load at the start"): f"{about['time']}, {about['load_at_start']}",
        }
        yield "\n".join(_table("", "") + [_row(k, _cell(str(v))) for k, v in rows.items()])
        yield self._say(t("This machine has no NIC and no network switch of its own."))
        used = {figure["kind"] for figure in self.record["figures"]}
        kinds = [_row(t(kind), t(text)) for kind, text in KINDS.items() if kind in used]
        yield "\n".join(_table(t("kind"), t("meaning")) + kinds)

    def _link(self, figure: dict) -> str:
        title = self.t(figure["title"])
        return f"{figure['paper']}: [{_cell(title)}](#{_anchor(title)})"

    def _overview(self) -> Iterator[str]:
        t = self.t
        yield "## " + t("All figures")
        lines = _table(t("figure"), t("kind"), t("wire"), t("goals"))
        for figure in self.record["figures"]:
            kind, wire = (t(figure[k]) if figure[k] else "–" for k in ("kind", "wire"))
            lines.append(_row(self._link(figure), kind, wire, self._standing(figure["standing"])))
        yield "\n".join(lines)
        known = {figure["figure"] for figure in self.record["figures"]}
        if missing := [name for name in FIGURES if name not in known]:
            yield self._say(t("This run left out:"))
            by_paper = groupby(missing, lambda name: name.partition("-")[0])
            rows = [_row(paper, ", ".join(names)) for paper, names in by_paper]
            yield "\n".join(_table(t("paper"), t("figure")) + rows)

    def _standing(self, standing: str) -> str:
        words = {"met": "met", "missed": "**not met**", "measured": "none"}
        words |= {"checked": "checked", "gap": "**a gap**"}
        return self.t(words[standing])

    def _lost(self) -> Iterator[str]:
        t = self.t
        yield "## " + t("Where we lose")
        lines = _table(t("figure"), "", t("paper"), t("here"), t("ratio"))
        for figure in self.record["figures"]:
            for c in figure["compared"]:
                if c["met"] is False:
                    lines.append(_row(self._link(figure), self._label(c), *self._values(c)))
        if len(lines) > 2:
            yield self._say(t("These figures do not reach their goals:"))
            yield "\n".join(lines)
        elif any(figure["standing"] == "met" for figure in self.record["figures"]):
            yield self._say(t("Every figure with a goal reaches it."))
        else:
            yield self._say(t("None of these figures has a goal."))
        gaps = [figure for figure in self.record["figures"] if figure["standing"] == "gap"]
        if gaps:
            yield self._say(t("These figures have no measurement, since their commands failed:"))
            yield "\n".join(_table(t("figure")) + [_row(self._link(gap)) for gap in gaps])

    def _label(self, c: dict) -> str:
        note = f"<br>{_cell(self.t(c['note']))}" if c["note"] else ""
        return _cell(self.t(c["what"])) + note

    def _values(self, c: dict) -> tuple[str, str, str]:
        """The paper's value, ours, and the ratio."""
        goal = f"{c['relation']} " if c["relation"] and c["theirs"] is not None else ""
        theirs, ours = (_amount(c[k], c["unit"], self.t) for k in ("theirs", "ours"))
        ratio = value_text(c["ours"] / c["theirs"]) if c["theirs"] else "–"
        return goal + theirs, ours, ratio

    def _figure(self, figure: dict) -> Iterator[str]:
        t = self.t
        title = t(figure["title"])
        yield f"### {title}"
        yield "\n".join(f"> {line}" for line in self._say(t(figure["said"])).split("\n"))
        command = _command(["./hikyaku", *figure["command"]])
        if figure["standing"] == "gap":
            yield self._say(t("**Not measured**."), t("This command failed:"))
            yield command
            yield f"```\n{textwrap.fill(_why(figure['failure']), COLUMNS)}\n```"
            return
        lines = _table("", t("paper"), t("here"), t("ratio"), t("goals"))
        for c in figure["compared"]:
            met = {True: "met", False: "**not met**", None: ""}[c["met"]]
            lines.append(_row(self._label(c), *self._values(c), met and t(met)))
        yield "\n".join(lines)
        if figure["figure"] in self.plots:
            plot = t("Plot of {}").format(figure["figure"])
            yield f"![{plot}](images/{self.name}/{figure['figure']}.png)"
        wire = t("Wire: {}.").format(t(figure["wire"])) if figure["wire"] else t("No wire.")
        yield self._say(t("Kind: {}.").format(t(figure["kind"])), wire, t(figure["setting"]))
        if figure["open"]:
            yield self._say(t(figure["open"]))
        if figure["bound"]:
            yield self._say(t("**What bounds it.**"), t(figure["bound"]))
        if figure["procedure"]:
            yield self._say(t("Only hardware shows it. The commands:"))
            yield "```\n" + "\n".join(figure["procedure"]) + "\n```"
        yield self._say(t("Measured in {} s by:").format(round(figure["seconds"])))
        yield command


def _command(words: list[str]) -> str:
    """@words as a listing. A long command goes on in the next line."""
    text = textwrap.fill(shlex.join(words), COLUMNS - 2, subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "```\n{}\n```".format(text.replace("\n", " \\\n"))


def texts_of(record: dict) -> Iterator[str]:
    """The texts of @record that pages translate."""
    for paper in record["papers"]:
        yield from (paper["title"], paper["authors"])
    for figure in record["figures"]:
        yield from (figure[k] for k in TEXTS)
        for c in figure["compared"]:
            yield from (c["what"], c["note"], c["unit"])


def _why(failure: str) -> str:
    """The error in the output of a command: short, and without directories of the machine."""
    lines = failure.strip().splitlines()
    error = next((line for line in lines if line.startswith("hikyaku: ")), lines[-1])
    return textwrap.shorten(re.sub(r"(?<!\S)/\S*/", "", error), FAILURE, placeholder=" …")


# ---- all pages -----------------------------------------------------------------------------------


def _record(directory: Path) -> dict:
    path = directory / RECORD
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise HikyakuError(f"{path} is not there", "measure first by hikyaku papers") from None
    except ValueError as error:
        raise HikyakuError(f"{path} is damaged: {error}", "measure again") from None
    if record.get("schema") != SCHEMA:
        fix = "measure again with this release"
        raise HikyakuError(f"{path} has schema {record.get('schema')}, not {SCHEMA}", fix)
    return record


def _plots(record: dict, directory: Path) -> dict[str, bytes]:
    """Plots by figure, of the measurements that the record has."""
    found = {}
    for figure in record["figures"]:
        drawn = FIGURES.get(figure["figure"])
        if figure["standing"] == "gap" or not drawn or not drawn.draw:
            continue
        path = directory / "data" / f"{figure['measurement']}.json"
        result = load(path)
        wanted = (figure["command"], record["machine"]["commit"])
        if not result or not result.document or (result.command, result.commit) != wanted:
            raise HikyakuError(
                f"{path} is not the measurement of {figure['figure']} that {RECORD} shows",
                "measure again by hikyaku papers",
            )
        found[figure["figure"]] = small_png(drawn.draw(result.document))
    return found


def small_png(plot: "Plot") -> bytes:
    """@plot with few colours, which takes a third of the bytes. They cover the range of those that
    it has: averages would make the colours of thin lines dull."""
    from PIL import Image

    full, small = io.BytesIO(), io.BytesIO()
    plot.savefig(full, format="png", dpi=DPI)
    image = Image.open(full).convert("RGB")
    image = image.quantize(PALETTE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    image.save(small, format="PNG", optimize=True)
    return small.getvalue()


def publish(directory: Path, page: Path) -> list[Path]:
    """Writes the run in @directory as @page, its Japanese twin and their plots. Returns the paths.
    Nothing is written unless all of it can be."""
    if page.suffix != ".md" or page.name.endswith(".ja.md"):
        raise HikyakuError(
            f"'{page.name}' is not a page's name", "use a name such as docs/papers.md"
        )
    record = _record(directory)
    if unexplained := [
        figure["figure"]
        for figure in record["figures"]
        if figure["standing"] == "missed" and not figure["bound"]
    ]:
        raise HikyakuError(
            f"nothing says what bounds {', '.join(unexplained)}, which miss their goals",
            "add a bound to these figures in python/hikyaku/papers",
        )
    if missing := list(japanese.lacking(texts_of(record))):
        raise HikyakuError(
            f"these texts have no Japanese: {missing}",
            "add them to python/hikyaku/papers/japanese",
        )
    plots = _plots(record, directory)
    images = page.parent / "images" / page.stem
    files = {images / f"{name}.png": data for name, data in plots.items()}
    for language in LANGUAGES:
        path = page.with_name(page.stem + language.suffix)
        files[path] = _Page(record, language, page.stem, set(plots)).text().encode()
    images.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:  # of an earlier run
        (images / f"{name}.png").unlink(missing_ok=True)
    for path, data in files.items():
        path.write_bytes(data)
    return list(files)
