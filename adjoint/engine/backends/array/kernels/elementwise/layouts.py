"""Results in the memory layout that follows from their operands'."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.memory.laying import with_strides
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.core.layout import elementwise_strides
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.tensor.tensor import unit_strides

Array = Any
Place = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides, bytes of an element
NUMBER: Place = ((), (), 1)


def as_operands(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """A kernel whose result lies as its operands do (`as_first`)."""

    @functools.wraps(kernel)
    def laid(xp: Any, *operands: Any, **params: Any) -> Array:
        return as_first(kernel(xp, *operands, **params), operands)

    return laid


def as_first(out: Array, operands: Sequence[Any]) -> Array:
    """A result as its operands lie in memory; where they differ, the first decides."""
    if out.ndim < 2 or not (out.__class__ is ndarray or out.__class__ in DEVICE_LAYOUTS):
        return out
    places = tuple([place_of(x) for x in operands])
    wanted, strides = _following(out.shape, out.itemsize, places)
    if out.strides == strides:
        return out
    return laid_out(out, wanted) if out.__class__ is ndarray else with_strides(cupy(), out, wanted)


def place_of(x: Any) -> Place:
    """Where an operand lies; numbers have no shape."""
    return (x.shape, x.strides, x.itemsize) if getattr(x, "shape", ()) else NUMBER


@functools.lru_cache(maxsize=1 << 12)
def _following(
    shape: tuple[int, ...], itemsize: int, operands: tuple[Place, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The strides of a result that follow from its operands', in elements and in bytes.

    They are the same at every turn of a loop, and take longer to find than few elements to compute.
    """
    places = [
        (its, unit_strides(its, tuple([step // size for step in strides])))
        for its, strides, size in operands
    ]
    wanted = elementwise_strides(shape, places)
    return wanted, tuple([step * itemsize for step in wanted])
