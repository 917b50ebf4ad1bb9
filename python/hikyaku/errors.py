# SPDX-License-Identifier: BSD-3-Clause
"""The exception that ends a command with a sentence instead of a traceback."""


class HikyakuError(Exception):
    """Something that the user can mend: what happened, and the fix if we know it."""

    def __init__(self, what: str, fix: str | None = None):
        super().__init__(what if fix is None else f"{what}\n  fix: {fix}")
        self.what = what
        self.fix = fix
