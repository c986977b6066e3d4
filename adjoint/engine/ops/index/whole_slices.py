"""Whole slices and flat positions: index_select and its kin, take and put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.elementwise.condition import fitting
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.index.gather import as_given, at_least_1d, plain_slices
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT, require_index, same_dtype
from adjoint.engine.ops.index.scatter import check_slices, full_like
from adjoint.engine.ops.shape.convert import lying_as

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


@public(method=True, out=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` along `dim` that `index` names.

    >>> import adjoint as ad
    >>> ad.tensor([[1, 2, 3], [4, 5, 6]]).index_select(1, ad.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    plain = plain_slices(input, dim, index)
    if plain is not None:
        return INDEX(input, index, dims=(plain,), wrap=False)
    d = wrap_dim("index_select", dim, input.ndim)
    picks = require_index("index_select", index)
    if index.ndim > 1:
        raise ShapeIndexError(
            f"index_select: index is supposed to be a vector, received {index.ndim}-d"
        )
    if not input.ndim and index.numel() != 1:
        raise ShapeError(
            f"index_select: index to a 0-d tensor must have 1 element, received {index.numel()}"
        )
    out = INDEX(at_least_1d(input), at_least_1d(picks), dims=(d,), wrap=False)
    return out if input.ndim else out.reshape(())


@public(method=True, inplace=True, out=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with each slice of `source`, times `alpha`, added to the slice its index names."""
    plain = plain_slices(input, dim, index, source) if alpha.__class__ is int else None
    if plain is not None and alpha == 1:
        return INDEX_PUT(input, source, index, dims=(plain,), accumulate=True, wrap=False)
    d, picks, y = check_slices("index_add", input, dim, index, source)
    if (input.ndim == 0) != (source.ndim == 0):
        raise ShapeError(
            "index_add: source must have as many dimensions as self, received shapes "
            f"{list(source.shape)} and {list(input.shape)}"
        )
    alpha = checked_scalar("index_add", alpha, input.dtype)
    if alpha.__class__ is float and not (input.dtype.is_inexact or input.dtype is bool_):
        alpha = int(alpha)  # as PyTorch does: a half is nothing
    if alpha != 1:
        y = (y * alpha).to(input.dtype)
    x = at_least_1d(input)
    out = INDEX_PUT(x, y, picks, dims=(d,), accumulate=True, wrap=False)
    return as_given(out, input)


@public(method=True, inplace=True, out=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices `index` names replaced by those of `source`."""
    plain = plain_slices(input, dim, index, source)
    if plain is not None:
        return INDEX_PUT(input, source, index, dims=(plain,), accumulate=False, wrap=False)
    d, picks, y = check_slices("index_copy", input, dim, index, source, int64)
    x = at_least_1d(input)
    out = INDEX_PUT(x, y, picks, dims=(d,), accumulate=False, wrap=False)
    return as_given(out, input)


@public(method=True, inplace=True, numbers="values")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with the slices `index` names filled by `value`."""
    d = wrap_dim("index_fill", dim, input.ndim)
    picks = at_least_1d(require_index("index_fill", index, int64, error=IndexError))
    if picks.ndim > 1:
        raise ShapeError("index_fill: index has to be a vector or a scalar")
    if is_tensor(value):
        if value.ndim:
            raise ShapeError(
                "index_fill: only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)"
            )
        filler = fitting("index_fill", value, input.dtype)
    else:
        if isinstance(value, complex) and not input.dtype.is_complex:
            raise DTypeError(
                "index_fill: converting complex Scalar to non-complex type is not supported"
            )
        filler = full_like(input, (), checked_scalar("index_fill", value, input.dtype))
    # By a mask rather than a put: an index that appears twice still fills, and counts in the
    # gradient of the value, once.
    x = at_least_1d(input)
    size = x.shape[d]
    none = full((size,), False, dtype=bool_, device=input.device)
    if input._array.__class__ is ndarray and input.requires_grad:  # off the tape that is one call
        chosen = index_fill(none, 0, picks, True)
    else:
        every = full(tuple(picks.shape), True, dtype=bool_, device=input.device)
        chosen = INDEX_PUT(none, every, picks, dims=(0,), accumulate=False)
    trailing = x.ndim - d - 1
    mask = chosen.reshape((size, *(1,) * trailing)) if trailing else chosen
    return as_given(WHERE(mask, filler, x), input)


@public(method=True, out=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions of the flattened input, in the shape of `index`."""
    picks = require_index("take", index, int64).contiguous()  # as what is taken lies, always
    if input.numel() == 0 and index.numel():
        raise ShapeIndexError("take: tried to take from an empty tensor")
    if _is_sooner_found(input, picks):
        return INDEX(input, *_coordinates(picks, input.shape), dims=tuple(range(input.ndim)))
    return INDEX(input.reshape(-1), picks, dims=(0,))


FEW_TAKEN = 8  # one of so many elements, and fewer, are found sooner than all are put in order


def _is_sooner_found(input: Tensor, picks: Tensor) -> bool:
    """Whether few elements of a tensor are taken that would have to be copied."""
    if input.device.type != "cpu" or CONTEXT.levels or input.is_contiguous():
        return False
    sizes = (*input.shape, *picks.shape)  # one that is open may be anything
    return all(type(n) is int for n in sizes) and FEW_TAKEN * picks.numel() < input.numel()


def _coordinates(positions: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """Where elements at flat positions are; of one that counts from the end, the first does."""
    found: list[Tensor] = []
    for size in reversed(shape[1:]):
        found.append(positions % size)
        positions = positions.div(size, rounding_mode="floor")
    return [positions, *reversed(found)]


@public(method=True, inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `source` put (or added) at positions of the flattened input."""
    picks = require_index("put", index, int64).reshape(-1)
    same_dtype("put", input, source)
    if source.numel() != index.numel():
        raise ShapeIndexError(
            "put: expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    if input.numel() == 0 and index.numel():
        raise ShapeIndexError("put: tried to put elements into an empty tensor")
    flat, values = input.reshape(-1), source.reshape(-1)
    out = INDEX_PUT(flat, values, picks, dims=(0,), accumulate=accumulate)
    return lying_as(input, out.reshape(input.shape))
