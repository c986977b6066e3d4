"""Kernels that make tensors from nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import FLOAT8, NUMPY_OF
from adjoint.engine.backends.array.kernels.create.fused import fused_multiply_add
from adjoint.engine.backends.array.memory.filling import fill
from adjoint.engine.backends.array.memory.strides import allocate
from adjoint.engine.backends.array.table import lowers, on_device
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create import creation, ranges

Array = Any
Shape = tuple[int, ...]


@lowers(creation.FULL)
def full(
    xp: Any, value: Any, shape: Shape, dtype: DType, device: Any, strides: Shape | None = None
) -> Array:
    if hasattr(value, "get"):  # a HostScalar
        value = value.get()
    if on_device(xp) and NUMPY_OF[dtype] in FLOAT8:
        filled = full(np, value, shape, dtype, device, strides)
        return xp.asarray(filled.view(FLOAT8[filled.dtype]))
    if strides is None and value == 0 and not any(np.asarray(value).tobytes()):  # not -0.0
        return xp.zeros(shape, NUMPY_OF[dtype])
    if isinstance(value, int) and not dtype.is_inexact:  # -1 in uint8 wraps around to 255
        value = np.asarray(value).astype(NUMPY_OF[dtype])[()]
    out = allocate(xp, shape, NUMPY_OF[dtype], strides)
    if xp is np:
        fill(out, value)
    else:
        out[...] = value
    return out


@lowers(creation.EMPTY)
def empty(xp: Any, *, shape: Shape, dtype: DType, device: Any, strides: Shape | None) -> Array:
    kind = NUMPY_OF[dtype]
    return allocate(xp, shape, FLOAT8.get(kind, kind) if on_device(xp) else kind, strides)


def _arithmetic(dtype: DType) -> np.dtype[Any]:
    """The dtype sequences are computed in: double for all but halves, as PyTorch does on CPU."""
    if dtype.is_complex:
        return np.dtype(np.complex128)
    return np.dtype(np.float32 if dtype.is_half else np.float64)


@cache
def _stepping(xp: Any, wide: str) -> Any:
    """Numbers at equal steps in one launch, product and sum rounded as they are on the CPU."""
    kind = {"int64": "long long", "float32": "float", "float64": "double"}[wide]
    return xp.ElementwiseKernel(
        f"{wide} start, {wide} step", "T out", f"out = T(start + step * ({kind})i);",
        f"adjoint_stepping_{wide}", options=("--fmad=false",),
    )  # fmt: skip


@cache
def _spacing(xp: Any, own: str, up: str, down: str) -> Any:
    """The same from the nearer end, each made in double and rounded to `own`."""
    return xp.ElementwiseKernel(
        "float64 first, float64 last, float64 step, int64 count",
        "T out",
        f"""
        double index = double(i);
        out = T({own}(i < count / 2 || count == 1 ? {up} : {down}));
        """,
        "adjoint_spacing",
        options=("--fmad=false",),
    )


def _in_one_launch(xp: Any, dtype: DType) -> bool:
    return on_device(xp) and not dtype.is_complex and dtype.name != "bfloat16"


@lowers(creation.ARANGE)
def arange(xp: Any, *, start: Any, step: Any, length: int, dtype: DType, device: Any) -> Array:
    if _in_one_launch(xp, dtype):
        own = _arithmetic(dtype) if dtype.is_inexact else np.dtype(np.int64)
        first, by = (own.type(n if dtype.is_inexact else int(n)) for n in (start, step))
        return _stepping(xp, own.name)(first, by, xp.empty(length, NUMPY_OF[dtype]))
    kind = NUMPY_OF[dtype]
    if not dtype.is_inexact:
        first, by = int(start), int(step)
        ends = first, first + by * length
        if by and kind.kind in "iu" and all(n in _whole_numbers(kind) for n in ends):
            return xp.arange(*ends, by, dtype=kind)
        return (first + by * xp.arange(length)).astype(kind)
    wide = _arithmetic(dtype)
    out = xp.arange(length, dtype=wide)
    out *= wide.type(step)
    out += wide.type(start)
    return out.astype(kind, copy=False)


@cache
def _whole_numbers(kind: Any) -> range:
    """Those that a NumPy dtype has."""
    about = np.iinfo(kind)
    return range(int(about.min), int(about.max) + 1)


def _plain(xp: Any, step: Any, index: Array, start: Any) -> Array:
    return start + step * index


def _spaced(xp: Any, start: Any, end: Any, steps: int, dtype: DType) -> Array:
    """Evenly spaced numbers, counted from the nearer end so that both are exact."""
    first: Any
    last: Any
    kind = NUMPY_OF[dtype]
    if steps < 2:  # the end is not used, and may be anything
        start, end = (start if steps else 0), 0
    if dtype.is_inexact:
        own = np.dtype(np.float32) if dtype.is_half else kind
        first, last = (np.asarray(v).astype(kind).astype(own)[()] for v in (start, end))
    else:
        own = np.dtype(np.float64)
        # Negative ends of unsigned types count from the top, as where numbers are filled in.
        first, last = (np.float64(np.array(int(v)).astype(kind)) for v in (start, end))
    # NumPy scalars throughout: CuPy refuses NumPy arrays.
    step = own.type((last - first) / (steps - 1) if steps > 1 else 0)
    if dtype.is_half:
        step = own.type(step.astype(kind))
    # Product and sum are rounded once, as PyTorch's fused instruction does: of singles in double.
    wide = np.dtype(np.float64) if own == np.float32 else own
    first, last, step = (wide.type(v) for v in (first, last, step))
    if _in_one_launch(xp, dtype):
        steps_up, steps_down = "first + step * index", "last - step * (double(count - 1) - index)"
        if own == np.float64:
            steps_up = "fma(step, index, first)"
            steps_down = "fma(-step, double(count - 1) - index, last)"
        kernel = _spacing(xp, "float" if own == np.float32 else "double", steps_up, steps_down)
        return kernel(first, last, step, steps, xp.empty(steps, own))
    stepped = fused_multiply_add if own == np.float64 else _plain
    half = steps // 2 if steps > 1 else steps
    out = xp.empty(steps, own)
    out[:half] = stepped(xp, step, xp.arange(half, dtype=wide), first)
    out[half:] = stepped(xp, -step, xp.arange(steps - 1 - half, -1, -1, dtype=wide), last)
    return out


@lowers(ranges.LINSPACE)
def linspace(xp: Any, *, start: Any, end: Any, steps: int, dtype: DType, device: Any) -> Array:
    return _spaced(xp, start, end, steps, dtype).astype(NUMPY_OF[dtype])


@lowers(ranges.LOGSPACE)
def logspace(
    xp: Any, *, start: Any, end: Any, steps: int, base: Any, dtype: DType, device: Any
) -> Array:
    powers = _spaced(xp, start, end, steps, dtype)
    if steps == 1 and not dtype.is_inexact:  # the power that was asked for, not a whole one
        powers = xp.full(1, float(start))
    return xp.power(powers.dtype.type(base), powers).astype(NUMPY_OF[dtype])


@lowers(ranges.EYE)
def eye(xp: Any, *, n: int, m: int, dtype: DType, device: Any) -> Array:
    return xp.eye(n, m, dtype=NUMPY_OF[dtype])
