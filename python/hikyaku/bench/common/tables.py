# SPDX-License-Identifier: BSD-3-Clause
"""Numbers, table forms and remarks that the reports share."""

from rich import box
from rich.console import Console
from rich.table import Table

from .phases import NEAR_NS


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def repeats_text(count: int) -> str:
    return f"{count} repeat{'' if count == 1 else 's'}"


_UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where, unit, its name


def number(value: float | None, digits: int = 3) -> str:
    """@value with @digits digits, and k, M or G, so that columns stay narrow; with four, not three,
    from 1000."""
    if value is None:
        return "–"
    whole = digits == 3 and 999.5 <= value < 9999.5
    rounded = round(value) if whole else float(f"{value:.{digits}g}")
    for least, unit, name in _UNITS:
        if rounded >= least:
            return f"{rounded / unit:.{max(digits, 6)}g}{name}"
    return f"{rounded:.{max(digits, 6)}g}"


def number_beside(value: float, limit: float) -> str:
    """number() of @value, with as many more digits as it takes to look unlike another @limit."""
    texts = [number(value, digits) for digits in range(3, 18)]
    return next((t for t in texts if value == limit or t != number(limit)), texts[-1])


def median_of(cell: dict | None) -> float | None:
    return cell["median"] if cell else None


def spread(cell: dict | None) -> str:
    return f"{number(cell['min'])}–{number(cell['max'])}" if cell else "–"


def left_titled(title: str) -> Table:
    """An empty table in the form that all reports have."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


_NEAR = "near cores"
_FAR = f"far cores (near ones take at most {NEAR_NS:.0f} ns, and are faster)"


def show_core_distance(about: dict, console: Console) -> None:
    if apart := about.get("cores_apart"):
        console.print(
            f"A cache line took {number_beside(apart['usual_ns'], NEAR_NS)} ns from core to core: "
            f"{_NEAR if apart['near'] else _FAR}. {apart['left_out']} of "
            f"{apart['samples']} samples are left out; over all samples it took "
            f"{apart['min_ns']:.0f} to {apart['max_ns']:.0f} ns.",
            highlight=False,
        )
