# SPDX-License-Identifier: BSD-3-Clause
"""Reads data sets: CSV, svmlight and .npy, with errors that name file, row and column.

Rows count from 1, like lines in an editor; columns also count from 1. Wrong values are refused,
never guessed; users must fill missing values themselves.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import HikyakuError

# With --task auto, at most this many different integers are classes.
CLASSES_AT_MOST = 20
CLASSES_MAX = 1024  # HK_LEARN_MAX_CLASSES of systems/learn/learn.h
MISSING = {"", "?", "na", "n/a", "nan", "null", "none", "."}


@dataclass(frozen=True)
class Data:
    """@y: numbers, or the indices of classes in @classes."""

    x: np.ndarray  # [rows][features] float64
    y: np.ndarray  # [rows] float64
    classes: list[str] | None  # None: regression
    features: list[str]
    name: str

    @property
    def rows(self) -> int:
        return len(self.y)


def read(path: Path, *, target: str | None = None, task: str = "auto") -> Data:
    """Reads @path by its suffix. @target: the column to predict, by name or number from 1; by
    default the last. svmlight has its own."""
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise HikyakuError(f"the data {path} {what}", "give --data the path of a file")
    kind = _format(path)
    if kind == "csv":
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
            return from_csv(path, lines, target=target, task=task)
    if kind == "svmlight":
        if target:
            raise HikyakuError(
                f"{path}: in svmlight the target is each row's first word", "leave out --target"
            )
        x, labels, names = _svmlight(path)
    else:
        x, labels, names = _npy(path, target)
    return _data(path, x, labels, names, task)


def from_csv(
    path: Path, lines: Iterable[str], *, target: str | None = None, task: str = "auto"
) -> Data:
    """The @lines of a CSV file; errors name it @path."""
    return _data(path, *_csv(path, lines, target), task)


def _data(path: Path, x: np.ndarray, labels: list[str], names: list[str], task: str) -> Data:
    if len(labels) == 0:
        raise HikyakuError(f"{path} has no row of data", "add at least one row for each node")
    y, classes = _targets(path, labels, task)
    return Data(x, y, classes, names, path.name)


def _format(path: Path) -> str:
    endings = {
        ".csv": "csv",
        ".svm": "svmlight",
        ".svmlight": "svmlight",
        ".libsvm": "svmlight",
        ".npy": "npy",
    }
    kind = endings.get(path.suffix.lower())
    if kind is None:
        raise HikyakuError(f"{path} has an unknown suffix", f"use one of: {', '.join(endings)}")
    return kind


# ---- CSV -----------------------------------------------------------------------------------------


def number_of(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _column(path: Path, target: str | None, names: list[str]) -> int:
    if target is None:
        return len(names) - 1
    if target in names:
        return names.index(target)
    if target.isdigit() and 1 <= int(target) <= len(names):
        return int(target) - 1
    known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    raise HikyakuError(
        f"{path} has no column '{target}'",
        f"--target with one of 1 to {len(names)}, or of: {known}",
    )


def _csv(
    path: Path, lines: Iterable[str], target: str | None
) -> tuple[np.ndarray, list[str], list[str]]:
    rows: list[list[float]] = []
    labels: list[str] = []
    names: list[str] = []
    at = -1
    reader = csv.reader(lines)
    try:
        for raw in reader:
            if not raw:
                continue
            cells = [cell.strip() for cell in raw]
            if not names:
                # a first line with a feature that is not a number contains the names
                header = any(number_of(c) is None and c.lower() not in MISSING for c in cells[:-1])
                names = cells if header else [f"column {i + 1}" for i in range(len(cells))]
                if len(names) < 2:
                    raise HikyakuError(
                        f"{path} has {len(names)} column, and needs a feature and a target",
                        "values are separated by commas",
                    )
                at = _column(path, target, names)
                if header:
                    continue
            rows.append(_csv_row(f"{path}, row {reader.line_num}", cells, names, at))
            labels.append(cells[at])
    except csv.Error as error:
        raise HikyakuError(
            f"{path}, row {reader.line_num}: {error}", "save the table as CSV again, in UTF-8"
        ) from None
    features = names[:at] + names[at + 1 :]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(features)), labels, features


def _csv_row(where: str, cells: list[str], names: list[str], at: int) -> list[float]:
    if len(cells) != len(names):
        raise HikyakuError(
            f"{where}: {len(cells)} columns, and the first row has {len(names)}",
            f"write {len(names)} values, with a comma between two; or take the row out",
        )
    row = []
    for i, (cell, name) in enumerate(zip(cells, names, strict=True)):
        place = f"{where}, column {i + 1} ({name})"
        if cell.lower() in MISSING:
            raise HikyakuError(f"{place}: the value is missing", "fill it in, or take the row out")
        if i == at:
            continue
        value = number_of(cell)
        if value is None:
            raise HikyakuError(
                f"{place}: '{cell[:40]}' is not a finite number",
                "features are numbers; code categories as 0 and 1",
            )
        row.append(value)
    return row


# ---- svmlight ------------------------------------------------------------------------------------


def _pairs(where: str, words: list[str]) -> dict[int, float]:
    found: dict[int, float] = {}
    before = -1
    for word in words:
        head, colon, tail = word.partition(":")
        if head == "qid":
            continue
        value = number_of(tail)
        if not colon or not head.isdigit() or value is None:
            raise HikyakuError(
                f"{where}: '{word[:40]}' is not NUMBER:VALUE", "write features such as 3:0.5"
            )
        index = int(head)
        if index <= before:
            raise HikyakuError(
                f"{where}: feature {index} after {before}", "write features in ascending order"
            )
        if index > 65536:
            raise HikyakuError(f"{where}: feature {index}", "number features from 0 to 65536")
        found[index] = value
        before = index
    return found


def _svmlight(path: Path) -> tuple[np.ndarray, list[str], list[str]]:
    labels: list[str] = []
    rows: list[dict[int, float]] = []
    with path.open(encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            where = f"{path}, row {number}"
            if ":" in words[0]:
                raise HikyakuError(
                    f"{where}: the target is missing", "write it first, before the features"
                )
            labels.append(words[0])
            rows.append(_pairs(where, words[1:]))
    last = max((max(row, default=0) for row in rows), default=0)
    first = 0 if any(0 in row for row in rows) else 1
    if last < first and rows:
        raise HikyakuError(f"{path}: no row has a feature", "write features such as 3:0.5")
    x = np.zeros((len(rows), max(last - first + 1, 0)))
    for i, row in enumerate(rows):
        for index, value in row.items():
            x[i, index - first] = value
    return x, labels, [f"feature {i}" for i in range(first, last + 1)]


# ---- .npy ----------------------------------------------------------------------------------------


def _npy(path: Path, target: str | None) -> tuple[np.ndarray, list[str], list[str]]:
    try:
        # a pickle in a foreign file could run any code
        table = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise HikyakuError(
            f"{path} is not a .npy file of numbers: {error}", "write it by numpy.save()"
        ) from None
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "fiub":
        raise HikyakuError(
            f"{path} holds {table.dtype} of shape {table.shape}",
            "a table of numbers: a row each, the target in the last column (or --target N)",
        )
    names = [f"column {i + 1}" for i in range(table.shape[1])]
    at = _column(path, target, names)
    table = table.astype(np.float64)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise HikyakuError(
            f"{path}, row {row + 1}, column {column + 1}: {table[row, column]} "
            "is not a finite number"
        )
    labels = [repr(float(v)) for v in table[:, at]]
    return np.delete(table, at, axis=1), labels, names[:at] + names[at + 1 :]


# ---- targets -------------------------------------------------------------------------------------


def _targets(path: Path, labels: list[str], task: str) -> tuple[np.ndarray, list[str] | None]:
    numbers = [number_of(label) for label in labels]
    if task == "auto":
        kinds = set(labels)
        whole = all(v is not None and v == int(v) for v in numbers)
        few = len(kinds) <= CLASSES_AT_MOST
        task = "classification" if None in numbers or (whole and few) else "regression"
    if task == "regression":
        for row, value in enumerate(numbers):
            if value is None:
                raise HikyakuError(
                    f"{path}, row {row + 1} of the data: the target '{labels[row][:40]}' is not a "
                    "finite number",
                    "--task classification, if these are classes",
                )
        return np.array(numbers, dtype=np.float64), None
    if None in numbers:
        keys: list = list(labels)
    else:
        keys = [f"{v:.17g}" for v in numbers]
    names = sorted(set(keys), key=lambda k: (0, float(k), "") if None not in numbers else (1, 0, k))
    if len(names) < 2:
        raise HikyakuError(
            f"{path}: all {len(labels)} rows are of one class, '{names[0]}'",
            "a classifier needs two",
        )
    if len(names) > CLASSES_MAX:
        fix = "another column by --target" if None in numbers else "--task regression"
        raise HikyakuError(f"{path}: {len(names)} classes; at most {CLASSES_MAX}", fix)
    of = {name: i for i, name in enumerate(names)}
    return np.array([of[k] for k in keys], dtype=np.float64), names


# ---- what nodes train on -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """Standardises features, and the target of a regression: minus mean, divided by scale."""

    mean: np.ndarray
    scale: np.ndarray
    y_mean: float = 0.0
    y_scale: float = 1.0

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, *, regression: bool) -> "Scaling":
        mean, scale = x.mean(axis=0), x.std(axis=0)
        # a constant feature has no information; rounding may leave a scale of almost 0
        scale = np.where(scale <= 1e-12 * (1 + np.abs(mean)), 1.0, scale)
        if not regression:
            return Scaling(mean, scale)
        y_scale = float(y.std())
        y_mean = float(y.mean())
        return Scaling(mean, scale, y_mean, y_scale if y_scale > 1e-12 * (1 + abs(y_mean)) else 1.0)

    def x(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) / self.scale

    def y(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_scale


def check_nodes(rows: int, nodes: int) -> None:
    """Raises an error if a node would have no rows."""
    if nodes > rows:
        raise HikyakuError(
            f"{nodes} nodes, and the data has {rows} row{'s' if rows != 1 else ''}",
            f"--nodes with at most {rows}",
        )


def split(rows: int, nodes: int, seed: int) -> list[np.ndarray]:
    """The row numbers of each node: random by the seed, in equal shares."""
    check_nodes(rows, nodes)
    return np.array_split(np.random.default_rng(seed).permutation(rows), nodes)
