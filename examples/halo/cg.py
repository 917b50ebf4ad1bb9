# SPDX-License-Identifier: BSD-3-Clause
"""Conjugate gradients (Hestenes and Stiefel 1952) for a sparse matrix with distributed rows.

The matrix is the 5-point Laplacian on n * n points.

    ./hikyaku lab mpirun -np 2 .venv/bin/python examples/halo/cg.py

The program checks the residual at the end.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from hikyaku import halo

N, LIMIT = 40, 500


def rows_of_the_laplacian(first: int, last: int) -> scipy.sparse.csr_array:
    """These rows, with global columns."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(N, N))
    unit = scipy.sparse.eye_array(N)
    whole = scipy.sparse.kron(line, unit) + scipy.sparse.kron(unit, line)
    return scipy.sparse.csr_array(scipy.sparse.csr_array(whole)[first:last])


def main() -> int:
    comm = MPI.COMM_WORLD
    first, last = (r * N * N // comm.size for r in (comm.rank, comm.rank + 1))
    matrix = rows_of_the_laplacian(first, last)
    rows = last - first
    plan = halo.Csr(comm, rows, matrix.indices)
    shape = (rows, rows + plan.ghosts)
    matrix = scipy.sparse.csr_array((matrix.data, plan.local, matrix.indptr), shape=shape)

    def dot(a: np.ndarray, b: np.ndarray) -> float:
        return comm.allreduce(float(a @ b))

    x, r = np.zeros(rows), np.ones(rows)
    p = np.zeros(rows + plan.ghosts)
    with plan.connect([p]) as exchange:

        def product() -> np.ndarray:
            exchange.put()
            exchange.wait()
            return matrix @ p

        p[:rows] = r
        rr = dot(r, r)
        steps = 0
        while rr**0.5 >= 1e-10 * N and steps < LIMIT:
            steps += 1
            q = product()
            alpha = rr / dot(p[:rows], q)
            x += alpha * p[:rows]
            r -= alpha * q
            rr, before = dot(r, r), rr
            p[:rows] = r + rr / before * p[:rows]
        p[:rows] = x
        r = 1 - product()
        residual = dot(r, r) ** 0.5
    plan.free()
    good = residual < 1e-8
    if comm.rank == 0:
        what = f"cg: {comm.size} ranks, {steps} steps, residual {residual:.1e}"
        print("PASS" if good else "FAIL", what)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
