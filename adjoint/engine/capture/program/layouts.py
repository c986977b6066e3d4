"""Results and gradients in the memory layout that eager execution gives them.

What runs a program gives row-major arrays. Where operands were not row-major, eager results may not
be either, which `stride()`, `view` and code that reads memory can see: where the recording knows it
(`tensor.strides.result_strides`), such a result is laid out anew. Gradients may also be windows on
larger memory, or show one element many times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.engine.tensor.tensor import Tensor


def permuted_strides(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor; None where they are row-major."""
    return unless_packed(tuple(tensor._array.shape), tuple(tensor.stride()))


def unless_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides; None where they are row-major.

    Of sizes that are symbols the formulas are compared: comparing the sizes would pin them.
    """
    packed = contiguous_strides(shape)
    return None if [*map(_formula, strides)] == [*map(_formula, packed)] else strides


def laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    """A host array with these strides, in elements; itself, if it has them.

    Where only dimensions of one element are to have others, it is seen anew, and not copied.
    """
    if type(array) is not np.ndarray or not array.size:
        return array
    steps = tuple([step * array.itemsize for step in strides])
    if array.strides == steps:
        return array
    if _matter(array.shape, array.strides) == _matter(array.shape, steps):
        return np.lib.stride_tricks.as_strided(array, array.shape, steps)
    span = 1 + sum((n - 1) * step for n, step in zip(array.shape, strides, strict=True))
    out = np.lib.stride_tricks.as_strided(np.empty(span, array.dtype), array.shape, steps)
    out[...] = array
    return out


def _matter(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The strides of dimensions that have any: one element alone may have whatever step."""
    return [step for size, step in zip(shape, strides, strict=True) if size != 1]


def _formula(step: Any) -> Any:
    return step.poly if isinstance(step, Extent) else step
