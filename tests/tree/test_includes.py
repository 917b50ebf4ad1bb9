# SPDX-License-Identifier: BSD-3-Clause
"""The `#include` lines of the tree against the table in ARCHITECTURE.md, and circles of these lines
and of Python's imports."""

import ast
import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = ("include", "src", "systems", "plugins", "tools", "")  # as in meson.build
TOPS = ("include", "src", "plugins", "systems", "tools")


def files() -> list[str]:
    argv = ["git", "ls-files", "--", *(f"{top}/*.[ch]" for top in TOPS)]
    out = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    return out.stdout.split()


def includes() -> dict[str, set[str]]:
    """By file: the files of the tree that it includes."""
    known = set(files())
    found = {}
    for name in known:
        lines = re.findall(r'^#include "([^"]+)"', (ROOT / name).read_text(), re.MULTILINE)
        places = [[str(Path(top) / line) for top in SEARCHED] for line in lines]
        found[name] = {next((p for p in each if p in known), "") for each in places} - {""}
    return found


def directory(name: str, drawn: set[str]) -> str:
    """The row of the table to which a file belongs: the longest that contains it."""
    parents = [str(p) for p in Path(name).parents]
    return next((p for p in parents if p in drawn), str(Path(name).parent))


def table() -> dict[str, set[str]]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.search(r"<!-- include-graph -->(.*?)<!-- /include-graph -->", text, re.DOTALL)[1]
    drawn = {}
    for row in re.findall(r"^\| `([\w/-]+)` \|(.*)\|$", rows, re.MULTILINE):
        drawn[row[0]] = set(re.findall(r"[\w/-]+", row[1]))
    return drawn


def undrawn(edges: dict[str, set[str]], drawn: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Pairs of directories that @edges join and that the table does not allow."""
    rows = set(drawn)
    pairs = {
        (directory(name, rows), directory(other, rows))
        for name, others in edges.items()
        for other in others
    }
    return {(a, b) for a, b in pairs if b not in {a, "include"} | drawn.get(a, set())}


def test_every_edge_is_drawn_in_the_architecture():
    assert undrawn(includes(), table()) == set()


def test_every_drawn_edge_exists():
    drawn = table()
    pairs = {
        (directory(name, set(drawn)), directory(other, set(drawn)))
        for name, others in includes().items()
        for other in others
    }
    assert {(a, b) for a, row in drawn.items() for b in row} - pairs == set()


def test_directories_have_no_circle():
    tuple(TopologicalSorter(table()).static_order())


def test_files_have_no_circle():
    tuple(TopologicalSorter(includes()).static_order())


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "python").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of @known that @path imports outside of functions. A package is imported before
    its modules."""
    found = set()
    own = module_name(path).split(".")
    package = own if path.stem == "__init__" else own[:-1]
    for line in ast.parse(path.read_text()).body:
        if isinstance(line, ast.ImportFrom):
            base = package[: len(package) - line.level + 1] if line.level else []
            base = [*base, *(line.module or "").split(".")] if line.module else base
            wholes = [[*base, name.name] for name in line.names]
            found |= {".".join(w[:n]) for w in wholes for n in range(1, len(w) + 1)}
    return {each for each in found & known.keys() if not f"{'.'.join(own)}.".startswith(f"{each}.")}


def test_modules_have_no_circle():
    known = {module_name(path): path for path in (ROOT / "python").rglob("*.py")}
    graph = {name: imports(path, known) for name, path in known.items()}
    assert "hikyaku.errors" in graph["hikyaku.process"]
    assert "hikyaku.cli.options" in graph["hikyaku.cli.lab.guest"]
    tuple(TopologicalSorter(graph).static_order())


def test_an_edge_that_is_not_drawn_is_found():
    edges = {"src/engine/loss.c": {"src/worker/peer.h"}}
    assert undrawn(edges, table()) == {("src/engine", "src/worker")}
    with pytest.raises(CycleError):
        tuple(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
