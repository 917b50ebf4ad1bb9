# SPDX-License-Identifier: BSD-3-Clause
"""Jacobi's iteration for the 5-point Laplacian on n * n points, cut into boxes; two fields at once.

    ./hikyaku lab mpirun -np 2 .venv/bin/python examples/halo/jacobi.py

Each rank computes its inner points while the exchange is under way. The program compares the result
with that of one process.
"""

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from hikyaku import halo

N, STEPS = 60, 40


def start(low: list[int], high: list[int], field: int) -> np.ndarray:
    """The points from @low to @high (not included), with a ghost around."""
    i, j = np.indices([h - lo + 2 for lo, h in zip(low, high, strict=True)])
    a = ((low[0] + i) * 31 + (low[1] + j) * 17 + field) % 101.0
    a[0], a[-1], a[:, 0], a[:, -1] = 0, 0, 0, 0
    return a


def sweep(a: np.ndarray, b: np.ndarray, i: slice, j: slice) -> None:
    """b becomes the mean of a's neighbours, for these inner points."""
    b[1:-1, 1:-1][i, j] = 0.25 * (
        a[:-2, 1:-1][i, j] + a[2:, 1:-1][i, j] + (a[1:-1, :-2][i, j] + a[1:-1, 2:][i, j])
    )


def main() -> int:
    comm = MPI.COMM_WORLD
    dims = MPI.Compute_dims(comm.size, 2)
    cart = comm.Create_cart(dims)
    low = [c * N // d for c, d in zip(cart.coords, dims, strict=True)]
    high = [(c + 1) * N // d for c, d in zip(cart.coords, dims, strict=True)]
    fields = [start(low, high, f) for f in range(2)]
    following = [a.copy() for a in fields]
    middle, every = slice(1, -1), slice(None)

    with halo.cart(cart, fields, width=(1, 1)) as exchange:
        for _ in range(STEPS):
            exchange.put()
            for a, b in zip(fields, following, strict=True):
                sweep(a, b, middle, middle)
            exchange.wait()
            for a, b in zip(fields, following, strict=True):
                for edge in (slice(0, 1), slice(-1, None)):
                    sweep(a, b, edge, every)
                    sweep(a, b, every, edge)
                a[1:-1, 1:-1] = b[1:-1, 1:-1]

    differ = 0
    for f, a in enumerate(fields):
        one = start([0, 0], [N, N], f)
        other = one.copy()
        for _ in range(STEPS):
            sweep(one, other, every, every)
            one[1:-1, 1:-1] = other[1:-1, 1:-1]
        mine = one[1 + low[0] : 1 + high[0], 1 + low[1] : 1 + high[1]]
        differ += np.count_nonzero(mine != a[1:-1, 1:-1])
    differ = comm.allreduce(differ)
    if comm.rank == 0:
        print("FAIL" if differ else "PASS", f"jacobi: {comm.size} ranks, {differ} points differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
