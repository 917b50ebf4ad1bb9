# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the bindings of our C libraries by ctypes."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

# By name, without the prefix of the library: the result, and the arguments.
Calls = Mapping[str, tuple[type | None, Sequence[type]]]


class Error(ctypes.Structure):
    """struct hk_error (hikyaku/error.h)."""

    _fields_ = (("text", ctypes.c_char * 512),)

    def __str__(self) -> str:
        return self.text.decode(errors="replace")


def load(path: Path, prefix: str, calls: Calls) -> ctypes.CDLL:
    """The library @path, with the types of its @calls."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in calls.items():
        call = getattr(library, prefix + name)
        call.restype, call.argtypes = result, arguments
    return library
