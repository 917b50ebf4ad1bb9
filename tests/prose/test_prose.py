# SPDX-License-Identifier: BSD-3-Clause
"""scripts/prose.py: each rule finds the bad example and passes the good one."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("prose", ROOT / "scripts/prose.py")
prose = importlib.util.module_from_spec(SPEC)
sys.modules["prose"] = prose
SPEC.loader.exec_module(prose)

TREE = prose.Tree(["README.md", "docs/page.md", "src/wire/wire.h", "tests/unit/test_wire.c"])
LONG = "This sentence has " + "too " * 22 + "many words."


def rules(text, kind="markdown", path="docs/page.md"):
    return [f.rule for f in sorted(prose.check_text(path, kind, text, TREE))]


EXAMPLES = {  # rule: (bad, good)
    "sentence": (LONG.replace(" ", "\n"), "This sentence is short.\n" * 10),
    "opening": (
        "Who waits leaves the core.",
        "Who polls a port? A rank that waits leaves the core.",
    ),
    "negation": ("It is no request of HTTP.", "There is no request. It is no longer a request."),
    "word": ("The poller rings the bell.", "The rank signals the wakeup of the poller."),
    "name": ("Call `hk_fabric_open()` first.", "Call `hk_worker_open()` first."),
    "columns": ("x" * 60 + " " + "y" * 60, "x" * 60 + "\n" + "y" * 39),
    "link": ("[the page](missing.md)", "[the page](page.md) and [the top](../README.md)"),
    "path": ("The header is wire/missing.h.", "The header is `src/wire/wire.h`, 3 MB/s, and/or."),
    "spelling": ("It recieves a frame.", "It receives a frame."),
}


@pytest.mark.parametrize("rule", EXAMPLES)
def test_rule_finds_the_bad_example_and_passes_the_good_one(rule):
    bad, good = EXAMPLES[rule]
    assert rules(bad) == [rule]
    assert rules(good) == []


def test_every_rule_has_an_example():
    assert set(EXAMPLES) == set(prose.RULES)


def test_finding_has_file_line_rule_and_suggestion():
    (finding,) = prose.check_text("a.md", "markdown", "Fine.\n\nIt is\nno queue of ours.\n", TREE)
    assert str(finding).startswith("a.md:3: negation: “is no queue”; ")


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG}\n```",
        f"| {LONG} |",
        f"Code:\n\n    {LONG}",
        "- one item of a list\n" * 30,
        "`" + "many words in a code span " * 5 + "` is one word.",
        "A number such as 1.5 or a file a.c ends no sentence. " * 3,
    ],
)
def test_tables_code_and_lists_have_no_sentences(text):
    assert "sentence" not in rules(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("c", "/* {} */\nint a;\n"),
        ("c", "// {}\n"),
        ("c", 'char *help = "{}\\n";\n'),
        ("python", '"""{}"""\n'),
        ("python", "a = 1  # {}\n"),
        ("python", 'raise SystemExit("{}")\n'),
        ("hash", "# {}\nproject()\n"),
        ("dashes", "local a = 1 -- {}\n"),
        ("fortran", "! {}\nprogram a\n"),
    ],
)
def test_comments_docstrings_and_messages_are_read(kind, text):
    assert rules(text.format("Who waits here leaves the core."), kind) == ["opening"]
    assert rules(text.format("A rank that waits leaves the core."), kind) == []


def test_code_is_not_read():
    assert rules('#include "src/wire/wire.h"\nint recieve = parked;\n', "c") == []
    assert rules("recieve = parked\n", "python") == []


def test_sentence_of_a_comment_may_span_lines():
    comment = "/*\n * " + "\n * ".join(LONG.split()) + "\n */\n"
    assert rules(comment, "c") == ["sentence"]


def test_diagram_in_a_comment_has_no_sentences():
    assert rules("/*\n" + " *   rank    -->   poller of it\n" * 20 + " */\n", "c") == []


def test_lines_that_click_shows_as_they_are_have_no_common_sentence():
    help_text = "'" * 3 + "Help.\n\n{}\nExamples:\n{}" + "'" * 3
    examples = "  hikyaku lab up --nodes 2\n" * 9
    assert rules(help_text.format("\\b", examples), "python") == []
    assert rules(help_text.format("Text", examples), "python") == ["sentence"]
    assert "sentence" in rules(help_text.format("\\b", LONG), "python")


def test_error_form_counts_cause_and_fix_apart():
    cause = "the control socket of hikyakud does not answer within ten seconds on this node now"
    fix = "fix: start a hikyakud with hikyaku daemon start and look into its log file then"
    assert "sentence" not in rules(f'say("{cause}; {fix}");\n', "c")
    assert "sentence" in rules(f'say("{cause} {fix}");\n', "c")


def test_tabs_count_as_eight_columns():
    assert rules("\t" * 12 + "abcde", "c") == ["columns"]
    assert rules("\t" * 12 + "abcd", "c") == []


def test_link_to_a_heading():
    heading = min(prose.anchors("GLOSSARY.md"))
    tree = prose.Tree(["GLOSSARY.md"])
    text = f"[good](#{heading}) and [bad](#no-such-heading)"
    found = prose.check_text("GLOSSARY.md", "markdown", text, tree)
    assert [(f.rule, "no-such" in f.text) for f in found] == [("link", True)]
    assert prose.slug("The `first` part, again") == "the-first-part-again"


def test_braces_and_stars_in_paths():
    assert rules("See tests/unit/test_*.c and src/{wire}/wire.h.") == []
    assert rules("See src/{wire,engine}/wire.h.") == ["path"]


def test_no_page_shows_a_command_as_a_paragraph():
    """A renderer joins the lines of a paragraph, and what is pasted then does not work."""
    shown = [
        f"{path}:{number}"
        for path in prose.tracked()
        if path.endswith(".md")
        for block in prose.markdown_blocks((ROOT / path).read_text().split("\n"))
        for number, line in block.parts
        if line.endswith(" \\")
    ]
    assert shown == []
