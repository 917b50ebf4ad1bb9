# SPDX-License-Identifier: BSD-3-Clause
"""The halo library in Python: hikyaku/halo.h by ctypes, for NumPy arrays and mpi4py.

    from mpi4py import MPI
    from hikyaku import halo

    a = numpy.zeros((n + 2, m + 2))                      # ghosts around n * m points
    cart = MPI.COMM_WORLD.Create_cart((2, 1))
    with halo.cart(cart, [a], width=(1, 1)) as exchange:
        for step in range(100):
            exchange.put()
            ...                                          # work that needs no ghosts
            exchange.wait()

Views with any strides may be exchanged (a[:, 1], a[::2]). They are not copied: an exchange holds
the arrays, which must not be resized.

All ranks free an exchange together: by `with`, or by free(). Errors of halo.h raise HikyakuError.
Only one thread at a time may use an exchange.
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
from .native import load

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
    handle, ints, pointers = POINTER(c_void_p), POINTER(c_int), POINTER(c_void_p)
    cart = (c_void_p, ints, ints, c_int, c_int, c_int, pointers, c_void_p, handle)
    calls = {
        "setup": (c_int, (c_void_p, c_int, POINTER(_Edge), handle)),
        "cart": (c_int, cart),
        "csr": (c_int, (c_void_p, c_int, c_longlong, c_void_p, c_void_p, ints, handle)),
        "csr_setup": (c_int, (c_void_p, c_int, pointers, c_void_p, handle)),
        "csr_free": (None, (handle,)),
        "put": (c_int, (c_void_p,)),
        "wait": (c_int, (c_void_p,)),
        "ready": (c_int, (c_void_p, c_int)),
        "wait_some": (c_int, (c_void_p, ints)),
        "free": (c_int, (handle,)),
        "transport": (c_char_p, (c_void_p, c_int, POINTER(c_char_p))),
        "error": (c_char_p, ()),
        "refuse_next": (None, (c_char_p,)),
    }
    return load(built("systems/halo/libhk_halo.so.0"), "hk_halo_", calls)


def _checked(rc: int) -> int:
    if rc < 0:
        raise HikyakuError.said(_library().hk_halo_error().decode())
    return rc


@contextmanager
def _or_nobody(take_part: Callable[[], int]) -> Iterator[None]:
    """Wraps the preparation of a collective call. If it fails on this rank, the rank takes part by
    a call that fails on all ranks, so that none waits for it."""
    try:
        yield
    except Exception as error:
        said = str(error) if isinstance(error, HikyakuError) else f"{type(error).__name__}: {error}"
        _library().hk_halo_refuse_next(said.encode(errors="replace"))
        take_part()
        raise


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _handle(of: MPI.Comm | MPI.Datatype) -> int:
    """Open MPI's handles are pointers."""
    return MPI._handleof(of)


def _check_elements(array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise HikyakuError(
            "an array contains Python objects, which cannot be sent", "use another dtype"
        )


def _datatype(array: np.ndarray) -> MPI.Datatype:
    """The positions of a view's elements, in the order of its indices."""
    _check_elements(array)
    made = MPI.BYTE.Create_contiguous(array.itemsize)
    for count, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        inner, made = made, made.Create_hvector(count, 1, stride)
        inner.Free()
    return made.Commit()


@dataclass(frozen=True)
class Edge:
    """The data sent to one neighbour, and received from it; either may be None. halo.h defines
    which halves of two ranks match."""

    peer: int
    send: np.ndarray | None = None
    recv: np.ndarray | None = None
    tag: int = 0


class Halo:
    """A repeated exchange with neighbours. Collective."""

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
                raise HikyakuError(f"the array for rank {edge.peer} is not writable")
            types.append(_datatype(array))
            setattr(made, half, _address(array))
            setattr(made, f"{half}_count", 1)
            setattr(made, f"{half}_type", _handle(types[-1]))

    def _take(self, handle: c_void_p, edges: int, kept: list) -> None:
        self._handle, self._edges, self._kept = handle, edges, kept
        # Neighbours may write to the arrays until the exchange is freed. So the arrays must live
        # longer than this object, and until mpi4py calls MPI_Finalize().
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
        """Has the data of this edge arrived?"""
        return bool(_checked(_library().hk_halo_ready(self._alive(), edge)))

    def wait_some(self) -> list[int]:
        """The edges that have arrived since the last call; [] when all have been returned."""
        which = (c_int * max(self._edges, 1))()
        return which[: _checked(_library().hk_halo_wait_some(self._alive(), which))]

    def transport(self, peer: int) -> tuple[str, str] | None:
        """The transport to a neighbour, and the reason for it."""
        why = c_char_p()
        transport = _library().hk_halo_transport(self._alive(), peer, byref(why))
        return (transport.decode(), why.value.decode()) if transport else None

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
        """Frees the exchange. After an error it does not, since other ranks may not come here."""
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
    """The exchange of a grid that is cut into boxes. @fields: this rank's, with @width ghosts on
    either side of each dimension. @stencil: star (faces) or box (edges and corners, too)."""
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
    """The exchange plan of a vector that is distributed like the rows of a sparse matrix. This rank
    has @rows of them, and entries in @columns (global numbers). `local` gives the position of each
    entry in the vector of rows + `ghosts` elements. Collective.
    """

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
        """Frees the plan. Collective. Connected exchanges stay usable."""
        if self._plan:
            _library().hk_halo_csr_free(byref(self._plan))
