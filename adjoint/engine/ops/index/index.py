"""Indexing by tensors along several dimensions at once, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_, int32, int64, uint8
from adjoint.engine.core.errors import BoundsError, DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.result_layouts import block_position
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.convert import lying_as

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# INDEX(x, *indices, dims): indices[i] picks along dims[i]; they broadcast together. Indices are
# int64, in range or negative within range (wrap=False refuses negative ones). The picked block
# stands where the first of `dims` stood if `dims` are adjacent, else in front. The result lies as x
# does (`picked_places`); of whole slices, where negative ones are refused, row by row.
Dims = tuple[int, ...]


def selected_shape(shape: Sequence[int], picked: Sequence[Sequence[int]], dims: Dims) -> Dims:
    """The shape of what indices of shapes `picked` select along `dims`."""
    try:
        block = broadcast_shapes("index", *map(tuple, picked))
    except RuntimeError:
        raise ShapeIndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{', '.join(str(list(s)) for s in picked)}"
        ) from None
    rest = [n for d, n in enumerate(shape) if d not in dims]
    at = block_position(dims)
    return (*rest[:at], *block, *rest[at:])


def _index_infer(x: Spec, *indices: Spec, dims: Dims, wrap: bool = True) -> Spec:
    return Spec(selected_shape(x.shape, [i.shape for i in indices], dims), x.dtype, x.device)


def _with_lanes(size: int, indices: Sequence[Tensor]) -> list[Tensor]:
    """Batched indices aligned to one rank, led by an index that picks each its own batch."""
    rank = max(i.ndim for i in indices)
    lanes = indices[0].new_arange(size).reshape((size, *(1,) * (rank - 1)))
    return [lanes, *(i.reshape((size, *(1,) * (rank - i.ndim), *i.shape[1:])) for i in indices)]


def _index_batch(size: int, x: Tensor, *indices: Tensor, dims: Dims, wrap: bool = True) -> Tensor:
    """Index the batch too, by its own number, and keep it in front."""
    aligned = _with_lanes(size, indices)
    rank = aligned[0].ndim
    out = INDEX(x, *aligned, dims=(0, *(d + 1 for d in dims)), wrap=wrap)
    # The batch leads the picked block, which stands in front unless dims touch dimension 1.
    at = block_position(dims)
    if at == 0:
        return out
    return out.movedim(tuple(range(1, rank)), tuple(range(1 + at, at + rank)))


INDEX: Record = linear(
    "index",
    _index_infer,
    lambda g, x_spec, indices, dims: INDEX_PUT(
        g.new_zeros(x_spec.shape), g, *indices, dims=dims, accumulate=True
    ),
    None,
    operands=("x", "*indices"),
    batch=_index_batch,
    keeps_layout="picked",
    native_check=True,
    rounding="exact",
    fragment="computed",
    fills_zeros=True,
    in_steps=True,
    selects=True,
    indexed="read",
)


def _put_infer(
    x: Spec, y: Spec, *indices: Spec, dims: Dims, accumulate: bool, wrap: bool = True
) -> Spec:
    wanted = _index_infer(x, *indices, dims=dims).shape
    if y.shape != wanted:
        raise ShapeError(
            f"index_put: shape mismatch: value tensor of shape {list(y.shape)} is not the "
            f"indexing result's {list(wanted)}. Expand the values first."
        )
    return x


def _put_batch(
    size: int,
    x: Tensor,
    values: Tensor,
    *indices: Tensor,
    dims: Dims,
    accumulate: bool,
    wrap: bool = True,
) -> Tensor:
    aligned = _with_lanes(size, indices)
    rank = aligned[0].ndim
    at = block_position(dims)
    if at:  # the values' picked block moves in front, beside the batch
        values = values.movedim(tuple(range(1 + at, at + rank)), tuple(range(1, rank)))
    shifted = (0, *(d + 1 for d in dims))
    return INDEX_PUT(x, values, *aligned, dims=shifted, accumulate=accumulate, wrap=wrap)


def _put_self(g: Tensor, indices: Any, dims: Dims, accumulate: bool, y_spec: Spec) -> Tensor:
    if accumulate:
        return g
    return INDEX_PUT(g, g.new_zeros(y_spec.shape), *indices, dims=dims, accumulate=False)


# INDEX_PUT(x, values, *indices, dims, accumulate): x with values at (or added at) the indices.
# Values have the shape of INDEX's result.
INDEX_PUT: Record = linear(
    "index_put",
    _put_infer,
    _put_self,
    lambda g, indices, dims: INDEX(g, *indices, dims=dims),
    None,
    operands=("x", "y", "*indices"),
    batch=_put_batch,
    native_check=True,
    rounding="exact",
    fragment="computed",
    in_steps=True,
    indexed="written",
)


def out_of_bounds(
    name: str,
    index: Any,
    dim: int,
    size: int,
    *,
    accumulate: bool = False,
    wrap: bool = True,
    classes_of: str = "",
) -> Exception:
    """The error of an index that names no element.

    `classes_of` is the loss whose classes the indices are.
    """
    if classes_of:
        return IndexError(f"{classes_of}: Target {index} is out of bounds for {size} classes.")
    along = name in ("gather", "scatter", "scatter_reduce")
    added = name == "index_put" and accumulate and not wrap  # index_add
    rows = name == "index" and not wrap  # index_select, embedding, embedding_bag
    kind = BoundsError if added or rows else RuntimeError if along else IndexError
    return kind(f"{name}: index {index} is out of bounds for dimension {dim} with size {size}")


# -- index tensors ------------------------------------------------------------------------------


def require_index(
    name: str, index: Any, *dtypes: Any, error: type[Exception] = RuntimeError
) -> Any:
    """An index tensor as int64, refused unless it has one of `dtypes` (int32, int64)."""
    if not is_tensor(index):
        raise TypeError(f"{name}: expected a Tensor as index, received {type(index).__name__}")
    allowed = dtypes or (int64, int32)
    if index.dtype not in allowed:
        raise error(
            f"{name}: expected dtype {' or '.join(d.name for d in allowed)} for index, received "
            f"{index.dtype.name}. Convert it with .long()."
        )
    return index if index.dtype is int64 else index.to(int64)


def check_mask(mask: Tensor, shape: Sequence[int], dim: int) -> None:
    """Refuse a mask over dimensions `dim`... of a tensor that is not of their sizes."""
    for i, have in enumerate(mask.shape):
        if dim + i >= len(shape) or have != shape[dim + i]:
            raise ShapeIndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape "
                f"of the indexed tensor {list(shape)} at index {dim + i}"
            )


def expand_mask(mask: Tensor, shape: Sequence[int], dim: int) -> list[Tensor]:
    """A mask over dimensions `dim`... of a tensor, as one index per dimension it covers."""
    check_mask(mask, shape, dim)
    return list(mask.nonzero(as_tuple=True))


def _is_mask(index: Tensor) -> bool:
    return index.dtype is bool_ or index.dtype is uint8


def with_dims_for_truths(x: Tensor, indices: Sequence[Any]) -> tuple[Tensor, list[Any]]:
    """A tensor with a dimension more for each mask of no dimensions, which is then a mask of it."""
    given: list[Any] = []
    dim = 0
    for place, index in enumerate(indices):
        if index is not None and not is_tensor(index):
            raise TypeError(
                f"expected Tensor as element {place} in argument 0, but got {type(index).__name__}"
            )
        if index is not None and _is_mask(index) and index.ndim == 0 and dim <= x.ndim:
            x, index = x.unsqueeze(dim), index.reshape(1)
        given.append(index)
        dim += index.ndim if index is not None and _is_mask(index) else 1
    return x, given


def resolve_indices(x: Tensor, indices: Sequence[Any]) -> tuple[Dims, list[Tensor]]:
    """A sequence of index tensors, masks and Nones, as dimensions and int64 indices."""
    dims: list[int] = []
    picks: list[Tensor] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        is_mask = _is_mask(index)
        covers = index.ndim if is_mask else 1
        if dim + covers > x.ndim:
            raise ShapeIndexError(
                f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})"
            )
        if is_mask:
            indices_of = expand_mask(index, x.shape, dim)
        elif index.dtype in (int64, int32):
            indices_of = [index.to(int64)]
        else:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, received "
                f"{index.dtype.name}"
            )
        dims += range(dim, dim + covers)
        picks += indices_of
        dim += covers
    if dim > x.ndim:
        raise ShapeIndexError(
            f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})"
        )
    return tuple(dims), picks


def fit_values(values: Tensor, wanted: Dims) -> Tensor:
    """Values broadcast to what the indices select, extra leading dimensions of 1 dropped."""
    have = tuple(values.shape)
    if have == wanted:
        return values
    while len(have) > len(wanted) and have[0] == 1:
        have = have[1:]
    tail = wanted[len(wanted) - len(have) :]
    if len(have) > len(wanted) or any(h not in (1, w) for h, w in zip(have, tail, strict=True)):
        raise _mismatch(values, wanted)
    return values.reshape(have).expand(wanted)


def _mismatch(values: Tensor, wanted: Dims) -> ShapeError:
    return ShapeError(
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
        f"indexing result of shape {list(wanted)}"
    )


def same_dtype(name: str, x: Tensor, source: Tensor) -> None:
    """Refuse a source of another dtype, as PyTorch's index operations do."""
    if source.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: the source and destination dtypes must match, got {x.dtype.name} for the "
            f"destination and {source.dtype.name} for the source. Convert the source first."
        )


def _is_filled(x: Tensor, indices: Sequence[Any], values: Tensor) -> bool:
    """Whether one number goes where a mask of all elements holds, on a GPU in eager mode.

    Else positions are counted first, for which the host waits.
    """
    if len(indices) != 1 or not is_tensor(mask := indices[0]) or not CONTEXT.settled:
        return False
    there = all(t._array.__class__ in DEVICE_LAYOUTS for t in (x, mask, values))
    return (
        there
        and mask.dtype is bool_
        and bool(mask.ndim)
        and mask.shape == x.shape
        and not values.ndim
        and x.device == mask.device == values.device
    )


@public(method=True, inplace=True, numbers="elements")
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`input` with `values` put at (or with `accumulate` added at) the index tensors.

    >>> import adjoint as ad
    >>> i = ad.tensor([0, 0, 2])
    >>> ad.zeros(3).index_put((i,), ad.tensor(1.0), accumulate=True)
    tensor([2., 0., 1.])
    """
    same_dtype("index_put", input, values)
    if not accumulate and _is_filled(input, indices, values):
        return lying_as(input, input.masked_fill(indices[0], values))
    x, indices = with_dims_for_truths(input, indices)
    dims, picks = resolve_indices(x, indices)
    if not dims:
        return input.clone()
    wanted = selected_shape(x.shape, [p.shape for p in picks], dims)
    if values.ndim > len(wanted):  # an assignment drops leading dimensions of 1, this does not
        raise _mismatch(values, wanted)
    values = fit_values(values, wanted)
    out = INDEX_PUT(x, values, *picks, dims=dims, accumulate=accumulate)
    return lying_as(input, out if x is input else out.reshape(input.shape))


@method
def index(self: Tensor, indices: Sequence[Any]) -> Tensor:
    """The elements at the index tensors; None leaves a dimension whole."""
    x, indices = with_dims_for_truths(self, indices)
    dims, picks = resolve_indices(x, indices)
    return INDEX(x, *picks, dims=dims) if dims else self.clone()
