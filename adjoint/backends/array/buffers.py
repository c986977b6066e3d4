"""Making, reading and writing array buffers: what the tensor layer asks of the backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.core import dtype as dt
from adjoint.core.public import method, public
from adjoint.core.record import HOOKS, is_tensor
from adjoint.tensor.tensor import DTYPE_OF, Tensor, wrap

Array = Any


def copy_into(target: Array, source: Array) -> None:
    """Overwrite an array's elements."""
    np.copyto(target, source, casting="unsafe")


def check_overlap(array: Array) -> None:
    """Refuse to write where one location shows more than once."""
    if (
        array.size
        and 0 in array.strides
        and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
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


@public()
def tensor(
    data: Any,
    *,
    dtype: dt.DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor holding a copy of `data`.

    >>> import adjoint as ad
    >>> ad.tensor([1, 2]).dtype
    adjoint.int64
    """
    array = np.array(data)
    if dtype is None:
        dtype = (
            dt.get_default_dtype()
            if array.dtype == np.float64 and not isinstance(data, np.ndarray)
            else DTYPE_OF[array.dtype]
        )
    out = wrap(array.astype(NUMPY_OF[dtype]))
    return out.requires_grad_() if requires_grad else out


@public()
def from_numpy(array: Array) -> Tensor:
    """A tensor sharing memory with a NumPy array."""
    return wrap(array)


@method
def numpy(self: Tensor) -> Array:
    """The elements as a NumPy array sharing memory."""
    return self._array


@method
def cpu(self: Tensor) -> Tensor:
    """On the CPU."""
    return self.to("cpu")


class Buffers:
    """The backend's face to the tensor layer (`HOOKS.array`)."""

    copy_into = staticmethod(copy_into)
    check_overlap = staticmethod(check_overlap)
    offset_in = staticmethod(offset_in)
    index_tensor = staticmethod(index_tensor)
    scalar_like = staticmethod(scalar_like)
    wrap = staticmethod(wrap)


HOOKS.array = Buffers
