# SPDX-License-Identifier: BSD-3-Clause
"""Reads what `hikyaku stats` and `hikyaku top` print: Prometheus' text format, and tables."""

import os
import re
from pathlib import Path

from rich.console import Console

# ---- a small parser of Prometheus' text format ---------------------------------------------------

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text: str) -> dict[str, dict[frozenset, float]]:
    """Samples by family and labels. Fails where a scraper would, or would complain."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    helps: set[str] = set()
    samples: dict[str, dict[frozenset, float]] = {}
    last = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helps
            helps.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helps
            assert name not in types
            assert kind in ("counter", "gauge")
            assert name.endswith("_total") == (kind == "counter")
            types[name] = kind
            last = name
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            assert found[1] == last, f"a sample away from its family: {line}"
            labels = frozenset(
                (key, re.sub(r"\\.", lambda m: _ESCAPED[m[0]], value))
                for key, value in _LABEL.findall(found[2])
            )
            family = samples.setdefault(found[1], {})
            assert labels not in family, f"twice: {line}"
            family[labels] = float(found[3])
    assert set(types) == set(samples)
    return samples


def labels(**given: object) -> frozenset:
    return frozenset((key, str(value)) for key, value in given.items())


# ---- tables --------------------------------------------------------------------------------------


def shown(what: object, width: int = 150) -> str:
    console = Console(width=width, record=True, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(what)
    return console.export_text()


def row(text: str, first: int) -> str:
    """The line that starts with this number, with single spaces."""
    lines = (x.split() for x in text.splitlines())
    (found,) = (words for words in lines if words[:1] == [str(first)])
    return " ".join(found)
