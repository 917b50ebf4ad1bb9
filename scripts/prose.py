#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""prose.py: checks the English of pages, comments, help and messages.

It reads every tracked file that people read: Markdown (manual pages too), and the comments,
docstrings and longer string literals of C, Python, shell and meson. Each finding is one line:

    FILE:LINE: RULE: TEXT; SUGGESTION

| rule | finding |
|---|---|
| sentence | a sentence of more than 25 words |
| opening | a statement that begins with "Who" or "What" |
| negation | "is no X of Y" |
| word | a word of the old vocabulary, or a metaphor (scripts/prose.words, section words) |
| name | an old name, anywhere in the file (scripts/prose.words, section names) |
| columns | a line of more than 100 columns; Markdown tables and lines with a URL are exempt |
| link | a Markdown link to a file or heading that does not exist |
| path | a path of this repository that does not exist |
| spelling | a misspelling that codespell knows |

The exit status is 1 if anything is found.

    prose.py [--rule RULE]... [--count] [PATH...]
"""

import argparse
import ast
import bisect
import fnmatch
import io
import itertools
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = "scripts/prose.words"
RULES = [
    *("sentence", "opening", "negation", "word", "name"),
    *("columns", "link", "path", "spelling"),
]
MOST_WORDS = 25
MOST_COLUMNS = 100
TAB = 8

# Files that nobody reads as prose, or that quote what they forbid.
EXEMPT = (
    "LICENSE",
    "requirements*.txt",
    "tests/fuzz/corpus/*",
    "tests/vectors/*",
    "scripts/prose.*",
    "tests/prose/*",
)


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass
class Block:
    """A paragraph, list item, table cell or string: text with the line of each part."""

    kind: str  # "prose", "heading", "cell" or "string"
    parts: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts: list[int] = []

    def text(self) -> str:
        self.starts = list(
            itertools.accumulate((len(part) + 1 for _, part in self.parts), initial=0)
        )
        return " ".join(part for _, part in self.parts)

    def line(self, offset: int) -> int:
        at = bisect.bisect_right(self.starts, offset) - 1
        return self.parts[min(at, len(self.parts) - 1)][0]


# ---- what to read of a file ----------------------------------------------------------------------


def kind_of(path: str, first_line: str) -> str | None:
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2]
    by_suffix = {"md": "markdown", "c": "c", "h": "c", "py": "python", "sh": "hash"}
    by_suffix |= {"lua": "dashes", "f90": "fortran", "js": "c"}
    if suffix in by_suffix:
        return by_suffix[suffix]
    if name in ("meson.build", "meson_options.txt", "Makefile") or suffix in (
        "conf",
        "toml",
        "yml",
    ):
        return "hash"
    if re.match(r"#!.*\b(sh|bash)\b", first_line):
        return "hash"
    return None


LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.|:)\s+(?=\S)")


def markdown_blocks(lines: list[str]) -> Iterator[Block]:
    block = Block("prose")
    fence = False
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(("```", "~~~")):
            fence = not fence
        elif not fence and text.startswith("|"):
            cells = re.split(r"(?<!\\)\|", text.strip("|"))
            yield from (Block("cell", [(number, cell.strip())]) for cell in cells if cell.strip())
        elif not fence and text.startswith("#"):
            yield Block("heading", [(number, text.lstrip("# "))])
        elif not fence and text and not re.fullmatch(r"[-=|: ]{3,}|<!--.*-->", text):
            # indented code: after a blank line, deeper than text of a list item
            if not block.parts and re.match(r"\t| {4}", line) and not LIST_ITEM.match(line):
                continue
            if LIST_ITEM.match(line):
                if block.parts:
                    yield block
                block = Block("prose")
                text = LIST_ITEM.sub("", line, count=1).strip()
            block.parts.append((number, text.removeprefix("> ")))
            continue
        if block.parts:
            yield block
            block = Block("prose")
    if block.parts:
        yield block


# A line of a comment that is a diagram, a table or code: columns of spaces, arrows, deep indents.
PICTURE = re.compile(r"\S\s{3,}\S|\+--|--+[>+]|<--|^\s{4,}\S|^[\s|+-]+$|\);$|^\s*[|*]\s|\t\S")


def comment_blocks(lines: list[tuple[int, str]]) -> Iterator[Block]:
    """Paragraphs of a comment or docstring. In a paragraph that begins with the mark of click for
    "show as it is", a backspace, each line is a block of its own."""
    block = Block("prose")
    as_it_is = False
    for number, line in lines:
        text = line.strip()
        as_it_is = text == "\b" or (as_it_is and bool(text))
        if text and "SPDX-License" not in text and not PICTURE.search(line.rstrip()):
            if (as_it_is or LIST_ITEM.match(line)) and block.parts:
                yield block
                block = Block("prose")
            block.parts.append((number, LIST_ITEM.sub("", line, count=1).strip()))
            continue
        if block.parts:
            yield block
            block = Block("prose")
    if block.parts:
        yield block


def string_blocks(number: int, value: str) -> Iterator[Block]:
    """The sentences of a string literal that is for people: four words or more."""
    for part in re.split(r"\n|\t|\s{2,}", value):
        words = re.findall(r"[A-Za-z]{2,}", part)
        if len(words) >= 4 and sum(map(len, words)) * 2 > len(part):
            yield Block("string", [(number, part.strip())])


C_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*)"""
    r"""|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)


def c_blocks(text: str) -> Iterator[Block]:
    for token in C_TOKEN.finditer(text):
        number = text.count("\n", 0, token.start()) + 1
        if token["comment"]:
            body = re.sub(r"^/[*/]+|\*+/$", "", token["comment"])
            lines = [re.sub(r"^\s*\* ?", "", line) for line in body.split("\n")]
            lines[0] = lines[0].lstrip()
            yield from comment_blocks(list(enumerate(lines, number)))
        elif token["string"] and not text[: token.start()].rstrip(" \t").endswith("#include"):
            value = re.sub(r'"\s*"', "", token["string"][1:-1])
            yield from string_blocks(number, value.replace("\\n", "\n").replace('\\"', '"'))


def line_blocks(lines: list[str], mark: str) -> Iterator[Block]:
    """Comments from @mark to the end of the line."""
    comment: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        found = re.match(rf"\s*{mark}(?!!) ?(.*)", line)
        if found:
            comment.append((number, found[1]))
            continue
        yield from comment_blocks(comment)
        comment = []
        trailing = re.search(rf"\s{mark}\s+([^'\"]*)$", line)
        if trailing:
            yield from comment_blocks([(number, trailing[1])])
    yield from comment_blocks(comment)


def python_blocks(text: str) -> Iterator[Block]:
    comment: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            alone = not token.line[:column].strip()
            if comment and (not alone or comment[-1][0] != row - 1):
                yield from comment_blocks(comment)
                comment = []
            if row > 1 or not token.string.startswith("#!"):
                comment.append((row, token.string[1:].removeprefix(" ")))
    yield from comment_blocks(comment)
    tree = ast.parse(text)
    documents = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documents.add(first.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if node in documents:
            lines = list(enumerate(node.value.split("\n"), node.lineno))
            least = min(
                (len(rest) - len(rest.lstrip()) for _, rest in lines[1:] if rest.strip()), default=0
            )
            yield from comment_blocks([lines[0], *((n, rest[least:]) for n, rest in lines[1:])])
        else:
            yield from string_blocks(node.lineno, node.value)


def blocks_of(kind: str, text: str) -> list[Block]:
    lines = text.split("\n")
    if kind == "markdown":
        return list(markdown_blocks(lines))
    if kind == "c":
        return list(c_blocks(text))
    if kind == "python":
        return list(python_blocks(text))
    return list(line_blocks(lines, {"hash": "#", "dashes": "--", "fortran": "!"}[kind]))


# ---- the rules of prose --------------------------------------------------------------------------


def plain(text: str) -> str:
    """Code spans become one word and links their text, at the same places."""
    text = re.sub(r"(`+)(?:(?!\1).)+\1", lambda m: "¤" * len(m[0]), text)
    text = re.sub(r"!?\[([^\]]*)\]\(([^)\s]*)\)", lambda m: m[1].rjust(len(m[0])), text)
    return re.sub(r"https?://\S+", lambda m: "¤" * len(m[0]), text)


SENTENCE_END = re.compile(r"(?<!\s)[.?!]+[\"')\]*”]*\s+|。|[.?!:]+\**$")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Fig|No|al)\.)\W*$")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each sentence."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        if ABBREVIATION.search(text[start : end.end()]) and end.end() < len(text):
            continue
        yield start, text[start : end.end()]
        start = end.end()
    if text[start:].strip():
        yield start, text[start:]


def count_words(sentence: str) -> int:
    """Numbers are not counted: a sentence may list figures."""
    return sum(1 for word in sentence.split() if re.search(r"[^\W\d_]|¤", word))


OPENING = re.compile(r"[\"'(“*\[]*(Who|What|Whoever|Whatever|Whose)\b")
NEGATION = re.compile(
    r"\b(?<!there )(?:is|are|was|were) no (?!longer\b|more than\b|less\b|better\b|worse\b|doubt\b"
    r"|further\b|different\b|slower\b|faster\b|later\b|larger\b|smaller\b|one\b)(\w+)",
    re.IGNORECASE,
)


def short(sentence: str) -> str:
    words = sentence.split()
    return " ".join(words[:6]) + (" …" if len(words) > 6 else "")


def check_sentences(block: Block, text: str) -> Iterator[tuple[int, str, str]]:
    if block.kind in ("heading", "cell"):
        return
    for start, sentence in sentences(text):
        parts = [(0, sentence)]
        if block.kind == "string":  # "cause; fix: command"
            parts = [(m.start(), m[0]) for m in re.finditer(r"[^;]+", sentence)]
        for at, part in parts:
            n = count_words(part)
            if n > MOST_WORDS:
                yield start + at, "sentence", f"{n} words: “{short(part)}”; split it"


def check_openings(block: Block, text: str) -> Iterator[tuple[int, str, str]]:
    if block.kind == "heading":
        return
    for start, sentence in sentences(text):
        found = OPENING.match(sentence)
        if found and not sentence.rstrip(" \"')*”").endswith("?") and count_words(sentence) > 3:
            yield start, "opening", f"“{short(sentence)}”; name the actor or the thing"


def check_negation(block: Block, text: str) -> Iterator[tuple[int, str, str]]:
    for found in NEGATION.finditer(text):
        if not re.search(r"\bthere $", text[: found.start()], re.IGNORECASE):
            yield found.start(), "negation", f"“{found[0]}”; negate the verb with “not”"


def check_words(block: Block, text: str) -> Iterator[tuple[int, str, str]]:
    for pattern, instead in word_list()["words"]:
        for found in pattern.finditer(text):
            yield found.start(), "word", f"“{found[0]}”; {instead}"


def check_spelling(block: Block, text: str) -> Iterator[tuple[int, str, str]]:
    wrong = misspellings()
    for found in re.finditer(r"(?<![\w¤/.@$%-])[A-Za-z]?[a-z]{3,}(?![\w/-]|\.\w|\()", text):
        right = wrong.get(found[0].lower())
        if right:
            yield found.start(), "spelling", f"“{found[0]}”; {right}"


BLOCK_RULES = (check_sentences, check_openings, check_negation, check_words, check_spelling)


@cache
def word_list() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """Sections of scripts/prose.words: lines `PATTERN -> SUGGESTION`."""
    sections: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    entries: list[tuple[re.Pattern[str], str]] = []
    for line in (ROOT / WORDS).read_text().split("\n"):
        if line.startswith("["):
            entries = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            pattern, _, instead = line.partition(" -> ")
            flags = re.IGNORECASE if pattern.islower() else re.NOFLAG
            entries.append((re.compile(pattern.strip(), flags), instead.strip()))
    return sections


@cache
def misspellings() -> dict[str, str]:
    import codespell_lib

    accepted = {pattern.pattern for pattern, _ in word_list()["spelling"]}
    data = Path(codespell_lib.__file__).with_name("data") / "dictionary.txt"
    found = {}
    for line in data.read_text(encoding="utf-8").split("\n"):
        wrong, _, right = line.partition("->")
        if right and wrong not in accepted and wrong.isascii():
            found[wrong] = right.strip(" ,")
    return found


# ---- the rules of lines --------------------------------------------------------------------------


def check_columns(kind: str, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        width = len(line.expandtabs(TAB))
        table = kind == "markdown" and line.lstrip().startswith("|")
        if width > MOST_COLUMNS and not table and not re.search(r"https?://\S{20,}", line):
            yield number, "columns", f"{width} columns; wrap it at {MOST_COLUMNS}"


def check_names(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for pattern, instead in word_list()["names"]:
        for number, line in enumerate(lines, 1):
            for found in pattern.finditer(line):
                yield number, "name", f"“{found[0]}”; {instead}"


def slug(heading: str) -> str:
    """The anchor that GitHub and MkDocs make of a heading."""
    heading = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading.strip().lower())
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading))


@cache
def anchors(path: str) -> set[str]:
    lines = (ROOT / path).read_text().split("\n")
    return {slug(b.parts[0][1]) for b in markdown_blocks(lines) if b.kind == "heading"}


def check_links(tree: "Tree", path: str, text: str) -> Iterator[tuple[int, str, str]]:
    bare = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m[0].count("\n"), text)
    for found in re.finditer(r"\]\(([^)\s]+)\)", bare):
        target, _, anchor = found[1].partition("#")
        number = bare.count("\n", 0, found.start()) + 1
        if re.match(r"[a-z]+:", found[1]):
            continue
        to = normalize(f"{path.rpartition('/')[0]}/{target}") if target else path
        if to not in tree.files and to not in tree.directories:
            yield number, "link", f"“{found[1]}”; there is no {to}"
        elif anchor and to.endswith(".md") and anchor not in anchors(to):
            yield number, "link", f"“{found[1]}”; {to} has no such heading"


def normalize(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


PART = r"(?:[\w.+-]|\{[\w.,]+\}|\*)+"
PATH = re.compile(rf"(?<![\w/.$~{{}}@:<>=%*-])({PART}(?:/{PART})+/?)(?![\w$<{{])")
EXTENSIONS = {
    *("c", "h", "bpf.c", "f90", "py", "lua", "sh"),
    *("md", "build", "conf", "csv", "html", "in"),
}
# before the tree was sorted into src, plugins and systems
OLD_PARTS = ["halo/interpose", "mpi/coll", "p2p/pop", "p2p/router", "p2p/tool", "host/daemon"]
OLD_DIRECTORIES = {
    *("base", "wire", "engine", "port", "fabric", "host", "mpi"),
    *("halo", "rtc", "learn", "p2p", "tagger", "capture"),
}
BASES = ["", "include", "include/hikyaku", "src", "systems", "plugins", "tools", "docs", "python"]
BASES += ["python/hikyaku", "tests", "tests/unit", "tests/integration"]
ELSEWHERE = re.compile(
    r"(?:PREFIX|build|out|tmp|usr|lib|share|bin|run|dev|proc|sys|asm|linux|opal|ompi|net|DIR|site)/"
)


class Tree:
    """The files of the checkout that git knows, or would add."""

    def __init__(self, files: list[str]) -> None:
        self.files = set(files)
        self.directories = {""}
        for name in files:
            self.directories.update(str(parent) for parent in Path(name).parents)

    def has(self, path: str, near: str) -> bool:
        for base in (near, *BASES):
            name = normalize(f"{base}/{path}")
            if name in self.files or name in self.directories:
                return True
            if "*" in name and any(fnmatch.fnmatch(known, name) for known in self.files):
                return True
        return False

    def is_path(self, text: str) -> bool:
        """Is this a path of ours, and not "MB/s" or a file of the system?"""
        if ELSEWHERE.match(text) or text.startswith("."):
            return False
        first = text.partition("/")[0]
        if text.rpartition("/")[2].partition(".")[2] in EXTENSIONS:
            return True
        if text.rstrip("/") in OLD_PARTS:
            return True
        return text.endswith("/") and (first in OLD_DIRECTORIES or first in self.directories)


def expand(path: str) -> list[str]:
    """a{b,c}d → abd, acd"""
    found = re.search(r"\{([^}]*)\}", path)
    if not found:
        return [path]
    return [
        whole
        for each in found[1].split(",")
        for whole in expand(path[: found.start()] + each + path[found.end() :])
    ]


def check_paths(
    tree: Tree, kind: str, path: str, text: str, blocks: list[Block]
) -> Iterator[tuple[int, str, str]]:
    near = path.rpartition("/")[0]
    if kind == "markdown":
        parts = list(enumerate(text.split("\n"), 1))
    else:
        parts = [part for block in blocks for part in block.parts]
    for number, line in parts:
        for found in PATH.finditer(re.sub(r"https?://\S+", "", line)):
            named = found[1].rstrip(".")
            if tree.is_path(named) and not all(tree.has(each, near) for each in expand(named)):
                yield number, "path", f"“{named}”; there is no such file"


# ---- all of it -----------------------------------------------------------------------------------


def check_text(path: str, kind: str, text: str, tree: Tree) -> set[Finding]:
    """All findings in one file."""
    found: set[Finding] = set()
    lines = text.split("\n")
    blocks = blocks_of(kind, text)
    for block in blocks:
        cleaned = plain(block.text())
        for check in BLOCK_RULES:
            for offset, rule, what in check(block, cleaned):
                found.add(Finding(path, block.line(offset), rule, what))
    checks = [check_columns(kind, lines), check_names(lines)]
    checks.append(check_paths(tree, kind, path, text, blocks))
    if kind == "markdown":
        checks.append(check_links(tree, path, text))
    for number, rule, what in itertools.chain(*checks):
        found.add(Finding(path, number, rule, what))
    return found


def tracked() -> list[str]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(
        listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return [name for name in sorted(set(out.split("\n"))) if name and (ROOT / name).is_file()]


def check_file(path: str, tree: Tree) -> set[Finding]:
    if any(fnmatch.fnmatch(path, pattern) for pattern in EXEMPT) or (ROOT / path).is_symlink():
        return set()
    try:
        text = (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return set()
    kind = kind_of(path, text.partition("\n")[0])
    return check_text(path, kind, text, tree) if kind else set()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Checks the English of pages, comments, help and messages.",
        epilog=f"Rules: {', '.join(RULES)}.",
    )
    parser.add_argument("--rule", action="append", choices=RULES, help="this rule only")
    parser.add_argument("--count", action="store_true", help="print numbers for each rule only")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or directory [all]")
    given = parser.parse_args()
    try:
        misspellings()
    except ImportError:
        print("prose: codespell is not installed; fix: run 'make'", file=sys.stderr)
        return 1

    files = tracked()
    tree = Tree(files)
    wanted = [normalize(str(Path(path).absolute().relative_to(ROOT))) for path in given.paths]
    checked = {
        path
        for path in files
        if not wanted or any(w in ("", path) or path.startswith(w + "/") for w in wanted)
    }
    found = set().union(*(check_file(path, tree) for path in checked))
    if given.rule:
        found = {finding for finding in found if finding.rule in given.rule}
    if given.count:
        counts = Counter(finding.rule for finding in found)
        for rule in RULES:
            if counts[rule]:
                print(f"{counts[rule]:7} {rule}")
        print(f"{len(found):7} findings")
    else:
        for finding in sorted(found):
            print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
