# SPDX-License-Identifier: BSD-3-Clause
"""The texts of the papers' page in Japanese.

A text is looked up as a whole: page.py, figures.py, patterns.py. Otherwise it consists of
sentences, or of parts between semicolons or commas, and each of them is looked up.
"""

import re
from collections.abc import Iterable, Iterator

from . import figures, page
from .patterns import PATTERNS, SAME, TERMS

TEXTS = page.TEXTS | figures.TEXTS | TERMS


class NotTranslated(Exception):
    """The text that has no Japanese."""


def _split(text: str) -> tuple[list[str], str] | None:
    """The parts of @text, and the mark that joins them in Japanese."""
    for between, mark in ((r"(?<=\.) (?=[A-Z\d`]|docs/)", ""), ("; ", "；"), (", ", "、")):
        parts = re.split(between, text)
        if len(parts) > 1:
            return parts, mark
    return None


def text(english: str) -> str:
    """The Japanese of @english. Raises NotTranslated with the part that has none."""
    if english in TEXTS:
        return TEXTS[english]
    for pattern, template in PATTERNS.items():
        if found := re.fullmatch(pattern, english):
            return template.format(*(text(group or "") for group in found.groups()))
    if SAME.fullmatch(english):
        return english
    split = _split(english)
    if not split:
        raise NotTranslated(english)
    parts, mark = split
    return mark.join(text(part) for part in parts)


def lacking(english: Iterable[str]) -> Iterator[str]:
    """Those parts of the texts that have no Japanese, each once."""
    found = set()
    for each in english:
        try:
            text(each)
        except NotTranslated as part:
            if str(part) not in found:
                found.add(str(part))
                yield str(part)
