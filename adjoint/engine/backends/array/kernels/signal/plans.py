"""Fourier transforms on a GPU by kept plans of cuFFT's.

CuPy looks a plan up behind locks and checks, copies what is a view of something, and transforms
several dimensions of reals one after another. Here a plan is kept by what it is for, in each thread
and for each stream: a plan has room to work in, which belongs to one call at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import beside_cupy

Array = Any
KEPT = 32  # plans of a thread
MOST = 1 << 31  # elements
ALIGNED = 16  # bytes at which cuFFT has arrays begin
RANKS = 3  # dimensions of one plan
# By the kind of transform and the letter of its operand: the name of cuFFT's type, and the letter
# of its result.
TYPES = {
    ("whole", "F"): ("CUFFT_C2C", "F"), ("whole", "D"): ("CUFFT_Z2Z", "D"),
    ("half", "f"): ("CUFFT_R2C", "F"), ("half", "d"): ("CUFFT_D2Z", "D"),
    ("back", "F"): ("CUFFT_C2R", "f"), ("back", "D"): ("CUFFT_Z2D", "d"),
}  # fmt: skip


class KeptTransforms(threading.local):
    """This thread's plans, the latest last."""

    def __init__(self) -> None:
        self.kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


_PLANS = KeptTransforms()


def _plan(xp: Any, kind: str, lengths: tuple[int, ...], columns: int, batch: int) -> Any:
    """A plan for some dimensions of rows; of `columns` that lie beside each other, if not 1."""
    key = xp.cuda.runtime.getDevice(), xp.cuda.get_current_stream().ptr, kind, lengths, columns
    plan = _PLANS.kept.get((*key, batch))
    if plan is not None:
        _PLANS.kept.move_to_end((*key, batch))
        return plan
    cufft = beside_cupy(xp, "cupy.cuda").cufft
    inner: tuple[tuple[int] | None, int, int] = None, 1, 1
    outer = inner
    if columns > 1:  # each next element is a row further
        (n,) = lengths
        half = n // 2 + 1
        inner = (half if kind in ("CUFFT_C2R", "CUFFT_Z2D") else n,), columns, 1
        outer = (half if kind in ("CUFFT_R2C", "CUFFT_D2Z") else n,), columns, 1
    plan = cufft.PlanNd(lengths, *inner, *outer, getattr(cufft, kind), batch, "C", 0, None)
    _PLANS.kept[(*key, batch)] = plan
    if len(_PLANS.kept) > KEPT:
        _PLANS.kept.popitem(last=False)
    return plan


def transformed(
    xp: Any,
    x: Array,
    way: str,
    dims: tuple[int, ...],
    *,
    last: int = 0,
    inverse: bool = False,
    norm: str = "backward",
) -> Array | None:
    """A transform in rows; None of what one plan does not do.

    `way`: "whole" of complex numbers, "half" of reals, whose last dimension of `dims` keeps half
    the frequencies, "back" from there to `last` reals.
    """
    found = TYPES.get((way, x.dtype.char))
    ordered = tuple(sorted(dims)) if way == "whole" else tuple(dims)
    first, rank = ordered[0], x.ndim
    ends = ordered == tuple(range(first, rank)) and len(dims) <= RANKS
    starts = ordered == (0,)
    if found is None or not (ends or starts) or x.size >= MOST or not x.size:
        return None
    kind, letter = found
    shape = list(x.shape)
    lengths = [shape[d] for d in ordered]
    if way == "half":
        shape[ordered[-1]] = shape[ordered[-1]] // 2 + 1
    elif way == "back":
        shape[ordered[-1]] = lengths[-1] = last
        x = x.copy()  # which is written to
    if prod(shape) >= MOST:
        return None
    if not x.flags.c_contiguous:
        x = xp.ascontiguousarray(x)
    if x.data.ptr % ALIGNED:
        x = x.copy()
    columns = 1 if ends else prod(shape[1:])
    batch = prod(shape[:first]) if ends else columns
    out = xp.ndarray(tuple(shape), np.dtype(letter))
    _plan(xp, kind, tuple(lengths), columns, batch).fft(x, out, 1 if inverse else -1)
    inverse = inverse or way == "back"
    if norm == "ortho" or norm == ("backward" if inverse else "forward"):
        count = prod(lengths)
        out *= out.real.dtype.type(count**-0.5 if norm == "ortho" else 1 / count)
    return out
