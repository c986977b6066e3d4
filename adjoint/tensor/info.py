"""Asking a tensor about itself: sizes, strides, layout, flags."""

from __future__ import annotations

from typing import Any

from adjoint.core.layout import contiguous_format, has_format
from adjoint.core.public import method
from adjoint.core.record import HOOKS
from adjoint.core.spec import Size, contiguous_strides, wrap_dim
from adjoint.tensor.storage import Window
from adjoint.tensor.tensor import Tensor


@method(aliases=("nelement",))
def numel(self: Tensor) -> int:
    """The number of elements."""
    return int(self._array.size)


@method(aliases=("ndimension",))
def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self.ndim


@method
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    if dim is None:
        return Size(self._array.shape)
    return self._array.shape[wrap_dim("size", dim, self.ndim)]


@method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether elements lie in row-major order without gaps."""
    array = self._array
    if memory_format is not None and memory_format is not contiguous_format:
        return has_format(tuple(array.shape), self.stride(), memory_format)
    if type(array) is not Window:
        return bool(array.flags.c_contiguous)
    expected = contiguous_strides(array.shape)
    return array.size == 0 or all(
        s == e or n == 1 for s, e, n in zip(array.strides, expected, array.shape, strict=True)
    )


@method
def storage_offset(self: Tensor) -> int:
    """The position of the first element in the storage, in elements."""
    array = self._array
    if type(array) is Window:
        return int(array.offset)
    return HOOKS.array.offset_in(array, self._storage.buffer)
