# SPDX-License-Identifier: BSD-3-Clause
"""The files between Python and hk_learn: the rows of a node (learn/shard.h), and its parameters."""

import struct
from pathlib import Path

import numpy as np

from ..errors import HikyakuError

_HEAD = "<8sIIQQIIQ"
_END = "<8sQQd"


def write(
    path: Path, x: np.ndarray, y: np.ndarray, *, classes: int, node: int, nodes: int, total: int
) -> None:
    """@classes: 0 for regression. @total: rows of all nodes."""
    body = np.concatenate([np.ravel(x), np.ravel(y)]).astype("<f8")
    with np.errstate(over="ignore"):
        checksum = int(np.add.reduce(body.view("<u8"), dtype=np.uint64))
    head = struct.pack(
        _HEAD, b"HKSHARD1", x.shape[1], classes, len(y), total, node, nodes, checksum
    )
    with path.open("wb") as out:
        out.write(head)
        body.tofile(out)


def read_parameters(path: Path, parameters: int) -> tuple[np.ndarray, float]:
    """The parameters that hk_learn --output wrote, and the loss on the node's own rows."""
    raw = path.read_bytes()
    head = struct.calcsize(_END)
    if len(raw) < head:
        raise HikyakuError(f"{path} is cut short")
    magic, count, _age, loss = struct.unpack_from(_END, raw)
    if magic != b"HKPARAM1" or count != parameters or len(raw) != head + 8 * count:
        raise HikyakuError(f"{path} does not hold {parameters} parameters")
    return np.frombuffer(raw, dtype="<f8", offset=head).astype(np.float64), loss
