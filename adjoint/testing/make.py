"""Tensors of random elements for tests."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.random.random import randint
from adjoint.engine.tensor.tensor import Tensor


def _bounds(dtype: dt.DType, low: float | None, high: float | None) -> tuple[float, float]:
    if dtype is dt.bool_:
        usual = (0, 2)
    elif dtype is dt.uint8:
        usual = (0, 10)
    else:
        usual = (-9, 10) if not dtype.is_inexact else (-9, 9)
    bounds = usual[0] if low is None else low, usual[1] if high is None else high
    if bounds[0] > bounds[1]:
        raise ValueError(f"make_tensor: low must not be above high, received {bounds}")
    return bounds


def make_tensor(
    *shape: Any,
    dtype: dt.DType,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of uniformly distributed elements between `low` and `high`.

    Args:
        shape: its sizes.
        dtype: its dtype.
        device: where it is.
        low: the smallest value; -9, or 0 for bool and uint8, unless given.
        high: above the largest value; 9, 10 or 2 unless given.
        requires_grad: whether gradients are wanted.
        noncontiguous: give a tensor with gaps in memory.
        exclude_zero: replace zeros by the smallest positive number.
        memory_format: its order in memory.

    Example:
        >>> import adjoint as ad
        >>> make_tensor(2, 3, dtype=ad.int64, low=0, high=5).shape
        adjoint.Size([2, 3])
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    below, above = _bounds(dtype, low, high)
    sizes = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype.is_complex:
        part = dt.float64 if dtype is dt.complex128 else dt.float32
        out = empty(*sizes, 2, dtype=part, device=device).uniform_(below, above)
        out = out[..., 0] + 1j * out[..., 1]
    elif dtype.is_floating_point:
        wide = empty(*sizes, dtype=dt.float32, device=device).uniform_(below, above)
        out = wide.to(dtype)
    else:
        out = randint(int(below), max(int(above), int(below) + 1), sizes, device=device).to(dtype)
    if noncontiguous and shape:
        out = out[..., ::2]
    if exclude_zero:
        out[out == 0] = 1 if not dtype.is_inexact else dt_smallest(dtype)
    if memory_format is not None:
        out = out.contiguous(memory_format=memory_format)
    return out.requires_grad_(requires_grad) if requires_grad else out


def dt_smallest(dtype: dt.DType) -> float:
    """The smallest normal number of a dtype."""
    from adjoint.engine.core.numeric_limits import finfo

    return float(finfo(dtype).tiny)
