"""Making, reading and writing array buffers: what the tensor layer asks of the backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import DTYPE_OF, NUMPY_OF
from adjoint.core import dtype as dt
from adjoint.core.record import HOOKS, is_tensor
from adjoint.tensor.tensor import Tensor, wrap

Array = Any


def copy_into(target: Array, source: Array) -> None:
    """Overwrite an array's elements."""
    np.copyto(target, source, casting="unsafe")


def check_overlap(array: Array) -> None:
    """Refuse to write where one location shows more than once."""
    if 0 in array.strides and any(
        s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )


def offset_in(array: Array, buffer: Array) -> int:
    """The position of an array's first element in its storage, in elements."""
    start = array.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
    return int(start // array.dtype.itemsize)


def index_tensor(values: Any, device: Any) -> Tensor:
    """A list used as an index, as a tensor."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    return wrap(array)


def scalar_like(value: Any, like: Tensor) -> Tensor:
    """A Python value as a tensor of `like`'s dtype."""
    array = np.asarray(value._array if is_tensor(value) else value)
    return wrap(array.astype(NUMPY_OF[like.dtype]))


def from_data(data: Any, dtype: dt.DType | None) -> Tensor:
    """A new tensor holding a copy of nested sequences or an array."""
    array = np.array(data)
    if dtype is None:
        dtype = dt.get_default_dtype() if array.dtype == np.float64 and not isinstance(data, np.ndarray) else DTYPE_OF[array.dtype]
    return wrap(array.astype(NUMPY_OF[dtype]))


class Buffers:
    """The backend's face to the tensor layer (`HOOKS.array`)."""

    copy_into = staticmethod(copy_into)
    check_overlap = staticmethod(check_overlap)
    offset_in = staticmethod(offset_in)
    index_tensor = staticmethod(index_tensor)
    scalar_like = staticmethod(scalar_like)
    wrap = staticmethod(wrap)


HOOKS.array = Buffers
