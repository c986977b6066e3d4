"""Results in the memory layout that follows from their operands'."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.core.layout import format_strides, preserve_format
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.tensor.strides import broadcast_strides, merged_strides

Array = Any


def as_operands(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """A kernel whose result lies as its operands do (`as_first`)."""

    @functools.wraps(kernel)
    def laid(xp: Any, *operands: Any, **params: Any) -> Array:
        return as_first(kernel(xp, *operands, **params), operands)

    return laid


def as_first(out: Array, operands: Sequence[Any]) -> Array:
    """A result as its operands lie in memory; where they differ, the first decides."""
    if out.ndim < 2:
        return out
    shape = tuple(out.shape)
    arrays = [x for x in operands if getattr(x, "ndim", 0) > 1]
    alike = {_steps(x) for x in arrays if x.shape == shape}
    if len(alike) == 1 and all(x.shape == shape for x in arrays):
        (steps,) = alike
        wanted = format_strides("elementwise", shape, steps, preserve_format) or steps
    else:
        steps_of = [broadcast_strides(x.shape, _steps(x), out.ndim) for x in arrays]
        wanted = merged_strides(shape, steps_of) or contiguous_strides(shape)
    return laid_out(out, wanted)


def _steps(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(step // array.itemsize for step in array.strides)
