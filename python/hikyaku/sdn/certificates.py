# SPDX-License-Identifier: BSD-3-Clause
"""Which certificate may speak for which switch.

A CA signs the certificates of all switches, and OpenFlow lets a switch claim any datapath id. So
one that somebody broke into could take the place of another. The names of a certificate are the
DNS names and URIs of its subjectAltName, and its common name. The operator's file binds them to
datapath ids. Without such a file the first claim counts, and the controller's directory keeps it.
Datapaths of one Open vSwitch share a certificate, so a name may have several.

Both files have lines of a datapath id (decimal, or hexadecimal after 0x) and a name.
"""

from collections.abc import Mapping
from pathlib import Path

from ..errors import HikyakuError
from .names import clean
from .rows import read_rows

SWITCH_IDS = 1 << 64


def names_of(certificate: Mapping) -> list[str]:
    """The names of @certificate, in the form of SSLSocket.getpeercert()."""
    found = [v for kind, v in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")]
    for part in certificate.get("subject", ()):
        found += [value for key, value in part if key == "commonName"]
    names = [clean(name.encode(errors="replace")) for name in found]
    return [name for name in dict.fromkeys(names) if name and " " not in name]


def read_datapaths(path: Path) -> dict[int, set[str]]:
    """The names that may speak for each datapath, by the file @path."""
    found: dict[int, set[str]] = {}
    form, example = "a datapath id and a name", "0x1a switch7.example.org"
    for datapath, name in read_rows(path, _binding, form, example):
        found.setdefault(datapath, set()).add(name)
    return found


def _binding(words: list[str]) -> tuple[int, str]:
    datapath, name = words
    if not 0 <= int(datapath, 0) < SWITCH_IDS:
        raise ValueError
    return int(datapath, 0), name


class Datapaths:
    """Checks claims. @listed: the file of the operator, and its bindings. @kept: the file of first
    claims, if there is no other."""

    def __init__(self, listed: Path | None, kept: Path):
        self._file = listed or kept
        self._listed = listed is not None
        self._names = read_datapaths(self._file) if listed or kept.exists() else {}

    def check(self, datapath: int, names: list[str]) -> None:
        """Refuses a switch with a certificate of @names that may not be @datapath."""
        if not names:
            raise HikyakuError(
                "its certificate has no name without blanks",
                "give it a common name, or a DNS name as subjectAltName",
            )
        bound = self._names.get(datapath)
        if bound is None and not self._listed:
            with self._file.open("a") as file:
                file.write(f"{datapath:#x} {names[0]}\n")
            self._names[datapath] = {names[0]}
        elif bound is None:
            raise HikyakuError(
                f"{self._file} has no datapath {datapath:#x}",
                f"if it is the switch of '{names[0]}', add a line there, and start the controller "
                "again",
            )
        elif not bound.intersection(names):
            raise HikyakuError(
                f"its certificate is that of '{names[0]}', and datapath {datapath:#x} belongs to "
                f"'{min(bound)}'",
                f"if it has a new certificate, change its line in {self._file}, and start the "
                "controller again",
            )
