"""Results in the memory layout that eager execution gives them.

What runs a program gives row-major arrays. Where operands were not row-major, eager results may not
be either, which `stride()`, `view` and code that reads memory can see: where the recording knows it
(`tensor.strides.result_strides`), such a result is laid out anew. Composites and reductions of
such operands are row-major in eager execution, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.tensor.tensor import Tensor

_INTEGERS = frozenset({int})


def permuted_strides(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor; None where they are row-major, or sizes are not numbers yet."""
    shape, strides = tuple(tensor._array.shape), tuple(tensor._array.strides)
    if not _INTEGERS.issuperset(map(type, (*shape, *strides))):
        return None
    return None if _matter(shape, strides) == _matter(shape, contiguous_strides(shape)) else strides


def laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    """A host array with these strides, in elements; itself, if it has them."""
    if type(array) is not np.ndarray or not array.size:
        return array
    own_strides = tuple(step // array.itemsize for step in array.strides)
    if _matter(array.shape, own_strides) == _matter(array.shape, strides):
        return array
    order = sorted(range(array.ndim), key=lambda d: -strides[d])
    inverse = sorted(range(array.ndim), key=order.__getitem__)
    out = np.empty([array.shape[d] for d in order], array.dtype).transpose(inverse)
    out[...] = array
    return out


def _matter(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The strides of dimensions that have any: one element alone may have whatever step."""
    return [step for size, step in zip(shape, strides, strict=True) if size != 1]
