"""Searching: positions in sorted sequences, membership."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import bool_, int32, int64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import device_of, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.promotion import check_whole_numbers, common_dtype
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.reduce.extremes import refuse_bool, refuse_complex

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _search_infer(x: Spec, y: Spec, right: bool) -> Spec:
    return Spec(y.shape, int64, device_of("searchsorted", (x, y)))


def _search_batch(size: int, x: Tensor, y: Tensor, right: bool) -> Tensor:
    if x.ndim > 2:
        return SEARCHSORTED(x, y, right=right)
    rows = y.reshape(size, y.numel() // max(size, 1))  # one sequence may serve any shape
    return SEARCHSORTED(x, rows, right=right).reshape(y.shape)


# SEARCHSORTED(sequence, values): where values go along the last dimension of the sequence, which
# has the leading dimensions of the values, or is 1-D and serves all of them.
SEARCHSORTED: Record = primitive(
    "searchsorted",
    _search_infer,
    None,
    None,
    batch=_search_batch,
    rounding="exact",
    fragment="looped",
)
ISIN = primitive(
    "isin",
    lambda x, y: Spec(x.shape, bool_, device_of("isin", (x, y))),
    None,
    None,
    batch=lambda size, x, y: (
        x.unsqueeze(-1) == y.reshape((size, *(1,) * (x.ndim - 1), y.numel() // max(size, 1)))
    ).any(-1),
    native_check=True,
)


def _check_search(sequence: Tensor, values: Any, side: str | None, right: bool) -> None:
    if sequence.ndim == 0:
        raise ShapeError("searchsorted: the sorted sequence must have at least one dimension")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted: side can only be 'left' or 'right' but got {side!r}")
    if side == "left" and right:
        raise RuntimeError("searchsorted: side and right can't be set to opposites")
    if not is_tensor(values):
        if sequence.ndim != 1:
            raise ShapeError(
                "searchsorted: input value can be a scalar only when boundaries is 1 dimensional"
            )
        return
    if sequence.ndim != 1 and (
        values.ndim != sequence.ndim or values.shape[:-1] != sequence.shape[:-1]
    ):
        raise ShapeError(
            "searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got "
            f"{tuple(sequence.shape)} and {tuple(values.shape)}"
        )


@public(out=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value of `input` goes in a sorted sequence (the last dimension) to keep order.

    >>> import adjoint as ad
    >>> ad.searchsorted(ad.tensor([1, 3, 5]), ad.tensor([3, 6]))
    tensor([1, 3])
    """
    _check_search(sorted_sequence, input, side, right)
    sequence = sorted_sequence
    if sorter is not None:
        _check_sorter(sequence, sorter)
        sequence = sequence.gather(-1, sorter)
    if not is_tensor(input):
        check_whole_numbers("same", (sequence, input))
        kind = common_dtype((sequence, input))  # 1.5 among whole numbers stays 1.5
        if kind.is_floating_point and isinstance(input, int):
            input = float(input)
        input = FULL(input, shape=(), dtype=kind, device=sequence.device)
    common = common_dtype((sequence, input))
    if common.is_complex:
        raise NotImplementedError(f"searchsorted: not implemented for {common.name}")
    sequence, input = sequence.to(common), input.to(common)
    positions = SEARCHSORTED(sequence, input, right=right or side == "right")
    return positions.to(int32) if out_int32 else positions


def _check_sorter(sequence: Tensor, sorter: Tensor) -> None:
    if sorter.shape != sequence.shape:
        raise ShapeError(
            "searchsorted: boundary and sorter must have the same size, but got "
            f"{tuple(sequence.shape)} and {tuple(sorter.shape)}"
        )
    if sorter.dtype is not int64:
        raise DTypeError(
            f"searchsorted: sorter must be a tensor of long dtype but got dtype {sorter.dtype.name}"
        )


@public(out=True)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The index of the bucket, between neighbouring `boundaries`, each value falls in."""
    if boundaries.ndim != 1:
        raise ShapeError(
            f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public(out=True)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is among `test_elements`."""
    if not is_tensor(elements) and not is_tensor(test_elements):
        raise TypeError("isin: expected a tensor for elements or for test_elements")
    for x in (elements, test_elements):
        if is_tensor(x):
            refuse_complex("isin", x)
            refuse_bool("isin", x)
    if not is_tensor(test_elements) or not test_elements.shape:
        members = elements == test_elements
    else:
        if not is_tensor(elements):
            like = test_elements
            elements = FULL(elements, shape=(), dtype=like.dtype, device=like.device)
        members = ISIN(elements, test_elements)
    return members.logical_not() if invert else members
