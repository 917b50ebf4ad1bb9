# SPDX-License-Identifier: BSD-3-Clause
"""The tag in Python against its golden examples, and patterns against the tags that they cover."""

import random

import pytest

from hikyaku.checkout import ROOT
from hikyaku.sdn import tag
from hikyaku.sdn.tag import Function, NoTag, Shape, Tag, pattern

LINES = (ROOT / "tests/vectors/tag.txt").read_text().splitlines()


def vectors(kind: str) -> list[list[str]]:
    return [words[1:] for line in LINES if (words := line.split()) and words[0] == kind]


@pytest.mark.parametrize("words", vectors("tag"), ids=" ".join)
def test_golden(words: list[str]) -> None:
    job, function, source, kind, destination, mac = words
    made = Tag(int(job), Function(int(function)), int(source), int(destination), kind == "group")
    assert made.mac == mac
    assert Tag.parse(mac) == made
    assert tag.in_prefix(mac)


@pytest.mark.parametrize("words", vectors("refused"), ids=" ".join)
def test_refused(words: list[str]) -> None:
    mac, why = words
    with pytest.raises(NoTag, match=why):
        Tag.parse(mac)
    assert tag.in_prefix(mac) == (why != "prefix")


@pytest.mark.parametrize("words", vectors("match"), ids=" ".join)
def test_match(words: list[str]) -> None:
    fields, value, mask = words
    given = dict(pair.split("=") for pair in fields.split(",")) if fields != "-" else {}
    kinds = {"function": Function, "shape": Shape, "group": bool}
    assert pattern(**{k: kinds.get(k, int)(int(v)) for k, v in given.items()}) == (value, mask)


def covers(made: tuple[str, str], mac: str) -> bool:
    value, mask = map(tag.from_mac, made)
    return tag.from_mac(mac) & mask == value


def test_a_pattern_covers_what_it_says_and_nothing_else() -> None:
    rng = random.Random(7)
    names = ["job", "function", "source", "destination", "group"]

    def draw() -> Tag:
        # few values, so that fields often agree
        function = rng.choice(list(Function))
        job, source, destination = rng.randint(1, 3), rng.randint(0, 2), rng.randint(0, 2)
        return Tag(job, function, source, destination, rng.random() < 0.5)

    seen = {True: 0, False: 0}
    for _ in range(5000):
        given, other = draw(), draw()
        fields = {n: getattr(given, n) for n in names if rng.random() < 0.5}
        want = dict(fields)
        if "destination" in want:
            want.setdefault("group", False)
        expected = all(getattr(other, n) == v for n, v in want.items())
        assert covers(pattern(**fields), other.mac) == expected
        seen[expected] += 1
    assert min(seen.values()) > 100


def test_shapes_part_the_functions() -> None:
    for function in Function:
        mac = Tag(1, function, 0, 1).mac
        covering = [shape for shape in Shape if covers(pattern(shape=shape), mac)]
        assert len(covering) == 1, function
    assert covers(pattern(shape=Shape.ROOTED), Tag(9, Function.GATHER, 3, 0).mac)


@pytest.mark.parametrize(
    "bad",
    [
        {"job": 0},
        {"job": 64},
        {"source": 2048},
        {"destination": -1},
        {"function": 14},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(bad: dict) -> None:
    good = {"job": 1, "function": Function.P2P, "source": 0, "destination": 1}
    with pytest.raises(NoTag, match=next(iter(bad))):
        Tag(**{**good, **bad})


@pytest.mark.parametrize("text", ["", "66:48:04:40:00", "66:48:04:40:00:0g", "66480440001"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(NoTag, match="not a MAC address"):
        Tag.parse(text)


def test_patterns_refuse_what_does_not_fit() -> None:
    with pytest.raises(NoTag, match="source 2048"):
        pattern(source=2048)
    with pytest.raises(NoTag, match="not both"):
        pattern(function=Function.BCAST, shape=Shape.ROOTED)
