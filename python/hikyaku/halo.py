# SPDX-License-Identifier: BSD-3-Clause
"""The halo library in Python: halo/halo.h by ctypes, for NumPy arrays and mpi4py's communicators.

    from mpi4py import MPI
    from hikyaku import halo

    a = numpy.zeros((n + 2, m + 2))                      # ghosts around n * m points
    cart = MPI.COMM_WORLD.Create_cart((2, 1))
    with halo.cart(cart, [a], width=(1, 1)) as exchange:
        for step in range(100):
            exchange.put()
            ...                                          # what needs no ghosts
            exchange.wait()

Views of any strides may be exchanged (a[:, 1], a[::2]). They are not copied: an exchange keeps the
arrays, which must not be resized.

An exchange is freed by all ranks together: by `with`, or free(). What halo.h calls an error is a
HikyakuError here. One thread at a time an exchange.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_longlong, c_void_p
from dataclasses import dataclass
from functools import cache
from types import TracebackType

import numpy as np
from mpi4py import MPI

from .checkout import built
from .errors import HikyakuError

_INT_MAX = 2**31 - 1
STENCILS = {"star": 0, "box": 1}


class _Edge(ctypes.Structure):
    _fields_ = (
        ("peer", c_int),
        ("tag", c_int),
        ("send", c_void_p),
        ("send_count", c_int),
        ("send_type", c_void_p),
        ("recv", c_void_p),
        ("recv_count", c_int),
        ("recv_type", c_void_p),
    )


@cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(built("halo/libhk_halo.so.0")))
    handle = POINTER(c_void_p)
    ints = POINTER(c_int)
    lib.hk_halo_setup.argtypes = (c_void_p, c_int, POINTER(_Edge), handle)
    cart_arguments = (c_void_p, ints, ints, c_int, c_int, c_int, POINTER(c_void_p), c_void_p)
    lib.hk_halo_cart.argtypes = (*cart_arguments, handle)
    lib.hk_halo_csr.argtypes = (c_void_p, c_int, c_longlong, c_void_p, c_void_p, ints, handle)
    lib.hk_halo_csr_setup.argtypes = (c_void_p, c_int, POINTER(c_void_p), c_void_p, handle)
    lib.hk_halo_csr_free.argtypes = (handle,)
    lib.hk_halo_csr_free.restype = None
    for name in ("put", "wait"):
        getattr(lib, f"hk_halo_{name}").argtypes = (c_void_p,)
    lib.hk_halo_ready.argtypes = (c_void_p, c_int)
    lib.hk_halo_wait_some.argtypes = (c_void_p, ints)
    lib.hk_halo_free.argtypes = (handle,)
    lib.hk_halo_path.argtypes = (c_void_p, c_int, POINTER(c_char_p))
    lib.hk_halo_path.restype = c_char_p
    lib.hk_halo_error.restype = c_char_p
    lib.hk_halo_wrong.argtypes = (c_char_p,)
    lib.hk_halo_wrong.restype = None
    return lib


def _checked(rc: int) -> int:
    if rc < 0:
        raise HikyakuError.said(_library().hk_halo_error().decode())
    return rc


@contextmanager
def _or_nobody(take_part: Callable[[], int]) -> Iterator[None]:
    """Around what this rank prepares for a collective call. If it cannot, it takes part all the
    same, by a call that fails on all ranks, so that none waits for it."""
    try:
        yield
    except Exception as error:
        said = str(error) if isinstance(error, HikyakuError) else f"{type(error).__name__}: {error}"
        _library().hk_halo_wrong(said.encode(errors="replace"))
        take_part()
        raise


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _handle(of: MPI.Comm | MPI.Datatype) -> int:
    """Open MPI's handles are pointers."""
    return MPI._handleof(of)


def _check_elements(array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise HikyakuError("an array holds Python objects, which are no data", "use another dtype")


def _datatype(array: np.ndarray) -> MPI.Datatype:
    """Where the elements of a view lie, in the order of its indices."""
    _check_elements(array)
    made = MPI.BYTE.Create_contiguous(array.itemsize)
    for count, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        inner, made = made, made.Create_hvector(count, 1, stride)
        inner.Free()
    return made.Commit()


@dataclass(frozen=True)
class Edge:
    """What one neighbour is sent, and what comes from it; either may be None. halo.h says which
    halves of two ranks belong together."""

    peer: int
    send: np.ndarray | None = None
    recv: np.ndarray | None = None
    tag: int = 0


class Halo:
    """An exchange with neighbours that is done again and again. Collective."""

    def __init__(self, comm: MPI.Comm, edges: Sequence[Edge]):
        list_of = (_Edge * max(len(edges), 1))()
        types: list[MPI.Datatype] = []
        handle = c_void_p()

        def set_up(count: int) -> int:
            return _library().hk_halo_setup(_handle(comm), count, list_of, byref(handle))

        try:
            with _or_nobody(lambda: set_up(0)):
                for edge, made in zip(edges, list_of, strict=False):
                    self._fill(edge, made, types)
            _checked(set_up(len(edges)))
        finally:
            for each in types:
                each.Free()
        self._take(handle, len(edges), [*edges])

    @staticmethod
    def _fill(edge: Edge, made: _Edge, types: list[MPI.Datatype]) -> None:
        made.peer, made.tag = edge.peer, edge.tag
        for half, array in (("send", edge.send), ("recv", edge.recv)):
            if array is None:
                continue
            if half == "recv" and not array.flags.writeable:
                raise HikyakuError(f"what comes from rank {edge.peer} cannot be written")
            types.append(_datatype(array))
            setattr(made, half, _address(array))
            setattr(made, f"{half}_count", 1)
            setattr(made, f"{half}_type", _handle(types[-1]))

    def _take(self, handle: c_void_p, edges: int, kept: list) -> None:
        self._handle, self._edges, self._kept = handle, edges, kept
        # Neighbours may write to them until the exchange is freed, also when nobody holds this
        # object any more, and when the interpreter has ended and mpi4py calls MPI_Finalize().
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    @classmethod
    def _of(cls, handle: c_void_p, edges: int, kept: list) -> "Halo":
        made = cls.__new__(cls)
        made._take(handle, edges, kept)
        return made

    def put(self) -> None:
        _checked(_library().hk_halo_put(self._alive()))

    def wait(self) -> None:
        _checked(_library().hk_halo_wait(self._alive()))

    def ready(self, edge: int) -> bool:
        """Has what this edge receives come?"""
        return bool(_checked(_library().hk_halo_ready(self._alive(), edge)))

    def wait_some(self) -> list[int]:
        """Edges that have come since the last call; [] when all of this exchange were told."""
        which = (c_int * max(self._edges, 1))()
        return which[: _checked(_library().hk_halo_wait_some(self._alive(), which))]

    def path(self, peer: int) -> tuple[str, str] | None:
        """By what a neighbour is reached, and why."""
        why = c_char_p()
        path = _library().hk_halo_path(self._alive(), peer, byref(why))
        return (path.decode(), why.value.decode()) if path else None

    def free(self) -> None:
        """Collective. A second time does nothing."""
        if self._handle:
            handle, self._handle = self._handle, c_void_p()
            _checked(_library().hk_halo_free(byref(handle)))  # else it may be read from yet
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._kept))
        self._kept = []

    def _alive(self) -> c_void_p:
        if not self._handle:
            raise HikyakuError("this exchange is freed")
        return self._handle

    def __enter__(self) -> "Halo":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """After an error others may not come here: nothing is waited for then."""
        if kind is None:
            self.free()


def _element(array: np.ndarray) -> MPI.Datatype:
    _check_elements(array)
    return MPI.BYTE.Create_contiguous(array.itemsize).Commit()


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    return (c_void_p * max(len(arrays), 1))(*(_address(a) for a in arrays))


def _same_kind(arrays: Sequence[np.ndarray], what: str) -> None:
    if not arrays:
        raise HikyakuError(f"there is no {what}")
    for a in arrays:
        if a.shape != arrays[0].shape or a.dtype != arrays[0].dtype:
            raise HikyakuError(f"the {what}s differ in shape or type")
        if not a.flags.c_contiguous or not a.flags.writeable:
            raise HikyakuError(f"a {what} is not contiguous or cannot be written")


def cart(
    comm: MPI.Cartcomm, fields: Sequence[np.ndarray], width: Sequence[int], stencil: str = "star"
) -> Halo:
    """The exchange of a grid that is cut into boxes: @fields are this rank's, with @width ghosts on
    either side in each dimension. @stencil: star (faces) or box (edges and corners too)."""
    dims, handle = comm.Get_dim(), c_void_p()
    ints = c_int * dims

    def take_part() -> int:
        nothing = (ints(), ints(), 0, MPI.ORDER_C, 0, None, _handle(MPI.BYTE))
        return _library().hk_halo_cart(_handle(comm), *nothing, byref(handle))

    with _or_nobody(take_part):
        if stencil not in STENCILS:
            raise HikyakuError(f"there is no stencil '{stencil}'", f"use {' or '.join(STENCILS)}")
        _same_kind(fields, "field")
        if fields[0].ndim != dims or len(width) != dims:
            raise HikyakuError(
                f"the grid has {dims} dimensions, the fields or the widths have others"
            )
        interior = ints(*(n - 2 * w for n, w in zip(fields[0].shape, width, strict=True)))
        widths, element = ints(*width), _element(fields[0])
    try:
        _checked(
            _library().hk_halo_cart(
                *(_handle(comm), interior, widths, STENCILS[stencil], MPI.ORDER_C),
                *(len(fields), _addresses(fields), _handle(element), byref(handle)),
            )
        )
    finally:
        element.Free()
    return Halo._of(handle, 2 * 3**dims * len(fields), [*fields])


class Csr:
    """Who needs which elements of a vector that is dealt out as the rows of a sparse matrix. This
    rank has @rows of them, and entries in @columns (global numbers). `local` says where the vector,
    of rows + `ghosts` elements, has each entry's. Collective."""

    def __init__(self, comm: MPI.Comm, rows: int, columns: np.ndarray):
        self._plan, self._ranks, ghosts = c_void_p(), comm.size, c_int()
        made = (byref(ghosts), byref(self._plan))
        with _or_nobody(lambda: _library().hk_halo_csr(_handle(comm), 0, 0, None, None, *made)):
            columns = np.ascontiguousarray(columns, dtype=np.int64)
            if not 0 <= rows <= _INT_MAX:
                raise HikyakuError(f"there are {rows} rows", f"give a rank 0 to {_INT_MAX}")
            self.local = np.empty(columns.shape, dtype=np.int32)
        at = (_address(columns), _address(self.local))
        _checked(_library().hk_halo_csr(_handle(comm), rows, columns.size, *at, *made))
        self.rows, self.ghosts = rows, ghosts.value

    def connect(self, vectors: Sequence[np.ndarray]) -> Halo:
        """The exchange for these vectors. Collective."""
        if not self._plan:
            raise HikyakuError("this plan is freed")
        handle, set_up = c_void_p(), _library().hk_halo_csr_setup
        with _or_nobody(lambda: set_up(self._plan, 0, None, _handle(MPI.BYTE), byref(handle))):
            _same_kind(vectors, "vector")
            if vectors[0].shape != (self.rows + self.ghosts,):
                raise HikyakuError(f"a vector needs {self.rows} + {self.ghosts} elements")
            element = _element(vectors[0])
        try:
            of = (len(vectors), _addresses(vectors), _handle(element))
            _checked(set_up(self._plan, *of, byref(handle)))
        finally:
            element.Free()
        return Halo._of(handle, 2 * self._ranks * len(vectors), [*vectors])

    def free(self) -> None:
        """Collective. Exchanges that were connected go on."""
        if self._plan:
            _library().hk_halo_csr_free(byref(self._plan))
