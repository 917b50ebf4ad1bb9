# SPDX-License-Identifier: BSD-3-Clause
"""scripts/mutate.py: which changes it makes to a line, and where it makes none."""

import importlib.util
import sys

import pytest

from hikyaku.checkout import ROOT

SCRIPT = ROOT / "scripts/mutate.py"
spec = importlib.util.spec_from_file_location("mutate", SCRIPT)
mutate = importlib.util.module_from_spec(spec)
sys.modules["mutate"] = mutate
spec.loader.exec_module(mutate)


def changed(line: str) -> set[str]:
    """The changes to a line in a function."""
    return {m.text.strip() for m in mutate.mutants_of("x.c", f"void f(void)\n{{\n\t{line}\n}}")}


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("if (a < b)", {"if (a <= b)", "if (!(a < b))"}),
        ("while (a >= 10)", {"while (a > 10)", "while (a >= 11)"}),
        ("n += 2;", {"n -= 2;", "n += 3;", ""}),
        ("p->n++;", {"p->n--;", ""}),
        ("send(p, true);", {"send(p, false);", ""}),
        ("return a == b && c;", {"return a != b && c;", "return a == b || c;"}),
        ("x = a - b;", {"x = a + b;", ""}),
        ("x = a & b | c;", {"x = a | b | c;", "x = a & b & c;", ""}),
        ("x = a << b >> c;", {""}),
        ("return p->next;", set()),
        ("/* a < 1 */", set()),
        ('return "a < 1";', set()),
        ("#define A (b < 1)", set()),
        ("_Static_assert(A == 1, a);", set()),
        ("const unsigned x = y;", set()),
    ],
)
def test_changes(line, texts):
    assert changed(line) == texts


def test_only_functions_are_changed():
    assert not mutate.mutants_of("x.c", "static int a = 1 < 2;\n#define B 3\nint c[4];\n")


def test_a_name_says_where():
    (first, *_) = mutate.mutants_of("x.c", "int f(int a)\n{\n\treturn a < 7;\n}")
    assert (first.name, first.key) == ("x.c:3:10:compare", "x.c | return a < 7; | return a <= 7;")


def test_a_test_that_computes_for_too_long_has_failed(tmp_path):
    place = mutate.Place.__new__(mutate.Place)
    place.build = tmp_path
    assert place.fails({"cmd": ["sh", "-c", "while :; do :; done"]}, 1)
    assert not place.fails({"cmd": ["sleep", "0"]}, 1)
