# SPDX-License-Identifier: BSD-3-Clause
"""libhk_learn.so by ctypes: the part of learn/learn.h that Python uses.

`train` runs many nodes in this process (learn/local.c); the computation is in C.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_double,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ..checkout import built
from ..errors import HikyakuError
from ..native import Error, load

# The order of learn/learn.h, learn/message.h, learn/guard.h and hikyaku/rtc.h.
KINDS = ("linear", "logistic", "svm", "mlp")
MERGES = ("mean", "age", "trimmed", "push-sum")
SCHEDULES = ("plateau", "inverse", "constant")
TOPOLOGIES = ("all", "ring", "random", "exponential")
FAULTS = ("none", "nan", "outlier")
STOPS = ("rounds", "target", "converged", "epochs", "time", "asked")
REASONS = ("taken", "bytes", "model", "not_finite", "far", "stale", "old", "run", "few")


class _Model(Structure):
    _fields_ = (
        ("kind", c_int),
        ("features", c_uint32),
        ("classes", c_uint32),
        ("hidden", c_uint32),
        ("hinge", c_bool),
        ("l2", c_double),
    )


class _Data(Structure):
    _fields_ = (("x", c_void_p), ("y", c_void_p), ("rows", c_size_t))


class _Settings(Structure):
    _fields_ = (
        ("seed", c_uint64),
        ("schedule", c_int),
        ("merge", c_int),
        ("batch", c_uint32),
        ("max_epochs", c_uint32),
        ("step", c_double),
        ("decay", c_double),
        ("momentum", c_double),
        ("tolerance", c_double),
        ("epochs_no_change", c_uint32),
        ("halvings", c_uint32),
        ("gossip_every", c_uint32),
        ("trim", c_double),
        ("norm_limit", c_double),
        ("target_loss", c_double),
        ("settle", c_uint32),
    )


class _Event(Structure):
    _fields_ = (("round", c_uint32), ("node", c_uint16), ("up", c_uint16))


class _Local(Structure):
    _fields_ = (
        ("nodes", c_uint16),
        ("degree", c_uint16),
        ("topology", c_int),
        ("payload_max", c_uint32),
        ("max_rounds", c_uint32),
        ("delay", c_uint32),
        ("drop", c_double),
        ("duplicate", c_double),
        ("fault", POINTER(c_uint8)),
        ("fault_scale", c_double),
        ("event", POINTER(_Event)),
        ("events", c_size_t),
        ("progress_every", c_uint32),
        ("turn", c_uint32),
    )


class Progress(Structure):
    _fields_ = (
        ("round", c_uint32),
        ("living", c_uint16),
        ("rows", c_uint64),
        ("bytes", c_uint64),
        ("loss", c_double),
        ("consensus", c_double),
        ("push_weight", c_double),
    )


class _Result(Structure):
    _fields_ = (
        ("rounds", c_uint32),
        ("stop", c_int),
        ("rows", c_uint64),
        ("bytes", c_uint64),
        ("messages", c_uint64),
        ("dropped", c_uint64),
        ("merged", c_uint64),
        ("copied", c_uint64),
        ("refused", c_uint64 * len(REASONS)),
        ("epochs", c_uint32),
    )


_ON_PROGRESS = CFUNCTYPE(c_bool, c_void_p, POINTER(Progress))


@cache
def _library() -> ctypes.CDLL:
    model, data = POINTER(_Model), POINTER(_Data)
    local = [model, POINTER(_Settings), POINTER(_Local), data, c_void_p, _ON_PROGRESS, c_void_p]
    calls = {
        "check": (c_int, [model, POINTER(Error)]),
        "parameters": (c_size_t, [model]),
        "scratch": (c_size_t, [model]),
        "defaults": (None, [POINTER(_Settings)]),
        "loss": (c_double, [model, c_void_p, data, c_void_p]),
        "local": (c_int, [*local, POINTER(_Result), POINTER(Error)]),
    }
    return load(built("systems/learn/libhk_learn.so"), "hk_learn_", calls)


def _data(x: np.ndarray, y: np.ndarray) -> _Data:
    """The struct for arrays that are C-contiguous float64 and outlive it."""
    return _Data(x.ctypes.data, y.ctypes.data, len(x))


@dataclass(frozen=True)
class Model:
    """struct hk_learn_model. @classes: 0 for regression."""

    kind: str
    features: int
    classes: int = 0
    hidden: int = 0
    l2: float = 0.0
    hinge: bool = False

    def native(self) -> _Model:
        made = _Model(
            KINDS.index(self.kind), self.features, self.classes, self.hidden, self.hinge, self.l2
        )
        error = Error()
        if _library().hk_learn_check(made, error) != 0:
            raise HikyakuError(str(error))
        return made

    @property
    def outputs(self) -> int:
        return self.classes if self.classes > 2 else 1

    @property
    def parameters(self) -> int:
        return _library().hk_learn_parameters(self.native())

    def loss(self, w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        """The objective over these rows."""
        model = self.native()
        x, y, w = (np.ascontiguousarray(a, dtype=np.float64) for a in (x, y, w))
        scratch = np.empty(_library().hk_learn_scratch(model))
        return _library().hk_learn_loss(model, w.ctypes.data, _data(x, y), scratch.ctypes.data)

    def matrices(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """The matrices in the flat vector of parameters, in the order of learn/learn.h."""
        k, p, h = self.outputs, self.features, self.hidden
        if self.kind == "mlp":
            shapes = {"hidden_weight": (h, p), "hidden_bias": (h,), "weight": (k, h), "bias": (k,)}
        else:
            shapes = {"weight": (k, p), "bias": (k,)}
        parts, at = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            parts[name] = np.asarray(w[at : at + size]).reshape(shape)
            at += size
        return parts

    def scores(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """[rows][outputs], with numpy."""
        m = self.matrices(w)
        if self.kind == "mlp":
            x = np.tanh(x @ m["hidden_weight"].T + m["hidden_bias"])
        return x @ m["weight"].T + m["bias"]


@dataclass
class Result:
    """The result of hk_learn_local(), and the parameters of each node."""

    w: np.ndarray  # [nodes][parameters]; NaN of nodes that are down at the end
    stop: str
    rounds: int
    rows: int
    bytes: int
    messages: int
    dropped: int
    merged: int
    copied: int
    epochs: int
    refused: dict[str, int] = field(default_factory=dict)


def settings(**given: object) -> _Settings:
    """The default settings with the @given values, by the names of struct hk_learn_settings."""
    made = _Settings()
    _library().hk_learn_defaults(made)
    names = {"schedule": SCHEDULES, "merge": MERGES}
    known = {name for name, _ in _Settings._fields_}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"there is no setting '{name}'")
        if value is not None:
            setattr(made, name, names[name].index(value) if name in names else value)
    return made


def train(
    model: Model,
    shards: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    topology: str = "all",
    degree: int = 2,
    payload_max: int = 1400,
    max_rounds: int = 0,
    delay: int = 0,
    drop: float = 0.0,
    duplicate: float = 0.0,
    faults: dict[int, str] | None = None,
    fault_scale: float = 100.0,
    events: Sequence[tuple[int, int, bool]] = (),
    progress_every: int = 0,
    on_progress: Callable[[Progress], bool] | None = None,
    **given: object,
) -> Result:
    """Trains one node for each of @shards in this process; deterministic. @events: (round, node,
    up). The others are struct hk_learn_settings."""
    nodes = len(shards)
    kept = [tuple(np.ascontiguousarray(a, dtype=np.float64) for a in s) for s in shards]
    data = (_Data * nodes)(*(_data(x, y) for x, y in kept))
    fault = None
    if faults:
        fault = (c_uint8 * nodes)(*(FAULTS.index(faults.get(i, "none")) for i in range(nodes)))
    how = _Local(
        nodes=nodes,
        degree=degree,
        topology=TOPOLOGIES.index(topology),
        payload_max=payload_max,
        max_rounds=max_rounds,
        delay=delay,
        drop=drop,
        duplicate=duplicate,
        fault=fault,
        fault_scale=fault_scale,
        event=(_Event * len(events))(*(_Event(r, n, int(up)) for r, n, up in events)),
        events=len(events),
        progress_every=progress_every if on_progress else 0,
    )
    raised: list[BaseException] = []

    def report(_arg: object, progress: object) -> bool:
        try:
            return on_progress is None or bool(on_progress(progress.contents))
        except BaseException as error:  # an exception must not cross the C code
            raised.append(error)
            return False

    w = np.empty((nodes, model.parameters))
    result, error = _Result(), Error()
    code = _library().hk_learn_local(
        model.native(),
        settings(**given),
        how,
        data,
        w.ctypes.data,
        _ON_PROGRESS(report),
        None,
        result,
        error,
    )
    if raised:
        raise raised[0]
    if code != 0:
        raise HikyakuError(str(error))
    counts = {
        name: getattr(result, name)
        for name, _ in _Result._fields_
        if name not in ("stop", "refused")
    }
    refused = {why: n for why, n in zip(REASONS, result.refused, strict=True) if why != "taken"}
    return Result(w=w, stop=STOPS[result.stop], refused=refused, **counts)
