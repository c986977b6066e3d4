"""Where elements are not zero, and selecting by a mask.

How many there are depends on values, so these cannot be batched or captured; their errors name a
form that can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import (
    arange,
    array,
    ascontiguousarray,
    count_nonzero,
    empty,
    flatnonzero,
    indices,
    ndarray,
    repeat,
    subtract,
)
from numpy import int64 as numpy_int64

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.errors import DTypeError, DTypeTypeError
from adjoint.engine.core.operations.families import depends_on_values, primitive, sized_by_values
from adjoint.engine.core.operations.met_calls import may_be_small
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.result_layouts import lie_in_order
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.common.arguments import need_tensor
from adjoint.engine.ops.elementwise.comparison import FEW
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


MANY, LONG = 1 << 13, 16  # elements, and those of a line, from which on lines are counted first
_refuse = depends_on_values(
    "nonzero (also boolean indexing x[mask] and masked_select)",
    "Use where(mask, x, 0), x[mask] = value, or nonzero_static with a fixed size.",
)
# NONZERO(x): one row of coordinates per element that is not zero, in row-major order.
NONZERO: Record = primitive(
    "nonzero",
    sized_by_values(_refuse, lambda size, x: Spec((size(), x.ndim), int64, x.device)),
    None,
    batch=_refuse,
    native_check=True,
)
NONZERO_STATIC: Record = primitive(
    "nonzero_static",
    lambda x, size, fill_value: Spec((size, x.ndim), int64, x.device),
    None,
)
# MASK_RANK(mask, leading, limit): how many True precede each element, counted anew for each place
# in the `leading` dimensions; it stops at limit - 1, and more than `limit` True are an error.
MASK_RANK: Record = primitive(
    "mask_rank",
    lambda x, leading, limit: Spec(x.shape, int64, x.device),
    None,
    batched_params=lambda params, size: {**params, "leading": params["leading"] + 1},
    fragment="device",
)


def coordinates(x: Any) -> Any:
    """The rows of `NONZERO` of an array of NumPy's: a column lies in one piece, as in PyTorch.

    NumPy finds truths in one line four times as fast as elements of several dimensions: so those
    before the last are told by how many there are in each line.
    """
    if x.ndim < 2 or x.size < MANY or x.shape[-1] < LONG:
        return array(x.nonzero(), numpy_int64).T
    lines = (x if x.dtype == bool else x != 0).reshape(-1, x.shape[-1])
    counts = count_nonzero(lines, axis=1)
    line = repeat(arange(len(lines)), counts)
    out = empty((x.ndim, len(line)), numpy_int64)
    subtract(flatnonzero(lines), line * x.shape[-1], out=out[-1])
    if x.ndim == 2:
        out[0] = line
    else:
        for row, places in zip(out[:-1], indices(x.shape[:-1]), strict=True):
            row[:] = repeat(places.reshape(-1), counts)
    return out.T


def is_found_at_once(x: Tensor) -> bool:
    """Whether a tensor has so few elements that looking for others who care takes longest."""
    elements = x._array
    few = elements.__class__ is ndarray and elements.ndim and elements.size <= FEW
    return bool(few) and may_be_small(x)


def nonzero_rows(x: Tensor) -> Any:
    """`NONZERO`; of a constant (a mask written as a list) also while a function is recorded."""
    if is_found_at_once(x):
        return HOOKS.array.wrap(coordinates(x._array))
    capture = CONTEXT.capture
    known = None if capture is None or x._storage.level is not None else capture.known(x)
    if capture is None or known is None:
        return NONZERO(x)
    with CONTEXT.having(capture=None, grad_enabled=False):
        rows = NONZERO(HOOKS.array.wrap(known))
    return capture.constant(rows)


@public(method=True, out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The coordinates of elements that are not zero: rows, or one tensor per dimension.

    >>> import adjoint as ad
    >>> ad.tensor([[0, 3], [4, 0]]).nonzero()
    tensor([[0, 1],
            [1, 0]])
    """
    need_tensor("nonzero", input)
    if not as_tuple:
        return nonzero_rows(input)
    if is_found_at_once(input):
        return tuple([HOOKS.array.wrap(places.copy()) for places in input._array.nonzero()])
    rows = nonzero_rows(input if input.ndim else input.reshape(1))
    return tuple(rows.unbind(1))


@public(method=True)
def argwhere(input: Tensor) -> Tensor:
    """The coordinates of elements that are not zero, one row each."""
    need_tensor("argwhere", input)
    return nonzero_rows(input)


@public(method=True, out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` cut or padded with `fill_value` to exactly `size` rows."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    return NONZERO_STATIC(input, size=size, fill_value=fill_value)


def chosen_by(x: Tensor, mask: Tensor) -> Tensor | None:
    """What `NONZERO` and `INDEX` select, without the way there; None where somebody looks on.

    The mask covers the first dimensions.
    """
    elements, mask_array = x._array, mask._array
    if elements.__class__ is not ndarray or mask_array.__class__ is not ndarray:
        return _chosen_there(x, mask)
    covered = mask_array.ndim
    if elements.size > FEW or not covered or not may_be_small(x):
        return None
    if CONTEXT.grad_enabled and x.requires_grad:  # one node, where a flat view would be another
        places = [HOOKS.array.wrap(place.copy()) for place in mask_array.nonzero()]
        return INDEX(x, *places, dims=tuple(range(covered)))
    if not lie_in_order(elements.shape[covered:], elements.strides[covered:]):
        return None  # what is chosen lies otherwise, too
    return HOOKS.array.wrap(ascontiguousarray(elements[mask_array]))


def _chosen_there(x: Tensor, mask: Tensor) -> Tensor | None:
    """The same on a GPU, of a mask for each element."""
    if not CONTEXT.plain or LISTENERS or OVERRIDES.active or STREAM_CAPTURE.graph is not None:
        return None
    if CONTEXT.grad_enabled and x.requires_grad:
        return None
    found = HOOKS.array.chosen_there(x._array, mask._array)
    return None if found is None else HOOKS.array.wrap(found)


def require_mask(name: str, mask: Tensor) -> None:
    """Refuse a mask that is not boolean."""
    if mask.dtype is not bool_:
        raise DTypeError(
            f"{name}: expected BoolTensor for mask, received {mask.dtype.name}. Use mask != 0."
        )


@public(method=True, out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector; the two broadcast together.

    Example:
        >>> import adjoint as ad
        >>> x = ad.tensor([1, -2, 3])
        >>> x.masked_select(x > 0)
        tensor([1, 3])
    """
    require_mask("masked_select", mask)
    chosen = chosen_by(input, mask) if input._array.shape == mask._array.shape else None
    if chosen is not None:
        return chosen
    shape = broadcast_shapes("masked_select", tuple(input.shape), tuple(mask.shape))
    positions = NONZERO(mask.expand(shape).reshape(-1)).reshape(-1)
    return INDEX(input.expand(shape).reshape(-1), positions, dims=(0,))


def spread(mask: Tensor, source: Tensor, dim: int) -> Tensor:
    """Slices of `source` along `dim`, in order, where `mask` holds; anything elsewhere.

    The dimensions of the mask take the place of `dim`.
    """
    return INDEX(source, MASK_RANK(mask, leading=0, limit=source.shape[dim]), dims=(dim,))


def _is_plain(input: Tensor, mask: Tensor, source: Tensor) -> bool:
    """Whether elements may be put into a copy: nobody looks on, and there are enough of them."""
    arrays = input._array, mask._array, source._array
    if not CONTEXT.plain or any(a.__class__ is not ndarray for a in arrays):
        return False
    if CONTEXT.grad_enabled and (input.requires_grad or source.requires_grad):
        return False
    if arrays[0].shape != arrays[1].shape or not arrays[0].flags.c_contiguous:
        return False
    return bool(arrays[2].size and count_nonzero(arrays[1]) <= arrays[2].size)


@public(method=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements where `mask` holds replaced, in order, by those of `source`."""
    require_mask("masked_scatter", mask)
    if source.dtype is not input.dtype:
        raise DTypeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype.name} and {source.dtype.name}"
        )
    if _is_plain(input, mask, source):
        return input.clone().masked_scatter_(mask, source)
    shape = broadcast_shapes("masked_scatter", tuple(input.shape), tuple(mask.shape))
    x, widened = input.expand(shape), mask.expand(shape)
    if x.numel() == 0 or source.numel() == 0:  # nothing to read where the mask does not hold
        MASK_RANK(widened, leading=0, limit=source.numel())
        none_of_it = source.reshape(-1).narrow(0, 0, 0)  # the source's derivative is zero, not none
        return cat([x.reshape(-1), none_of_it]).reshape(shape)
    return WHERE(widened, spread(widened, source.reshape(-1), 0), x).contiguous()


@public()
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of `shape`, of flat positions.

    >>> import adjoint as ad
    >>> ad.unravel_index(ad.tensor([5, 7]), (2, 4))
    (tensor([1, 1]), tensor([1, 3]))
    """
    if indices.dtype.is_inexact or indices.dtype is bool_:
        raise DTypeTypeError(
            f"unravel_index: expected 'indices' to be integer dtype, but got {indices.dtype!r}"
        )
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(
            f"unravel_index: expected 'shape' to be int or sequence of ints, received {shape!r}"
        )
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(not isinstance(n, int) for n in sizes):
        raise TypeError(f"unravel_index: expected 'shape' to be ints, received {shape!r}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, received {shape!r}")
    coordinates = []
    left = indices.to(int64)
    for n in reversed(sizes):
        coordinates.append(left % n)
        left = left.div(n, rounding_mode="floor")
    return tuple(reversed(coordinates))
