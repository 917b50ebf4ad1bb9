# SPDX-License-Identifier: BSD-3-Clause
"""The exception that ends a command with one sentence instead of a traceback."""

_FIX = "; fix: "


class HikyakuError(Exception):
    """An error that the user can fix: the cause, and the fix if it is known."""

    def __init__(self, what: str, fix: str | None = None):
        super().__init__(what if fix is None else f"{what}{_FIX}{fix}")
        self.what = what
        self.fix = fix

    @classmethod
    def said(cls, text: str, before: str = "") -> "HikyakuError":
        """The error of a `struct hk_error` (hikyaku/error.h), whose text has the same form."""
        what, _, fix = text.strip().partition(_FIX)
        return cls(before + what, fix or None)
