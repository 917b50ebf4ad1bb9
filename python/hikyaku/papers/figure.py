# SPDX-License-Identifier: BSD-3-Clause
"""A figure of a paper, and how we compare."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from ..bench.common.goals import RELATIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

Document = dict  # what a benchmark saves by --json


@dataclass(frozen=True)
class Measurement:
    """A benchmark that saves its results by --json. Several figures may need one."""

    name: str
    command: tuple[str, ...]
    quick: tuple[str, ...]  # the same, in a tenth of the time

    def argv(self, quick: bool) -> list[str]:
        return list(self.quick if quick else self.command)


@dataclass(frozen=True)
class Comparison:
    """A figure of theirs beside ours. Without a relation there is no goal in it."""

    what: str
    theirs: float | None  # None: the paper has no number for it
    ours: float
    unit: str = ""  # "" for ratios
    relation: str = ""  # in which ours must be to theirs
    note: str = ""

    @property
    def met(self) -> bool | None:
        if not self.relation or self.theirs is None:
            return None
        return RELATIONS[self.relation](self.ours, self.theirs)


# How a figure is obtained, and what its times mean.
KINDS = {
    "virtual": "Programs run at their own speed. Wires are memory or kernel links, and not cables.",
    "emulated": "A process or QEMU takes the part of a device. Bytes and addresses count.",
    "simulated": "Our engine runs in virtual time. Links and network switch are computed.",
    "computed": "From a topology or a model. No packet is sent.",
}


@dataclass(frozen=True)
class Figure:
    """@said: what the paper says. @setting: what is virtual, emulated or computed. @open: what is
    still other than in the paper, or, without a measurement, why there is none. @procedure: the
    commands that measure it on hardware, where this machine cannot show it. @kind: of KINDS.
    @wire: the medium of the packets, "" if there is none. @bound: what keeps our values from the
    goals that they do not reach."""

    name: str
    title: str
    said: str
    measurement: Measurement | None = None
    setting: str = ""
    compare: Callable[[Document], Iterator[Comparison]] | None = None
    draw: Callable[[Document], "Plot"] | None = None
    open: str = ""
    procedure: tuple[str, ...] = ()
    kind: str = ""
    wire: str = ""
    bound: str = ""


@dataclass(frozen=True)
class Paper:
    name: str  # P1 to P5
    title: str
    authors: str
    figures: tuple[Figure, ...]

    def only(self, names: Container[str]) -> "Paper":
        """The paper with the figures of @names alone."""
        return replace(self, figures=tuple(f for f in self.figures if f.name in names))


VIRTUAL = "Two nodes in namespaces of one machine, one core each. "
MEMIF = VIRTUAL + "The wire is memif, shared memory: it has no link rate and no latency of its own."
VETH = VIRTUAL + "The wire is a veth pair of the kernel."
COMPUTED = "Computed from topology and placements. No switch forwards a packet."
EMULATED = "QEMU emulates NICs and devices: bytes and addresses count, and times mean nothing."


def drawn_by(suite: str) -> Callable[[Document], "Plot"]:
    """The plot of a benchmark. matplotlib loads when it draws."""

    def draw(document: Document) -> "Plot":
        return import_module(f"hikyaku.bench.{suite}.plot").draw(document)

    return draw


def rows_of(document: Document, **fields: object) -> list[dict]:
    """The rows of @document with all of these values."""
    return [
        row
        for row in document["rows"]
        if all(row.get(name) == value for name, value in fields.items())
    ]


def median(document: Document, **fields: object) -> float | None:
    """The median of the one row with these values."""
    found = rows_of(document, **fields)
    return found[0]["median"] if found else None
