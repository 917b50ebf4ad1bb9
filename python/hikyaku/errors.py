# SPDX-License-Identifier: BSD-3-Clause
"""The exception that ends a command with a sentence instead of a traceback."""

_FIX = "; fix: "


class HikyakuError(Exception):
    """Something that the user can mend: what happened, and the fix if we know it."""

    def __init__(self, what: str, fix: str | None = None):
        super().__init__(what if fix is None else f"{what}{_FIX}{fix}")
        self.what = what
        self.fix = fix

    @classmethod
    def said(cls, text: str, before: str = "") -> "HikyakuError":
        """From the text of a `struct hk_error` (base/error.h), which has the same form."""
        what, _, fix = text.strip().partition(_FIX)
        return cls(before + what, fix or None)
