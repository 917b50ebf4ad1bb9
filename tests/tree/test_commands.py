# SPDX-License-Identifier: BSD-3-Clause
"""Each command of hikyaku that a page, a help text or a message names exists, with its options."""

import re
import subprocess

import click
import pytest
from click.testing import CliRunner

from hikyaku.checkout import ROOT
from hikyaku.cli.main import main
from hikyaku.lab import topology

# Commands whose further options are those of another program.
PASSES_ON = {"lab mpirun", "lab exec", "tag run", "daemon start", "lab guest exec"}
COMMAND = re.compile(
    r"(?<![\w/.,-])(?:\./|PREFIX/bin/)?hikyaku "
    r"((?:[a-z]|--[a-z])(?:(?!(?<!,)\bhikyaku )[^\n;|&#()`'\"\\*])*)"
)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][\w-]*)")
PROSE = {"command", "are", "import", "must", "calls"}  # "the hikyaku command", "import halo"


def groups(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return []
    return [words, *(g for n, c in command.commands.items() for g in groups(c, (*words, n)))]


@pytest.mark.parametrize("words", groups(main), ids=" ".join)
def test_a_list_of_commands_is_not_cut(words):
    shown = CliRunner().invoke(main, [*words, "--help"]).output
    listed = shown[shown.index("Commands:") :]
    assert "..." not in listed


def sources() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "hikyaku", "*.c", "*.h", "*.f90"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # the journal tells of earlier commands
    return [name for name in listed if not name.startswith(("docs/notes/", "tests/"))]


def text_of(name: str) -> str:
    """The file, with string literals and command lines that span lines joined."""
    text = (ROOT / name).read_text()
    text = re.sub(r'"\s*\n\s*f?"', "", text)
    text = re.sub(r"\\\\?\n\s*(?:\* +)?", " ", text)
    return text


def find(words: list[str]) -> tuple[click.Command, str, list[str]] | None:
    """The command that @words name, its name, and the words after it. None: there is none."""
    command: click.Command = main
    for i, word in enumerate(words):
        if not isinstance(command, click.Group):
            return command, " ".join(words[:i]), words[i:]
        if word.startswith("-"):
            return command, " ".join(words[:i]), words[i:]
        if word.rstrip(":,.") not in command.commands:
            return None
        command = command.commands[word.rstrip(":,.")]
    return command, " ".join(words), []


def wrong(text: str) -> list[str]:
    """The commands in @text that do not exist."""
    found = []
    for match in COMMAND.finditer(text):
        words = match[1].split()
        if words[0] in PROSE:
            continue
        named = find(words)
        if named is None:
            found.append(match[0])
            continue
        command, name, rest = named
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        known |= {"--help", "-h", "--version"}
        if name in PASSES_ON:
            continue
        given = set(OPTION.findall(" ".join(rest).partition(" -- ")[0]))
        found += [f"{match[0]}: {option}" for option in sorted(given - known)]
    return found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("fix: hikyaku lab up --wire ovs --topology X", 0),
        ("fix: hikyaku lab weld a-b", 1),
        ("`hikyaku lab status --all`", 1),
        ("the hikyaku command of the same release", 0),
        ("hikyaku lab mpirun --mca a b -np 2 ./program", 0),
        ("hikyaku sdn stop, or hikyaku sdn halt", 1),
    ],
)
def test_what_counts_as_wrong(text, count):
    assert len(wrong(text)) == count


def test_all_commands_that_are_named_exist():
    bad = {name: found for name in sources() if (found := wrong(text_of(name)))}
    assert bad == {}


def test_the_printed_commands_that_make_a_lab_again():
    made = topology.plan("id", 3, "veth", 2, 1500, 0, None, 2, "mine").again(ports=None, huge=512)
    assert made == (
        "hikyaku lab down --lab mine && hikyaku lab up --lab mine --wire veth --nodes 3 "
        "--ranks-per-node 2 --mtu 1500 --huge 512"
    )
    assert wrong(made) == []


def test_commands_of_the_lab_work_in_a_checkout():
    """Pages start them as ./hikyaku: a checkout's hikyaku is not in PATH."""
    bare = re.compile(r"^\s*hikyaku (?:lab|bench|sim|demo)\b.*", re.MULTILINE)
    pages = [n for n in sources() if re.match(r"README\.md|docs/[^/]*\.md|systems/.*\.md", n)]
    assert [f"{n}: {line}" for n in pages for line in bare.findall((ROOT / n).read_text())] == []


def test_tables_show_addresses_as_they_are():
    """Rich's consoles would show the :cd: of an address as a picture of a disc."""
    python = [name for name in sources() if name.startswith("python/")]
    made = [
        (n, found) for n in python for found in re.findall(r"Console\(.*", (ROOT / n).read_text())
    ]
    assert [each for each in made if "emoji=False" not in each[1]] == []
