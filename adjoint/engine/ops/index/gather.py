"""Picking and placing along one dimension, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import dtype, ndarray

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec, broadcast_shapes, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.elementwise.records import WHERE
from adjoint.engine.ops.index.index import require_index

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

INT64 = dtype("int64")


def shift_dim(params: dict[str, Any], size: int) -> dict[str, Any]:
    """The same operation along `dim` with a batch in front."""
    return {**params, "dim": params["dim"] + 1}


# GATHER(x, index, dim)[i, j] = x[index[i, j], j] for dim 0; index is no larger than x elsewhere.
# `classes_of`: the loss whose classes the indices are, for the error when there is no such class.
GATHER: Record = linear(
    "gather",
    lambda x, index, dim, classes_of="": Spec(index.shape, x.dtype, x.device),
    lambda g, x_spec, index, dim, classes_of="": SCATTER(
        g.new_zeros(x_spec.shape), g, index, dim=dim, accumulate=True, classes_of=classes_of
    ),
    None,
    operands=("x", "index"),
    batched_params=shift_dim,
    native_check=True,
    rounding="exact",
    fragment="composed",
    fills_zeros=True,
    in_steps=True,
    selects=True,
    indexed="read",
)


def _scatter_self(g: Tensor, index: Tensor, dim: int, accumulate: bool, y_spec: Spec) -> Tensor:
    if accumulate:
        return g
    return SCATTER(g, g.new_zeros(y_spec.shape), index, dim=dim, accumulate=False)


# SCATTER(x, y, index, dim, accumulate): x with y, of index's shape, put or added where GATHER
# would look.
SCATTER: Record = linear(
    "scatter",
    lambda x, y, index, dim, accumulate, classes_of="": x,
    _scatter_self,
    lambda g, index, dim: GATHER(g, index, dim=dim),
    None,
    operands=("x", "y", "index"),
    batched_params=shift_dim,
    native_check=True,
    rounding="exact",
    fails="values",
    fragment="computed",
    in_steps=True,
    indexed="written",
)


def at_least_1d(x: Tensor) -> Tensor:
    """A 0-d tensor as a vector of one, which is how indexing along a dimension sees it."""
    return x if x.ndim else x.reshape(1)


def as_given(out: Tensor, input: Tensor) -> Tensor:
    """A result for `at_least_1d(input)` with the dimensions of `input`."""
    return out if input.ndim else out.reshape(())


def plain_dim(input: Any, dim: Any, index: Any, source: Any = None) -> int | None:
    """The dimension along which an index goes that fits without a doubt; None: it is looked at.

    All are NumPy's arrays, of one rank, and a source is of the index's shape and the input's dtype.
    """
    a, i = getattr(input, "_array", None), getattr(index, "_array", None)
    if a.__class__ is not ndarray or i.__class__ is not ndarray or dim.__class__ is not int:
        return None
    shape, rank = i.shape, i.ndim
    if not i.size or a.ndim != rank or not -rank <= dim < rank or i.dtype != INT64:
        return None
    if source is not None:
        y = getattr(source, "_array", None)
        if y.__class__ is not ndarray or y.shape != shape or y.dtype is not a.dtype:
            return None
    dim %= rank
    if shape != a.shape:
        for d, (have, limit) in enumerate(zip(shape, a.shape, strict=True)):
            if d != dim and have > limit:
                return None
    return dim


def plain_slices(input: Any, dim: Any, index: Any, source: Any = None) -> int | None:
    """The same of a vector that names slices, of which a source has one for each."""
    a, i = getattr(input, "_array", None), getattr(index, "_array", None)
    if a.__class__ is not ndarray or i.__class__ is not ndarray or dim.__class__ is not int:
        return None
    if i.ndim != 1 or not i.size or i.dtype != INT64 or not -a.ndim <= dim < a.ndim:
        return None
    dim %= a.ndim
    if source is not None:
        y = getattr(source, "_array", None)
        if y.__class__ is not ndarray or y.dtype is not a.dtype:
            return None
        if y.shape != (*a.shape[:dim], i.shape[0], *a.shape[dim + 1 :]):
            return None
    return dim


def check_index_shape(name: str, x: Tensor, index: Tensor, dim: int) -> None:
    """Refuse an index of another rank, or larger than x outside `dim`."""
    if index.ndim != x.ndim:
        raise ShapeError(
            f"{name}: index tensor must have the same number of dimensions as input tensor, "
            f"received {index.ndim} and {x.ndim}"
        )
    for d, (have, limit) in enumerate(zip(index.shape, x.shape, strict=True)):
        if d != dim and have > limit:
            raise ShapeError(
                f"{name}: size does not match at dimension {d}: expected index "
                f"{list(index.shape)} to be no larger than self {list(x.shape)} apart from "
                f"dimension {dim}"
            )


@public(method=True, out=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The elements of `input` at `index` along `dim`.

    >>> import adjoint as ad
    >>> ad.tensor([[1, 2], [3, 4]]).gather(1, ad.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    plain = plain_dim(input, dim, index)
    if plain is not None:
        return GATHER(input, index, dim=plain)
    d = wrap_dim("gather", dim, input.ndim)
    if 0 in index.shape:  # of any dtype and rank
        return input.reshape(-1)[:0].reshape(index.shape)
    picks = require_index("gather", index)
    x, picks = at_least_1d(input), at_least_1d(picks)
    check_index_shape("gather", x, picks, d)
    out = GATHER(x, picks, dim=d)
    return out if index.ndim else out.reshape(())


@public(method=True, out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather`, with `input` and `indices` broadcast against each other outside `dim`.

    Negative indices count from the end.

    Example:
        >>> import adjoint as ad
        >>> x = ad.tensor([[3, 1, 2]])
        >>> x.take_along_dim(x.argsort(1), 1)
        tensor([[1, 2, 3]])
    """
    picks = require_index("take_along_dim", indices, int64)
    if dim is None:
        return gather(input.reshape(-1), 0, _from_start(picks.reshape(-1), input.numel()))
    if input.ndim != indices.ndim:
        raise ShapeError(
            "take_along_dim: input and indices should have the same number of dimensions, but "
            f"got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = wrap_dim("take_along_dim", dim, input.ndim)
    if not input.ndim:
        return gather(input, d, _from_start(picks, 1))

    def without(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:d], 1, *shape[d + 1 :])

    common = broadcast_shapes("take_along_dim", without(input.shape), without(indices.shape))
    x, size = input, input.shape[d]
    recorded = not CONTEXT.plain  # which shows both, whatever their sizes
    if recorded or without(input.shape) != common:
        x = input.expand((*common[:d], size, *common[d + 1 :]))
    if recorded or without(indices.shape) != common:
        picks = picks.expand((*common[:d], indices.shape[d], *common[d + 1 :]))
    return gather(x, d, _from_start(picks, size))


def _from_start(index: Tensor, size: int) -> Tensor:
    """An index in which negative numbers, counting from the end, are made positive."""
    array = index._array
    looked_at = array.__class__ is ndarray and array.size and CONTEXT.plain and not LISTENERS
    if looked_at and array.min() >= 0:
        return index
    return WHERE(index < 0, index + size, index)
