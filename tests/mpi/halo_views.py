# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges of NumPy views with all kinds of strides, against mpi4py's own messages of copies.

tests/integration/test_halo.py runs it."""

import random
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from hikyaku import halo
from hikyaku.errors import HikyakuError

VIEWS = [
    lambda a: a,
    lambda a: a[2],
    lambda a: a[:, 3],
    lambda a: a[::2, 1::3],
    lambda a: a[::-1, ::-2],
    lambda a: a.T[1:4],
    lambda a: a[1:1],
    lambda a: a[3:4, 2:3].reshape(()),
]
KINDS = ["f8", "f4", "i2", "c16", "S3"]


def exchange(comm: MPI.Comm, seed: int) -> None:
    rng = random.Random(seed)
    view, kind = rng.choice(VIEWS), rng.choice(KINDS)
    peer, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out = np.arange(56).reshape(7, 8).astype(kind) if kind != "S3" else None
    if out is None:
        out = np.array([b"%03d" % i for i in range(56)], dtype=kind).reshape(7, 8)
    into = np.zeros((7, 8), dtype=kind)
    edges = [halo.Edge(peer, send=view(out), tag=2), halo.Edge(source, recv=view(into), tag=2)]
    with halo.Halo(comm, edges) as h:
        for step in range(3):
            out[...] = np.roll(out, comm.rank + step)
            want = comm.sendrecv(view(out).copy(), peer, 5, None, source, 5)
            whole = into.copy()
            view(whole)[...] = want
            h.put()
            if step == 1:
                told = h.wait_some()
                assert told == ([1] if view(into).size else []), told
                assert h.ready(0) or view(out).size == 0
            h.wait()
            assert (into == whole).all(), (seed, step)
        assert h.path(comm.rank + 100) is None
        assert view(out).size == 0 or h.path(peer)[0] in ("fabric", "mpi", "self")


def errors(comm: MPI.Comm) -> None:
    peer = (comm.rank + 1) % comm.size
    a = np.zeros(4 + comm.rank)
    try:
        halo.Halo(comm, [halo.Edge(peer, send=a, tag=1)])
        raise AssertionError("nobody receives it")
    except HikyakuError as error:
        assert "no such edge" in str(error), error
    h = halo.Halo(comm, [])
    h.free()
    h.free()
    try:
        h.put()
        raise AssertionError("it is freed")
    except HikyakuError as error:
        assert "freed" in str(error)


comm = MPI.COMM_WORLD
for seed in range(60):
    exchange(comm, seed)
errors(comm)
if comm.rank == 0:
    print("PASS halo_views")
