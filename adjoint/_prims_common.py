"""Questions about tensors' memory, under the names that libraries use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.dtype import DType, bfloat16, complex32, complex64, float16, float32
from adjoint.engine.core.layout import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
)
from adjoint.engine.core.spec import contiguous_strides, wrap_dim
from adjoint.engine.tensor.tensor import Tensor

_COMPUTED_IN = {float16: float32, bfloat16: float32, complex32: complex64}


def is_contiguous_or_false(a: Tensor, memory_format: MemoryFormat = contiguous_format) -> bool:
    """Whether a tensor's elements lie without gaps in such an order; that is always known."""
    return a.is_contiguous(memory_format=memory_format)


def suggest_memory_format(x: Tensor) -> MemoryFormat:
    """The memory format a tensor has."""
    for memory_format, rank in ((channels_last, 4), (channels_last_3d, 5)):
        if x.ndim != rank or x.is_contiguous():
            continue
        if x.is_contiguous(memory_format=memory_format):
            return memory_format
    return contiguous_format


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """Strides of a tensor without gaps; in columns of the last two dimensions if asked."""
    if row_major or len(shape) < 2:
        return contiguous_strides(tuple(shape))
    *outer, rows, columns = shape
    swapped = contiguous_strides((*outer, columns, rows))
    return (*swapped[:-2], swapped[-1], swapped[-2])


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """Dimensions counted from the front."""
    least = max(rank, 1) if wrap_scalar else rank
    if isinstance(indices, int):
        return wrap_dim("canonicalize_dims", indices, least)
    return tuple(wrap_dim("canonicalize_dims", index, least) for index in indices)


def get_computation_dtype(dtype: DType) -> DType:
    """The dtype in which halves are computed."""
    return _COMPUTED_IN.get(dtype, dtype)
