# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges of NumPy views with all kinds of strides, compared with mpi4py messages of copies.

tests/integration/test_halo.py runs it."""

import gc
import random
import sys
import weakref
from collections.abc import Callable
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
        assert h.transport(comm.rank + 100) is None
        assert view(out).size == 0 or h.transport(peer)[0] in ("worker", "mpi", "self")


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


def refused(comm: MPI.Comm, first: Callable[[], object], others: Callable[[], object]) -> None:
    """Rank 0 passes a wrong argument: the call fails on all ranks, and none waits."""
    try:
        (first if comm.rank == 0 else others)()
        raise AssertionError(f"rank {comm.rank} is content")
    except HikyakuError as error:
        assert comm.rank == 0 or str(error).startswith("rank 0: "), error
    except (OverflowError, ValueError, TypeError, MPI.Exception):
        assert comm.rank == 0


def wrong_at_one_rank(comm: MPI.Comm) -> None:
    fixed, objects = np.zeros(4), np.zeros(4, dtype=object)
    fixed.flags.writeable = False
    far = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(2**31,), strides=(0,))
    for edge in (
        halo.Edge(0, recv=fixed),
        halo.Edge(0, send=objects),
        halo.Edge(0, send=far),
        halo.Edge("0"),
    ):
        refused(comm, lambda edge=edge: halo.Halo(comm, [edge]), lambda: halo.Halo(comm, []))

    grid = comm.Create_cart((comm.size,))
    good = [np.zeros(6)]
    for first in (
        lambda: halo.cart(grid, [], (1,)),
        lambda: halo.cart(grid, [np.zeros((6, 6))], (1,)),
        lambda: halo.cart(grid, [np.zeros(6), np.zeros(7)], (1,)),
        lambda: halo.cart(grid, good, (0.5,)),
        lambda: halo.cart(grid, good, (1,), "circle"),
    ):
        refused(comm, first, lambda: halo.cart(grid, good, (1,)))
    grid.Free()

    refused(
        comm,
        lambda: halo.Csr(comm, 1, ["one"]),
        lambda: halo.Csr(comm, 1, np.array([comm.rank])),
    )
    refused(
        comm,
        lambda: halo.Csr(comm, 2**31, np.array([0])),
        lambda: halo.Csr(comm, 1, np.array([comm.rank])),
    )


def plans(comm: MPI.Comm) -> None:
    plan = halo.Csr(comm, 2, np.array([2 * comm.rank, 2 * ((comm.rank + 1) % comm.size)]))
    vector = np.zeros(2 + plan.ghosts)
    refused(comm, lambda: plan.connect([vector[1:]]), lambda: plan.connect([vector]))
    with plan.connect([vector]) as h:
        h.put()
        told: list[int] = []
        while some := h.wait_some():
            told += some
        assert len(told) == plan.ghosts, told
        h.wait()
    plan.free()
    try:
        plan.connect([vector])
        raise AssertionError("it is freed")
    except HikyakuError as error:
        assert "freed" in str(error)


def arrays_live_as_long_as_their_exchange(comm: MPI.Comm) -> None:
    peer, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for freed in (True, False):
        out, into = np.zeros(4), np.zeros(4)
        alive = weakref.ref(into)
        h = halo.Halo(comm, [halo.Edge(peer, send=out), halo.Edge(source, recv=into)])
        h.put()
        if freed:
            h.free()
        else:
            h.wait()
            h.put()
        del h, out, into
        gc.collect()
        assert (alive() is None) == freed


comm = MPI.COMM_WORLD
for seed in range(60):
    exchange(comm, seed)
errors(comm)
wrong_at_one_rank(comm)
plans(comm)
arrays_live_as_long_as_their_exchange(comm)
if comm.rank == 0:
    print("PASS halo_views")
