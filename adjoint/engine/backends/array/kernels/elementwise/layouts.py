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
Place = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides, bytes of an element


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
    arrays = [x for x in operands if getattr(x, "ndim", 0) > 1]
    places = tuple([(x.shape, x.strides, x.itemsize) for x in arrays])
    wanted, strides = _following(out.shape, out.itemsize, places)
    return out if out.strides == strides else laid_out(out, wanted)


@functools.lru_cache(maxsize=1 << 12)
def _following(
    shape: tuple[int, ...], itemsize: int, operands: tuple[Place, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The strides of a result that follow from its operands', in elements and in bytes.

    They are the same at every turn of a loop, and take longer to find than few elements to compute.
    """
    places = [(its, tuple([step // size for step in strides])) for its, strides, size in operands]
    alike = {steps for its, steps in places if its == shape}
    if len(alike) == 1 and all(its == shape for its, _ in places):
        (steps,) = alike
        wanted = format_strides("elementwise", shape, steps, preserve_format) or steps
    else:
        steps_of = [broadcast_strides(its, steps, len(shape)) for its, steps in places]
        wanted = merged_strides(shape, steps_of) or contiguous_strides(shape)
    return tuple(wanted), tuple([step * itemsize for step in wanted])
