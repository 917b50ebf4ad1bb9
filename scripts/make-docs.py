#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make-docs.py BUILD MKDOCS: makes the site of `make docs` in BUILD/site.

The site has all tracked Markdown pages and a page for each public header (include/hikyaku), in the
order of docs/mkdocs.yml. It exits with 1 if a link is dead.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
SECTION = re.compile(r"^-+ *(.*?) *-+$")


def tracked(*patterns: str) -> list[str]:
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    out = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30)
    return sorted(name for name in set(out.stdout.split()) if (ROOT / name).is_file())


def manual_page(text: str) -> str:
    """go-md2man's title line becomes a heading, and sections come below it."""
    name, section = text.split(None, 2)[:2]
    body = text.split("\n", 2)[2]
    return f"# {name}({section})\n" + re.sub(r"^# (.*)$", lambda m: f"## {m[1]}", body, flags=re.M)


def comment_text(comment: str) -> str:
    """A C comment as Markdown: indented lines after a blank one are code, @name is a parameter."""
    text, code, after_text = [], False, False
    for given in comment.strip().split("\n"):
        line = re.sub(r"^[ \t]*\*[ ]?", "", given).rstrip()
        if line and not code and re.match(r"\s{2,}|\t", line) and not after_text:
            text.append("```c")
            code = True
        elif code and line and not line.startswith((" ", "\t")):
            text.append("```\n")
            code = False
        elif re.match(r"\s*[-*] ", line):
            text.append("")
        text.append(line if code else escaped(line))
        after_text = bool(line) and not line.endswith(":")
    return "\n".join([*text, "```"] if code else text)


def escaped(line: str) -> str:
    line = re.sub(r"@(\w+)", r"`\1`", line)
    return re.sub(r"`[^`]+`|[*<_]", lambda m: m[0] if len(m[0]) > 1 else "\\" + m[0], line)


def entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each comment at file level, with the declarations that follow it."""
    at, comment, code = 0, "", []
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n|#pragma[^\n]*\n", "", text, flags=re.DOTALL)
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif found := COMMENT.match(text, at):
            if comment or code:
                yield comment, code
            at, comment, code = found.end(), found[1].strip(), []
        elif text[at] == "#":
            line = re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match(text, at)
            at = line.end()
            if re.match(r"#\s*define (?!HK_\w+_H$)", line[0]):
                code.append(line[0])
        else:
            at, part = declaration(text, at)
            code.append(part)
    yield comment, code


def declaration(text: str, start: int) -> tuple[int, str]:
    """The end of the declaration at @start, and its text without the body of a function."""
    depth, at, body = 0, start, 0
    while at < len(text):
        if comment := COMMENT.match(text, at):
            at = comment.end()
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == "{" and depth == 1 and text[start:at].rstrip().endswith(")"):
            body = at
        at += 1
        if depth == 0 and text[at - 1] in (";" if not body else ";}"):
            end = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/)?").match(text, at).end()
            return end, text[start:body].rstrip() + ";" if body else text[start:end]
    return at, text[start:]


def name_of(code: str) -> str:
    code = COMMENT.sub("", re.sub(r"__attribute__\(\(.*?\)\)\s*;?", "", code))
    patterns = (
        *(r"#\s*define (\w+)", r"^(?:typedef )?(?:struct|enum|union) (\w+)\s*\{"),
        *(r"\(\*(\w+)\)", r"(\w+)\s*\(", r"(\w+)\s*(?:\[.*\])?;"),
    )
    return next((found[1] for p in patterns if (found := re.search(p, code))), "declarations")


def api_page(name: str, text: str) -> str:
    """A public header as a page: its opening comment, then each declaration with its comment."""
    out = [f"# {name}", "", f"`#include <hikyaku/{name}>`", ""]
    for number, (comment, code) in enumerate(e for e in entries(text) if "SPDX" not in e[0]):
        if section := SECTION.match(comment):
            out += [f"## {section[1].capitalize()}", ""]
        elif number == 0:
            out += [comment_text(re.sub(r"^\*?\s*\S+\.h: ", "", comment)), ""]
        else:
            out += [f"### {name_of(code[0])}" if code else "", "", comment_text(comment), ""]
        if code:
            out += ["```c", *code, "```", ""]
    return "\n".join(out) + "\n"


def main() -> int:
    build, mkdocs = Path(sys.argv[1]).resolve(), sys.argv[2]
    source = build / "site-src"
    shutil.rmtree(source, ignore_errors=True)
    for name in tracked("*.md"):
        filled = build / name  # a manual page with its counters (scripts/fill-counters.py)
        text = (filled if filled.is_file() else ROOT / name).read_text()
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(manual_page(text) if name.startswith("docs/man/") else text)
        for target in re.findall(r"\]\(([^)#:\s]+)\)", text):  # images, sources, the licence
            file = (ROOT / name).parent / target
            if file.is_file() and file.suffix != ".md":
                copy = source / file.resolve().relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    nav = (ROOT / "docs/mkdocs.yml").read_text()
    headers = tracked("include/hikyaku/*.h")
    (source / "api").mkdir()
    nav += "  - API:\n" if headers else ""
    for name in (Path(header).name for header in headers):
        text = (ROOT / "include/hikyaku" / name).read_text()
        (source / f"api/{name}.md").write_text(api_page(name, text))
        nav += f"      - api/{name}.md\n"
    config = build / "mkdocs.yml"
    config.write_text(f"docs_dir: {source}\nsite_dir: {build / 'site'}\n{nav}")
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    return subprocess.call([mkdocs, "build", "--quiet", "--strict", "-f", config], timeout=300)


if __name__ == "__main__":
    sys.exit(main())
